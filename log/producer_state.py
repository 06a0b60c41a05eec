"""Who wrote last: epoch and sequences of each idempotent producer of a partition (KIP-98).

It makes a batch that was sent twice be acknowledged and not appended, and a gap be refused. The
state is in memory, follows from the batch headers in the log, and is saved in snapshots
(`<offset>.snapshot`: the state before that offset) in Apache Kafka's format, version 1. A
snapshot holds only the newest batch of each producer, as Kafka's does.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from kavka.log.errors import CorruptFileError
from kavka.wire.crc import crc32c
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.records import CONTROL, NO_PRODUCER_ID, BatchHeader

BATCHES_KEPT: Final = 5
"""Batches remembered per producer: as many as a client may have in flight."""

SNAPSHOT_VERSION: Final = 1
NO_EPOCH: Final = -1
SEQUENCE_MASK: Final = 0x7FFFFFFF
"""Sequences count from 0 to 2**31-1 and go on with 0."""

_HEAD: Final = struct.Struct(">hIi")  # version, CRC-32C of what follows it, number of entries
_CRC_END: Final = 6
_ENTRY: Final = struct.Struct(">qhiqiqiq")


class AppendedBatch(NamedTuple):
    """A batch that a producer has in the log. Timestamp: the greatest in it, in ms."""

    first_sequence: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def base_offset(self) -> int:
        return self.last_offset - self.offset_delta


class ProducerEntry:
    """What is known of one producer."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_sequence",
        "last_timestamp",
        "producer_id",
        "txn_first_offset",
    )

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.epoch = NO_EPOCH
        self.last_sequence = -1
        self.last_timestamp = -1
        self.coordinator_epoch = -1
        self.txn_first_offset = -1
        self.batches: deque[AppendedBatch] = deque(maxlen=BATCHES_KEPT)


class ProducerStates:
    """All producers of one partition."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[int, ProducerEntry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[ProducerEntry]:
        return iter(self._entries.values())

    def get(self, producer_id: int) -> ProducerEntry | None:
        """One producer; None when it has not written, or not for long."""
        return self._entries.get(producer_id)

    def check(self, header: BatchHeader) -> AppendedBatch | None:
        """Whether a producer's batch may be appended; changes nothing.

        Returns the batch as it already is in the log when this one is its copy, else None.
        ApiError: INVALID_PRODUCER_EPOCH for an older epoch than the producer's newest,
        OUT_OF_ORDER_SEQUENCE_NUMBER where records are missing in between. A producer that is
        not known may begin with any sequence: its state may have been forgotten.
        """
        entry = self._entries.get(header.producer_id)
        if entry is None:
            return None
        epoch = header.producer_epoch
        first = header.base_sequence
        if epoch == entry.epoch:
            if first == (entry.last_sequence + 1) & SEQUENCE_MASK:
                return None
            last = header.last_sequence
            for batch in entry.batches:
                if batch.first_sequence == first and batch.last_sequence == last:
                    return batch
            raise _out_of_order(header, f"the last one appended is {entry.last_sequence}")
        if epoch < entry.epoch:
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {header.producer_id} has epoch {entry.epoch}, the batch {epoch}",
            )
        if first != 0 and entry.epoch != NO_EPOCH:
            raise _out_of_order(header, f"epoch {epoch} is new and has to begin with 0")
        return None

    def update(self, header: BatchHeader, last_offset: int) -> None:
        """Note that a batch is in the log with its last record at `last_offset`."""
        producer_id = header.producer_id
        if producer_id == NO_PRODUCER_ID or header.attributes & CONTROL:
            return
        entry = self._entries.get(producer_id)
        if entry is None:
            self._entries[producer_id] = entry = ProducerEntry(producer_id)
        if entry.epoch != header.producer_epoch:
            entry.epoch = header.producer_epoch
            entry.batches.clear()
        delta = header.last_offset_delta
        first = header.base_sequence
        timestamp = header.max_timestamp
        last = (first + delta) & SEQUENCE_MASK
        entry.last_sequence = last
        entry.last_timestamp = timestamp
        entry.batches.append(AppendedBatch(first, last, last_offset, delta, timestamp))

    def clear(self) -> None:
        """Forget everyone."""
        self._entries.clear()

    def encode(self) -> bytes:
        """The snapshot file's content."""
        parts = [_encode_entry(entry) for entry in self._entries.values()]
        body = struct.pack(">i", len(parts)) + b"".join(parts)
        return struct.pack(">hI", SNAPSHOT_VERSION, crc32c(body)) + body

    def load(self, data: bytes, path: str) -> None:
        """Take over a snapshot file's content; CorruptFileError leaves nothing behind."""
        self._entries = {entry.producer_id: entry for entry in _decode_entries(data, path)}


def _out_of_order(header: BatchHeader, why: str) -> ApiError:
    return ApiError(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"producer {header.producer_id} sent sequence {header.base_sequence}, but {why}",
    )


def _encode_entry(entry: ProducerEntry) -> bytes:
    newest = entry.batches[-1] if entry.batches else None
    return _ENTRY.pack(
        entry.producer_id,
        entry.epoch,
        newest.last_sequence if newest else -1,
        newest.last_offset if newest else -1,
        newest.offset_delta if newest else 0,
        entry.last_timestamp,
        entry.coordinator_epoch,
        entry.txn_first_offset,
    )


def _decode_entries(data: bytes, path: str) -> Iterator[ProducerEntry]:
    if len(data) < _HEAD.size:
        raise CorruptFileError(path, "it is shorter than its header")
    version, crc, count = _HEAD.unpack_from(data)
    if version != SNAPSHOT_VERSION:
        raise CorruptFileError(path, f"its version is {version}, not {SNAPSHOT_VERSION}")
    if crc32c(memoryview(data)[_CRC_END:]) != crc:
        raise CorruptFileError(path, "its checksum is wrong")
    if len(data) != _HEAD.size + count * _ENTRY.size:
        raise CorruptFileError(path, f"it does not hold the {count} entries that it promises")
    for fields in _ENTRY.iter_unpack(memoryview(data)[_HEAD.size :]):
        yield _decode_entry(*fields)


def _decode_entry(
    producer_id: int,
    epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp: int,
    coordinator_epoch: int,
    txn_first_offset: int,
) -> ProducerEntry:
    entry = ProducerEntry(producer_id)
    entry.epoch = epoch
    entry.last_timestamp = timestamp
    entry.coordinator_epoch = coordinator_epoch
    entry.txn_first_offset = txn_first_offset
    if last_offset >= 0:
        first = (last_sequence - offset_delta) & SEQUENCE_MASK
        entry.last_sequence = last_sequence
        entry.batches.append(
            AppendedBatch(first, last_sequence, last_offset, offset_delta, timestamp)
        )
    return entry
