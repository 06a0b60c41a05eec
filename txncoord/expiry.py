"""Expires unused transactional ids: writes their tombstones. Pure.

All ids are scanned every `transaction.remove.expired.transaction.cleanup.interval.ms`, in steps
of one decision each: so the scan neither delays requests nor exceeds a batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kavka.log.journal import Decision, JournalRecord
from kavka.txncoord import transaction_records
from kavka.txncoord.state import TransactionsState
from kavka.txncoord.transaction import SETTLED

IDS_PER_STEP: Final = 500
"""Ids scanned in one step."""

TOMBSTONE_BYTES_PER_STEP: Final = 500_000
"""Bytes of keys in one batch of tombstones: half of what a batch may hold."""

SWEEP: Final = ("ids", "unused")


class TransactionalIdExpiry:
    """Expires the transactional ids of one partition."""

    def __init__(self, state: TransactionsState) -> None:
        self._state: Final = state
        self._round: Iterator[list[JournalRecord]] | None = None

    def wait(self, now_ms: int) -> None:
        """Schedule the next scan after the interval."""
        settings = self._state.settings()
        interval_ms = settings.transaction_remove_expired_transaction_cleanup_interval_ms
        self._state.timers.set(SWEEP, now_ms + interval_ms)

    def expire(self, now_ms: int) -> Decision:
        """Do the next step of the scan."""
        self._state.timers.set(SWEEP, now_ms)  # before anything that could fail
        if self._round is None:
            self._round = self._sweep(now_ms)
        tombstones = next(self._round, None)
        if tombstones is None:
            self._round = None
            self.wait(now_ms)
            return Decision()
        return Decision(tombstones)

    def _sweep(self, now_ms: int) -> Iterator[list[JournalRecord]]:
        """The tombstones of each step. Between two steps the state may change, but not `now_ms`."""
        unused_since_ms = now_ms - self._state.settings().transactional_id_expiration_ms
        step: list[JournalRecord] = []
        scanned = size_bytes = 0
        for transactional_id in list(self._state.transactions):
            scanned += 1
            if self._is_unused(transactional_id, unused_since_ms):
                step.append(transaction_records.tombstone(transactional_id))
                size_bytes += len(step[-1].key)
            if scanned >= IDS_PER_STEP or size_bytes >= TOMBSTONE_BYTES_PER_STEP:
                yield step
                step, scanned, size_bytes = [], 0, 0
        if step:
            yield step

    def _is_unused(self, transactional_id: str, since_ms: int) -> bool:
        transaction = self._state.transactions.get(transactional_id)
        return (
            transaction is not None
            and transaction.state in SETTLED
            and transaction.updated_ms <= since_ms
        )
