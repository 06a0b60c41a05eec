"""Transactional ids that nobody uses any more go with tombstones. Pure.

A look at all of them, every `transaction.remove.expired.transaction.cleanup.interval.ms`, is done
in steps, each of them one decision: so it neither holds up requests nor fills more than a batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from kavka.log.journal import Decision, Record
from kavka.txncoord import records
from kavka.txncoord.state import TransactionsState
from kavka.txncoord.transaction import SETTLED

LOOKED_AT_MAX: Final = 500
"""Ids looked at in one step."""

SWEEP: Final = ("ids", "unused")


class Expiry:
    """Of the transactional ids of one partition."""

    def __init__(self, state: TransactionsState) -> None:
        self._state: Final = state
        self._left: Iterator[str] | None = None
        """The ids that are still to be looked at in this round."""

    def wait(self, now_ms: int) -> None:
        """The next round comes after the interval."""
        settings = self._state.settings()
        interval_ms = settings.transaction_remove_expired_transaction_cleanup_interval_ms
        self._state.timers.set(SWEEP, now_ms + interval_ms)

    def expire(self, now_ms: int) -> Decision:
        """The next step."""
        if self._left is None:
            self._left = iter(list(self._state.transactions))
        ids = list(islice(self._left, LOOKED_AT_MAX))
        if not ids:
            self._left = None
            self.wait(now_ms)
            return Decision()
        self._state.timers.set(SWEEP, now_ms)
        return Decision(self._tombstones(ids, now_ms))

    def _tombstones(self, ids: list[str], now_ms: int) -> list[Record]:
        unused_since_ms = now_ms - self._state.settings().transactional_id_expiration_ms
        found = ((one, self._state.transactions.get(one)) for one in ids)
        return [
            records.tombstone(transactional_id)
            for transactional_id, one in found
            if one is not None and one.state in SETTLED and one.updated_ms <= unused_since_ms
        ]
