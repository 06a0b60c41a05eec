"""The state machine of one partition of `__transaction_state`. Pure.

It dispatches requests and expired timers to the parts.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterator, Sequence
from typing import Final

from kavka.log.journal import Decision, DecisionOrSteps, JournalRecord, Producer, ReplyFuture
from kavka.log.timers import Timers
from kavka.txncoord import transaction_records
from kavka.txncoord.ending import Ending
from kavka.txncoord.expiry import SWEEP, TransactionalIdExpiry
from kavka.txncoord.state import TransactionsState, pausing
from kavka.txncoord.transactional_producers import TransactionalProducers
from kavka.wire.steps import Steps

logger = logging.getLogger(__name__)

BYTES_PER_STEP: Final = 16 * 1024
"""Bytes of replayed values decoded before a pause, at up to 0.1 us each."""


class TransactionShard:
    """A `kavka.log.journal.Machine`."""

    def __init__(self, state: TransactionsState) -> None:
        self.state: Final = state
        self.timers: Timers = state.timers
        self._ending: Final = Ending(state)
        self._producers: Final = TransactionalProducers(state, self._ending)
        self._expiry: Final = TransactionalIdExpiry(state)
        self._leads = False
        self._undecoded: Final[dict[str, bytes]] = {}
        """Replayed values by transactional id, decoded when the partition is led: each added
        partition rewrites the whole transaction, and only the last value counts."""
        self.init_producer_id: Final = self._producers.init_producer_id
        self.add_partitions: Final = self._producers.add_partitions
        self.verify: Final = self._producers.verify
        self.has_added: Final = self._producers.has_added
        self.end: Final = self._ending.end
        self.markers_written: Final = self._ending.markers_written

    @property
    def uncompleted(self) -> int:
        """Transactions whose markers are written, but the record of their completion could not
        be."""
        return len(self._ending.uncompleted)

    def apply(self, record: JournalRecord, producer: Producer | None) -> None:
        """Apply a record to the state; it never fails, whatever the log contains."""
        transactional_id = transaction_records.decode_key(record.key)
        if transactional_id is None:
            logger.warning("skipped a record whose key can't be read: %r", record.key[:100])
        elif record.value is None:
            self.state.transactions.pop(transactional_id, None)
            self._undecoded.pop(transactional_id, None)
        elif self._leads:
            self._apply(transactional_id, record)
        elif transaction_records.is_known(record.value):
            self._undecoded[transactional_id] = record.value
        else:
            _skip(transactional_id)

    def _apply(self, transactional_id: str, record: JournalRecord) -> None:
        transaction = self.state.decode_record(record)
        if transaction is None:
            _skip(transactional_id)
            return
        self.state.transactions[transactional_id] = transaction
        self._ending.set_timeout(transactional_id, transaction)

    def apply_all(self, records: Sequence[JournalRecord], producer: Producer | None) -> None:
        """`apply` of each."""
        for record in records:
            self.apply(record, producer)

    def replay(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """`apply` of many records, in the order of the log."""
        for key, value in zip(keys, values, strict=True):
            self.apply(JournalRecord(key, value), None)

    def apply_marker(self, producer_id: int, producer_epoch: int, committed: bool) -> Steps[None]:
        """Do nothing: this partition has no transactional records."""
        yield from ()

    def loaded(self, now_ms: int) -> Iterator[Decision]:
        """Call once, when all records are replayed and this broker leads the partition; carry
        out the decisions one by one, as they come."""
        yield from self._read()
        self._leads = True
        yield from self._ending.loaded(now_ms)
        self._expiry.wait(now_ms)

    def _read(self) -> Iterator[Decision]:
        """Decode the replayed values, in steps."""
        size_bytes = 0
        for transactional_id, value in self._undecoded.items():
            transaction = yield from pausing(transaction_records.decode(value))
            if transaction is None:
                _skip(transactional_id)
            else:
                self.state.transactions[transactional_id] = transaction
            size_bytes += len(value)
            if size_bytes >= BYTES_PER_STEP:
                size_bytes = 0
                yield Decision()
        self._undecoded.clear()

    def expire(self, key: Hashable, now_ms: int) -> DecisionOrSteps:
        """Pass an expired timer to what has set it."""
        return self._expiry.expire(now_ms) if key == SWEEP else self._ending.expire(key, now_ms)

    def resign(self) -> Sequence[ReplyFuture]:
        """No requests wait here: they are answered, or wait for their records to be committed."""
        return ()


def _skip(transactional_id: str) -> None:
    logger.warning("skipped a record of transactional id %r: it can't be decoded", transactional_id)
