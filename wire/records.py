"""Record batches (magic 2) as they stand in a buffer: read, check, stamp; never re-encode.

A batch is a 61-byte header and its records, which may be compressed as a whole. The CRC covers
everything from the attributes on, so base offset and leader epoch, which lie before it, are
written in place without touching it (KIP-98's format). The records inside are opened only where
something must be found in them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

from kavka.wire import compression
from kavka.wire.compression import Bytes
from kavka.wire.crc import crc32c
from kavka.wire.errors import ApiError, ErrorCode

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES: Final = HEADER.size
LENGTH_PREFIX_BYTES: Final = 12
"""Base offset and length: what `batch_length` does not count."""

CRC_START: Final = 21
CURRENT_MAGIC: Final = 2

COMPRESSION_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
LZ4: Final = 3
ZSTD: Final = 4

NO_PRODUCER_ID: Final = -1
NO_SEQUENCE: Final = -1
NO_TIMESTAMP: Final = -1

RECORD_BYTES_MIN: Final = 7
"""Length, attributes, two deltas, null key, null value, no headers: a byte each."""

MESSAGE_BYTES_MAX: Final = 2**31 - 1
"""More than any batch can have."""

_MAGIC_AT: Final = 16
_MESSAGE_BYTES_MIN: Final = 14  # magic 0's overhead, the least that any magic has after its length
_VARINT_BITS: Final = 32
_VARLONG_BITS: Final = 64

_unpack_header = HEADER.unpack_from
_unpack_length = struct.Struct(">i").unpack_from
_unpack_base_offset = struct.Struct(">q").unpack_from
_unpack_attributes = struct.Struct(">h").unpack_from
_pack_base_offset = struct.Struct(">q").pack_into
_pack_leader_epoch = struct.Struct(">i").pack_into


class BatchHeader(NamedTuple):
    """The fixed part of a batch. Offsets are absolute, timestamps in ms, lengths in bytes."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """The whole batch in bytes."""
        return self.batch_length + LENGTH_PREFIX_BYTES

    @property
    def last_offset(self) -> int:
        """Offset of the last record."""
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record; sequences wrap from 2**31-1 to 0."""
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    @property
    def newest_timestamp(self) -> int:
        """The greatest timestamp of a record; NO_TIMESTAMP where compaction has left none, though
        the batch keeps the `max_timestamp` that its producer is known by."""
        return self.max_timestamp if self.record_count else NO_TIMESTAMP

    @property
    def compression(self) -> int:
        """Codec number: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & COMPRESSION_MASK

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)


def read_header(buffer: bytes | bytearray | memoryview, position: int = 0) -> BatchHeader:
    """The header at `position`; struct.error when fewer than 61 bytes are left."""
    return BatchHeader._make(_unpack_header(buffer, position))


def crc_of(batch: bytes | bytearray | memoryview) -> int:
    """CRC-32C of a whole batch, as its header should hold it."""
    return crc32c(memoryview(batch)[CRC_START:])


def stamp(batch: memoryview, base_offset: int, leader_epoch: int) -> None:
    """Write what the leader decides into the batch, outside the CRC."""
    _pack_base_offset(batch, 0, base_offset)
    _pack_leader_epoch(batch, 12, leader_epoch)


class Unreadable(ApiError):
    """A batch whose length or magic makes no sense: Apache Kafka, which looks at the first batch
    of every partition before all else, refuses the whole request for it."""


class Unacceptable(ApiError):
    """Records that no Produce request of this version may hold, whatever the log is like."""


def attributes_of_first(records: memoryview) -> int:
    """The attributes of the first batch, 0 where there is no whole one of magic 2; Unreadable."""
    held = len(records)
    if held < LENGTH_PREFIX_BYTES:
        return 0
    (length,) = _unpack_length(records, 8)
    _check_start(records, length)
    if length + LENGTH_PREFIX_BYTES > held or records[_MAGIC_AT] != CURRENT_MAGIC:
        return 0
    attributes: int = _unpack_attributes(records, CRC_START)[0]
    return attributes


def _check_start(records: memoryview, length: int) -> None:
    if length < _MESSAGE_BYTES_MIN:
        raise Unreadable(
            ErrorCode.CORRUPT_MESSAGE,
            f"Record size {length} is less than the minimum record overhead ({_MESSAGE_BYTES_MIN})",
        )
    if len(records) > _MAGIC_AT and records[_MAGIC_AT] > CURRENT_MAGIC:
        magic = records[_MAGIC_AT]
        raise Unreadable(
            ErrorCode.CORRUPT_MESSAGE,
            f"Invalid magic found in record: {magic - 256 if magic > 127 else magic}",
        )


def check_batch(
    records: memoryview, codec_max: int = ZSTD, bytes_max: int = MESSAGE_BYTES_MAX
) -> BatchHeader:
    """The header of what a client sent for one partition, if it may be appended.

    One batch of magic 2 and of at most `bytes_max` bytes with the right CRC, offsets from 0, as
    many records as offsets, no control batch, and a sequence if it has a producer id. The records
    inside are not opened.
    As in Apache Kafka there may be a part of another one behind the batch, which is not to be
    appended (the header's `size` tells), and the flag of LogAppendTime, which is not the client's
    to set: `kavka.server.replica.batch_admission` sees to it.
    ApiError as Apache Kafka's `ProduceRequest`, `UnifiedLog` and `LogValidator` answer, in their
    order: Unreadable, Unacceptable, INVALID_RECORD, MESSAGE_TOO_LARGE, CORRUPT_MESSAGE.
    """
    size = len(records)
    if size < HEADER_BYTES:
        return _look_closer(records, codec_max, bytes_max)
    header: BatchHeader = _new_tuple(BatchHeader, _unpack_header(records))
    base_offset, length, _, magic, crc, attributes, last_delta, _, _, producer, _, first, n = header
    if (
        length + LENGTH_PREFIX_BYTES != size
        or magic != CURRENT_MAGIC
        or attributes & _CODEC_OR_FORBIDDEN > codec_max
        or n != last_delta + 1
        or n <= 0
        or base_offset != 0
        or size > bytes_max
        or (first < 0 and producer >= 0)
        or crc32c(records[CRC_START:]) != crc
    ):
        return _look_closer(records, codec_max, bytes_max)
    return header


_new_tuple: Final = tuple.__new__
_CODEC_OR_FORBIDDEN: Final = COMPRESSION_MASK | LOG_APPEND_TIME | CONTROL


def _look_closer(records: memoryview, codec_max: int, bytes_max: int) -> BatchHeader:
    """The header after mending, or the first reason to refuse in Apache Kafka's order."""
    size = _size_of_only_batch(records, codec_max)
    batch = records[:size]
    (base_offset,) = _unpack_base_offset(batch)
    if base_offset != 0:
        raise malformed(f"base offset must be 0, not {base_offset}")
    if size > bytes_max:
        raise ApiError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch of {size} bytes exceeds max.message.bytes={bytes_max}",
        )
    if size < HEADER_BYTES:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"a batch of {size} bytes is too short")
    header = read_header(batch)
    if crc_of(batch) != header.crc:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, "CRC mismatch")
    if header.compression > ZSTD:
        raise ApiError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"unknown compression codec {header.compression}"
        )
    if header.record_count <= 0 or header.record_count != header.last_offset_delta + 1:
        raise malformed(
            f"record count {header.record_count} with last offset delta {header.last_offset_delta}"
        )
    if header.is_control:
        raise malformed("clients are not allowed to write control batches")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise malformed(f"sequence {header.base_sequence} with producer id {header.producer_id}")
    return header


def _size_of_only_batch(records: memoryview, codec_max: int) -> int:
    """Bytes of the one batch that there is; part of another one may follow it."""
    held = len(records)
    size = _size_of_whole(records)
    if not size:
        raise Unacceptable(
            ErrorCode.INVALID_RECORD, f"no whole record batch among {held} bytes of records"
        )
    if records[_MAGIC_AT] < CURRENT_MAGIC:
        raise Unacceptable(
            ErrorCode.INVALID_RECORD, f"magic {records[_MAGIC_AT]}, only 2 is allowed"
        )
    (attributes,) = _unpack_attributes(records, CRC_START)
    codec = attributes & COMPRESSION_MASK
    if codec > codec_max:
        _check_codec(codec, codec_max)
    try:
        more = size < held and _size_of_whole(records[size:])
    except Unreadable as refusal:
        raise Unacceptable(refusal.code, refusal.message) from None
    if more:
        raise Unacceptable(ErrorCode.INVALID_RECORD, "more than one batch for a partition")
    return size


def _check_codec(codec: int, codec_max: int) -> None:
    """Only versions without zstd look at the codec this early. Codecs that there are not end in
    an exception that Apache Kafka does not expect: UNKNOWN_SERVER_ERROR."""
    if codec == ZSTD:
        raise Unacceptable(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd in an old version")
    if codec_max < ZSTD:
        raise Unacceptable(ErrorCode.UNKNOWN_SERVER_ERROR, f"no compression {codec}")


def _size_of_whole(records: memoryview) -> int:
    """Bytes of the batch at the start, 0 if it is not whole; Unreadable."""
    held = len(records)
    if held < LENGTH_PREFIX_BYTES:
        return 0
    (length,) = _unpack_length(records, 8)
    _check_start(records, length)
    size: int = length + LENGTH_PREFIX_BYTES
    return size if size <= held else 0


def malformed(message: str) -> ApiError:
    """The refusal of records that contradict themselves."""
    return ApiError(ErrorCode.INVALID_RECORD, message)


class Record(NamedTuple):
    """One record. Key, value and headers are slices of the payload, null as None."""

    offset_delta: int
    timestamp_delta: int
    key: Bytes | None
    value: Bytes | None
    headers: list[tuple[Bytes, Bytes | None]]


def payload_of(header: BatchHeader, batch: Bytes, limit_bytes: int) -> Bytes:
    """The records of a whole batch, inflated to at most `limit_bytes`.

    ApiError CORRUPT_MESSAGE when they cannot be; see `compression.decompress`.
    """
    inner = memoryview(batch)[HEADER_BYTES : header.size]
    return compression.decompress(header.compression, inner, limit_bytes)


def iter_records(header: BatchHeader, payload: Bytes) -> Iterator[Record]:
    """The records in `payload`, one by one; ApiError INVALID_RECORD once they are malformed.

    As many as the header says, and nothing may be left after the last (`DefaultRecordBatch`).
    """
    position, end = 0, len(payload)
    if header.record_count * RECORD_BYTES_MIN > end:
        raise malformed(f"{header.record_count} records in {end} bytes")
    try:
        for _ in range(header.record_count):
            record, position = _read_record(payload, position, end)
            yield record
    except IndexError:
        raise malformed("a record goes past the end of its batch") from None
    if position != end:
        raise malformed(f"{end - position} bytes after the last record")


def _read_record(payload: Bytes, position: int, end: int) -> tuple[Record, int]:
    size, position = read_varint(payload, position)
    record_end = position + size
    if size <= 0 or record_end > end:
        raise malformed(f"a record of {size} bytes, {end - position} are left")
    timestamp_delta, position = read_varint(payload, position + 1, _VARLONG_BITS)
    offset_delta, position = read_varint(payload, position)
    key, position = _read_nullable(payload, position, record_end)
    value, position = _read_nullable(payload, position, record_end)
    count, position = read_varint(payload, position)
    headers: list[tuple[Bytes, Bytes | None]] = []
    if count:
        if not 0 <= count <= record_end - position:
            raise malformed(f"{count} headers in {record_end - position} bytes")
        for _ in range(count):
            name, position = _read_nullable(payload, position, record_end)
            if name is None:
                raise malformed("a header without a name")
            content, position = _read_nullable(payload, position, record_end)
            headers.append((name, content))
    if position != record_end:
        raise malformed(f"a record of {size} bytes ends {position - record_end} bytes off")
    return Record(offset_delta, timestamp_delta, key, value, headers), position


def _read_nullable(payload: Bytes, position: int, end: int) -> tuple[Bytes | None, int]:
    size, position = read_varint(payload, position)
    if size < 0:
        return None, position
    if size > end - position:
        raise malformed(f"a field of {size} bytes, {end - position} are left")
    return payload[position : position + size], position + size


def read_varint(payload: Bytes, position: int, bits: int = _VARINT_BITS) -> tuple[int, int]:
    """(value, position after it) of a zigzag varint; IndexError past the end."""
    byte = payload[position]
    position += 1
    value = byte & 0x7F
    shift = 7
    while byte > 0x7F:
        if shift >= bits:
            raise malformed(f"a varint of more than {bits} bits")
        byte = payload[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
    value &= (1 << bits) - 1
    return (value >> 1) ^ -(value & 1), position


class FirstAtOrAfter:
    """A search for the first record, from `from_offset` on, that is not older than a time.

    With the header's `max_timestamp` it finds the record that has it. `found` is then its
    (offset, timestamp in ms). Made in steps, since a batch may hold more records than the loop
    can be held for.
    """

    def __init__(
        self, header: BatchHeader, payload: Bytes, timestamp_ms: int, from_offset: int = 0
    ) -> None:
        self.found: tuple[int, int] | None = None
        self._header = header
        self._timestamp_ms = timestamp_ms
        self._from_offset = from_offset
        self._deltas = _iter_deltas(header, payload)

    def step(self, records_max: int) -> bool:
        """Look at so many more records; whether the search is over."""
        header = self._header
        appended = header.attributes & LOG_APPEND_TIME
        looked_at = 0
        for offset_delta, timestamp_delta in islice(self._deltas, records_max):
            looked_at += 1
            timestamp = (
                header.max_timestamp if appended else header.base_timestamp + timestamp_delta
            )
            offset = header.base_offset + offset_delta
            if timestamp >= self._timestamp_ms and offset >= self._from_offset:
                self.found = (offset, timestamp)
                return True
        return looked_at < records_max


def _iter_deltas(header: BatchHeader, payload: Bytes) -> Iterator[tuple[int, int]]:
    """(offset delta, timestamp delta) of each record, without a look at the rest of it."""
    position, end = 0, len(payload)
    try:
        for _ in range(header.record_count):
            size, position = read_varint(payload, position)
            record_end = position + size
            if size <= 0 or record_end > end:
                raise malformed(f"a record of {size} bytes, {end - position} are left")
            timestamp_delta, position = read_varint(payload, position + 1, _VARLONG_BITS)
            offset_delta, _ = read_varint(payload, position)
            position = record_end
            yield offset_delta, timestamp_delta
    except IndexError:
        raise malformed("a record goes past the end of its batch") from None
