"""What compaction knows of transactions, batch by batch: which were aborted, and which markers
are needed no more (KIP-98, and Apache Kafka's `CleanedTransactionMetadata`).

Aborted data goes at once. A marker goes only after all records of its transaction have gone, and
then not before its delete horizon has passed, so that a reader who has seen records of the
transaction meets the marker too.
"""

from __future__ import annotations

from collections.abc import Iterable

from kavka.log.txn_index import AbortedTxn
from kavka.wire.control_records import Marker
from kavka.wire.records import BatchHeader


class CleanedTransactions:
    """To be told of every batch in the order of offsets."""

    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
        """`aborted`: transactions with records at or behind the first batch to come."""
        self._to_come = sorted(aborted, key=lambda txn: -txn.first_offset)
        self._aborted: dict[int, AbortedTxn] = {}  # those under way, by producer
        self._with_data: dict[int, None] = {}  # producers of `_aborted` with a batch still there
        self._committed: dict[int, None] = {}  # producers of others with a batch still there

    def data(self, header: BatchHeader) -> bool:
        """Whether a batch of records was aborted."""
        self._begin_upto(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._aborted:
            self._with_data[header.producer_id] = None
            return True
        self._committed[header.producer_id] = None
        return False

    def marker(self, header: BatchHeader, marker: Marker | None) -> tuple[bool, AbortedTxn | None]:
        """Whether a control batch is needed no more, and the entry of the transaction index that
        it takes along when it is. `marker` is what it says, None for another kind."""
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
