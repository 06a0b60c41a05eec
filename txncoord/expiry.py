"""Transactional ids that nobody uses any more go with tombstones. Pure.

A look at all of them, every `transaction.remove.expired.transaction.cleanup.interval.ms`, is done
in steps, each of them one decision: so it neither holds up requests nor fills more than a batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kavka.log.journal import Decision, Record
from kavka.txncoord import records
from kavka.txncoord.state import TransactionsState
from kavka.txncoord.transaction import SETTLED

IDS_A_STEP: Final = 500
"""Ids looked at in one step."""

TOMBSTONE_BYTES_A_STEP: Final = 500_000
"""Keys that go into one batch where there are many: half of what it may hold."""

SWEEP: Final = ("ids", "unused")


class Expiry:
    """Of the transactional ids of one partition."""

    def __init__(self, state: TransactionsState) -> None:
        self._state: Final = state
        self._round: Iterator[list[Record]] | None = None

    def wait(self, now_ms: int) -> None:
        """The next round comes after the interval."""
        settings = self._state.settings()
        interval_ms = settings.transaction_remove_expired_transaction_cleanup_interval_ms
        self._state.timers.set(SWEEP, now_ms + interval_ms)

    def expire(self, now_ms: int) -> Decision:
        """The next step."""
        self._state.timers.set(SWEEP, now_ms)  # before anything that could fail
        if self._round is None:
            self._round = self._sweep(now_ms)
        tombstones = next(self._round, None)
        if tombstones is None:
            self._round = None
            self.wait(now_ms)
            return Decision()
        return Decision(tombstones)

    def _sweep(self, now_ms: int) -> Iterator[list[Record]]:
        """The tombstones of each step. Between two steps all may change, but for `now_ms`."""
        unused_since_ms = now_ms - self._state.settings().transactional_id_expiration_ms
        step: list[Record] = []
        scanned = size_bytes = 0
        for transactional_id in list(self._state.transactions):
            scanned += 1
            if self._is_unused(transactional_id, unused_since_ms):
                step.append(records.tombstone(transactional_id))
                size_bytes += len(step[-1].key)
            if scanned >= IDS_A_STEP or size_bytes >= TOMBSTONE_BYTES_A_STEP:
                yield step
                step, scanned, size_bytes = [], 0, 0
        if step:
            yield step

    def _is_unused(self, transactional_id: str, since_ms: int) -> bool:
        one = self._state.transactions.get(transactional_id)
        return one is not None and one.state in SETTLED and one.updated_ms <= since_ms
