"""Which records of a batch are kept: the rules of Apache Kafka's log cleaner (`Cleaner`,
`MemoryRecords`).

A record is kept if the offset map has no later record with its key. A tombstone (a record without a
value) is kept until its delete horizon, which its batch gets at its first compaction, has passed
(KIP-534). A batch without records is kept as a bare header if it has its producer's last sequence
or is the last one of its segment.

Other than in Apache Kafka it is also kept if it has the producer's last sequence before the end of
the part that is compacted. Later batches may be truncated, or lost by a power failure; the producer
would then be unknown, or known with an older sequence, to all who rebuild its state from the log:
recovery, a truncation without a snapshot there, and new followers.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kavka.log.compaction.offset_map import OffsetMap
from kavka.log.compaction.order import LastRecord
from kavka.log.compaction.parsed_records import (
    BrokenRecords,
    ParsedRecords,
    join,
    join_shifted,
    split,
    timestamp_deltas,
)
from kavka.log.compaction.transactions import CleanedTransactions
from kavka.log.txn_index import AbortedTxn
from kavka.wire.compressing import compress
from kavka.wire.control_records import Marker, read_marker
from kavka.wire.crc import crc32c
from kavka.wire.errors import ApiError
from kavka.wire.record_batches import (
    COMPRESSION_MASK,
    CONTROL,
    CRC_START,
    HEADER,
    LENGTH_PREFIX_BYTES,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    payload_of,
    read_header,
)

DELETE_HORIZON: Final = 0x40
"""Attribute of a batch whose base timestamp is the delete horizon: the time when its tombstones,
or its marker, may be removed."""

INFLATED_BYTES_MAX: Final = 128 << 20
"""A batch that is larger when decompressed is kept unchanged."""

RECORDS_MAX: Final = 1 << 20
"""A batch with more records is kept unchanged: parsed, a record needs about 150 bytes."""

_pack_crc: Final = struct.Struct(">I").pack_into
_CRC_AT: Final = 17


@dataclass(slots=True)
class FilterCounts:
    """Counters of the filter."""

    batches_broken: int = 0
    records_read: int = 0
    records_kept: int = 0
    records_keyless: int = 0


def open_records(header: BatchHeader, batch: bytes) -> ParsedRecords:
    """Parse the records of a batch; BrokenRecords if they are invalid."""
    if header.record_count > RECORDS_MAX:
        raise BrokenRecords(f"{header.record_count} records are too many to be parsed")
    try:
        payload = payload_of(header, batch, INFLATED_BYTES_MAX)
    except ApiError as error:
        raise BrokenRecords(error.message) from error
    return split(bytes(payload), header.record_count, header.last_offset_delta)


def marker_of(header: BatchHeader, batch: bytes) -> Marker | None:
    """The transaction marker in a control batch; None if it has another content."""
    try:
        return read_marker(header, batch)
    except ApiError:
        return None


class BatchFilter:
    """The filter for one compaction of a log: has to be called for every batch in offset order."""

    def __init__(
        self,
        offsets: OffsetMap,
        transactions: CleanedTransactions,
        producers: Mapping[int, LastRecord],
        producers_before_end: Mapping[int, LastRecord],
        *,
        now_ms: int,
        delete_retention_ms: int,
    ) -> None:
        """`producers`: the last records of all producers; `producers_before_end`: of those that
        have written at or after the end of the part that is compacted, the last ones before it."""
        self.counts = FilterCounts()
        self.aborted: list[AbortedTxn] = []
        """Transaction index entries of kept markers; the caller removes them."""
        self._offsets = offsets
        self._transactions = transactions
        self._producers = producers
        self._producers_before_end = producers_before_end
        self._now_ms = now_ms
        self._horizon_ms = now_ms + delete_retention_ms

    def filter_batch(
        self, header: BatchHeader, batch: bytes, *, is_last: bool
    ) -> bytes | bytearray | None:
        """The batch to write: `batch` itself if nothing changes, None to drop it. `is_last`: it is
        the last one of its segment, and kept even if empty, to preserve the end offset."""
        self.counts.records_read += header.record_count
        if header.is_control:
            kept = self._filter_control(header, batch)
        elif self._transactions.is_aborted_batch(header):
            kept = None
        else:
            kept = self._filter_data(header, batch)
        if kept is None and (is_last or self._is_last_of_producer(header)):
            kept = _without_records(header, batch)
        return kept

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        last = self._producers.get(header.producer_id)
        if last is None:
            return False
        before_end = self._producers_before_end.get(header.producer_id, last)
        return last.may_be(header) or before_end.may_be(header)

    def _filter_control(self, header: BatchHeader, batch: bytes) -> bytes | bytearray | None:
        is_idle, aborted = self._transactions.on_control_batch(header, marker_of(header, batch))
        if aborted is not None:
            self.aborted.append(aborted)
        if not header.record_count:
            return None
        horizon_ms = _horizon_of(header)
        if is_idle and horizon_ms is not None and horizon_ms <= self._now_ms:
            return None
        self.counts.records_kept += header.record_count
        if not is_idle or horizon_ms is not None:
            return batch
        try:
            records = open_records(header, batch)
        except BrokenRecords:
            self.counts.batches_broken += 1
            return batch
        return self._rewrite(header, records, range(header.record_count), new_horizon=True)

    def _filter_data(self, header: BatchHeader, batch: bytes) -> bytes | bytearray | None:
        try:
            records = open_records(header, batch)
        except BrokenRecords:
            self.counts.batches_broken += 1
            self.counts.records_kept += header.record_count
            return batch
        kept = self._kept_indexes(header, records)
        self.counts.records_kept += len(kept)
        if not kept:
            return None
        has_tombstone = bool(records.tombstones) and not set(records.tombstones).isdisjoint(kept)
        new_horizon = has_tombstone and not header.attributes & DELETE_HORIZON
        if len(kept) == header.record_count and not new_horizon:
            return batch
        return self._rewrite(header, records, kept, new_horizon=new_horizon)

    def _kept_indexes(self, header: BatchHeader, records: ParsedRecords) -> Sequence[int]:
        """The indexes of the kept records."""
        base = header.base_offset
        found = self._offsets.get(records.keys)
        pairs = enumerate(zip(records.deltas, found, strict=True))
        kept = [slot for slot, (delta, last) in pairs if base + delta >= last]
        gone = {}
        if records.tombstones:
            horizon_ms = _horizon_of(header)
            if horizon_ms is not None and horizon_ms <= self._now_ms:
                gone = dict.fromkeys(records.tombstones)
        if records.keyless:
            gone |= dict.fromkeys(records.keyless)
            self.counts.records_keyless += len(records.keyless)
        if not gone:
            return kept
        beyond = self._offsets.latest_offset - base
        deltas = records.deltas
        return [slot for slot in kept if slot not in gone or deltas[slot] > beyond]

    def _rewrite(
        self, header: BatchHeader, records: ParsedRecords, kept: Sequence[int], *, new_horizon: bool
    ) -> bytearray:
        """The batch with only the kept records. Offsets, and so the last sequence, don't change."""
        attributes = header.attributes & _KNOWN
        base_timestamp = header.base_timestamp
        max_timestamp = header.max_timestamp
        if len(kept) < header.record_count and not attributes & LOG_APPEND_TIME:
            max_timestamp = base_timestamp + max(timestamp_deltas(records, kept))
        if new_horizon:
            payload = join_shifted(records, kept, self._horizon_ms - base_timestamp)
            base_timestamp = self._horizon_ms
            attributes |= DELETE_HORIZON
        else:
            payload = join(records, kept)
        return _build(
            header._replace(
                attributes=attributes,
                base_timestamp=base_timestamp,
                max_timestamp=max_timestamp,
                record_count=len(kept),
            ),
            bytes(compress(header.compression, payload)),
        )


_KNOWN: Final = COMPRESSION_MASK | LOG_APPEND_TIME | TRANSACTIONAL | CONTROL | DELETE_HORIZON


def _horizon_of(header: BatchHeader) -> int | None:
    return header.base_timestamp if header.attributes & DELETE_HORIZON else None


def _without_records(header: BatchHeader, batch: bytes) -> bytes | bytearray:
    """The bare header of a batch, as Apache Kafka writes it."""
    if not header.record_count:
        return batch
    kept = LOG_APPEND_TIME | TRANSACTIONAL | CONTROL
    return _build(
        header._replace(
            attributes=header.attributes & kept, base_timestamp=NO_TIMESTAMP, record_count=0
        ),
        b"",
    )


def _build(header: BatchHeader, payload: bytes) -> bytearray:
    """A batch with this payload of (compressed) records."""
    batch = bytearray(HEADER.size)
    batch += payload
    fields = header._replace(batch_length=len(batch) - LENGTH_PREFIX_BYTES, crc=0)
    HEADER.pack_into(batch, 0, *fields)
    _pack_crc(batch, _CRC_AT, crc32c(memoryview(batch)[CRC_START:]))
    return batch


def header_of(kept: bytes | bytearray, header: BatchHeader, batch: bytes) -> BatchHeader:
    """The header of `kept`, which `BatchFilter.filter_batch` returned for `batch`."""
    return header if kept is batch else read_header(kept)
