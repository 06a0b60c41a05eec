"""Transactions during compaction: which batches were aborted, and which markers are no longer
needed (KIP-98; Apache Kafka's `CleanedTransactionMetadata`).

Aborted records are removed at once. A marker is removed only when all records of its transaction
have been removed and its delete horizon has passed, so that a consumer that has read records of the
transaction also gets the marker.
"""

from __future__ import annotations

from collections.abc import Iterable

from kavka.log.txn_index import AbortedTxn
from kavka.wire.control_records import Marker
from kavka.wire.record_batches import BatchHeader


class CleanedTransactions:
    """Has to be called for every batch in offset order."""

    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
        """`aborted`: transactions with records at or after the first batch."""
        self._to_come = sorted(aborted, key=lambda txn: -txn.first_offset)
        self._aborted: dict[int, AbortedTxn] = {}  # the ongoing ones, by producer
        self._with_data: dict[int, None] = {}  # producers of `_aborted` with a batch in the log
        self._committed: dict[int, None] = {}  # producers of others with a batch in the log

    def is_aborted_batch(self, header: BatchHeader) -> bool:
        """Whether a batch of records belongs to an aborted transaction."""
        self._begin_upto(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._aborted:
            self._with_data[header.producer_id] = None
            return True
        self._committed[header.producer_id] = None
        return False

    def on_control_batch(
        self, header: BatchHeader, marker: Marker | None
    ) -> tuple[bool, AbortedTxn | None]:
        """Whether a control batch is no longer needed; if it is, the transaction index entry that
        is kept with it, if any. `marker` is its content, None if it is no transaction marker."""
        self._begin_upto(header.last_offset)
        if not header.record_count:
            return True, None  # emptied by an earlier compaction
        if marker is None:
            return False, None
        producer_id = header.producer_id
        if marker.committed:
            return self._committed.pop(producer_id, self) is self, None
        aborted = self._aborted.pop(producer_id, None)
        if self._with_data.pop(producer_id, self) is self:
            return True, None
        return False, aborted

    def _begin_upto(self, offset: int) -> None:
        waiting = self._to_come
        while waiting and waiting[-1].first_offset <= offset:
            aborted = waiting.pop()
            self._aborted.setdefault(aborted.producer_id, aborted)
