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

_MAGIC_AT: Final = 16
_MESSAGE_BYTES_MIN: Final = 14  # magic 0's overhead, the least that any magic has after its length
_VARINT_BITS: Final = 32
_VARLONG_BITS: Final = 64

_unpack_header = HEADER.unpack_from
_unpack_length = struct.Struct(">i").unpack_from
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


def check_batch(records: memoryview, codec_max: int = ZSTD) -> BatchHeader:
    """The header of what a client sent for one partition, if it may be appended.

    One whole batch of magic 2 with the right CRC, offsets from 0, as many records as offsets, no
    control batch, and a sequence if it has a producer id. The records inside are not opened.
    ApiError CORRUPT_MESSAGE, INVALID_RECORD, INVALID_TIMESTAMP or UNSUPPORTED_COMPRESSION_TYPE
    (a codec above `codec_max`), as Apache Kafka's `ProduceRequest`, `UnifiedLog` and
    `LogValidator` answer. Where it would let half a batch at the end pass, and cut it off, this
    refuses.
    """
    size = len(records)
    if size < HEADER_BYTES:
        raise _refusal(records, codec_max)
    header: BatchHeader = _new_tuple(BatchHeader, _unpack_header(records))
    base_offset, length, _, magic, crc, attributes, last_delta, _, _, producer, _, first, n = header
    if (
        length + LENGTH_PREFIX_BYTES != size
        or magic != CURRENT_MAGIC
        or attributes & _CODEC_OR_FORBIDDEN > codec_max
        or n != last_delta + 1
        or n <= 0
        or base_offset != 0
        or (first < 0 and producer >= 0)
        or crc32c(records[CRC_START:]) != crc
    ):
        raise _refusal(records, codec_max)
    return header


_new_tuple: Final = tuple.__new__
_CODEC_OR_FORBIDDEN: Final = COMPRESSION_MASK | LOG_APPEND_TIME | CONTROL


def _refusal(records: memoryview, codec_max: int) -> ApiError:
    """Why a client's records are refused; the first reason in Apache Kafka's order."""
    refusal = _refusal_of_size(records)
    if refusal is not None:
        return refusal
    header = read_header(records)
    codec = header.compression
    if codec > codec_max:
        return ApiError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"compression codec {codec} is not supported"
        )
    if header.base_offset != 0:
        return _invalid(f"the base offset should be 0, it is {header.base_offset}")
    if crc_of(records) != header.crc:
        return ApiError(ErrorCode.CORRUPT_MESSAGE, "the CRC does not fit the batch")
    if header.record_count <= 0 or header.record_count != header.last_offset_delta + 1:
        return _invalid(
            f"{header.record_count} records, but offsets from 0 to {header.last_offset_delta}"
        )
    if header.is_control:
        return _invalid("clients are not allowed to write control batches")
    if header.attributes & LOG_APPEND_TIME:
        return ApiError(
            ErrorCode.INVALID_TIMESTAMP, "a producer should not set the type LogAppendTime"
        )
    return _invalid(f"sequence {header.base_sequence} with producer id {header.producer_id}")


def _refusal_of_size(records: memoryview) -> ApiError | None:
    """Why `records` is not one whole batch of magic 2, or None when it is."""
    held = len(records)
    if held < LENGTH_PREFIX_BYTES:
        return _invalid("there must be a record batch for each partition")
    (length,) = _unpack_length(records, 8)
    if length < _MESSAGE_BYTES_MIN:
        return ApiError(ErrorCode.CORRUPT_MESSAGE, f"a batch length of {length} bytes")
    size = length + LENGTH_PREFIX_BYTES
    if size > held:
        return _invalid(f"a batch of {size} bytes, of which {held} were sent")
    magic = records[_MAGIC_AT]
    if magic > CURRENT_MAGIC:
        return ApiError(ErrorCode.CORRUPT_MESSAGE, f"unknown magic {magic}")
    if magic < CURRENT_MAGIC:
        return _invalid(f"magic {magic}; only batches of magic 2 are allowed")
    if size < held:
        return _invalid(f"{held - size} bytes after the batch; exactly one is allowed")
    if size < HEADER_BYTES:
        return ApiError(ErrorCode.CORRUPT_MESSAGE, f"a batch of {size} bytes")
    return None


def _invalid(message: str) -> ApiError:
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
        raise _invalid(f"{header.record_count} records in {end} bytes")
    try:
        for _ in range(header.record_count):
            record, position = _read_record(payload, position, end)
            yield record
    except IndexError:
        raise _invalid("a record goes past the end of its batch") from None
    if position != end:
        raise _invalid(f"{end - position} bytes after the last record")


def _read_record(payload: Bytes, position: int, end: int) -> tuple[Record, int]:
    size, position = read_varint(payload, position)
    record_end = position + size
    if size <= 0 or record_end > end:
        raise _invalid(f"a record of {size} bytes, {end - position} are left")
    timestamp_delta, position = read_varint(payload, position + 1, _VARLONG_BITS)
    offset_delta, position = read_varint(payload, position)
    key, position = _read_nullable(payload, position, record_end)
    value, position = _read_nullable(payload, position, record_end)
    count, position = read_varint(payload, position)
    headers: list[tuple[Bytes, Bytes | None]] = []
    if count:
        if not 0 <= count <= record_end - position:
            raise _invalid(f"{count} headers in {record_end - position} bytes")
        for _ in range(count):
            name, position = _read_nullable(payload, position, record_end)
            if name is None:
                raise _invalid("a header without a name")
            content, position = _read_nullable(payload, position, record_end)
            headers.append((name, content))
    if position != record_end:
        raise _invalid(f"a record of {size} bytes ends {position - record_end} bytes off")
    return Record(offset_delta, timestamp_delta, key, value, headers), position


def _read_nullable(payload: Bytes, position: int, end: int) -> tuple[Bytes | None, int]:
    size, position = read_varint(payload, position)
    if size < 0:
        return None, position
    if size > end - position:
        raise _invalid(f"a field of {size} bytes, {end - position} are left")
    return payload[position : position + size], position + size


def read_varint(payload: Bytes, position: int, bits: int = _VARINT_BITS) -> tuple[int, int]:
    """(value, position after it) of a zigzag varint; IndexError past the end."""
    byte = payload[position]
    position += 1
    value = byte & 0x7F
    shift = 7
    while byte > 0x7F:
        if shift >= bits:
            raise _invalid(f"a varint of more than {bits} bits")
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


def first_at_or_after(
    header: BatchHeader, payload: Bytes, timestamp_ms: int, from_offset: int = 0
) -> tuple[int, int] | None:
    """The whole of that search at once."""
    search = FirstAtOrAfter(header, payload, timestamp_ms, from_offset)
    search.step(header.record_count + 1)
    return search.found


def _iter_deltas(header: BatchHeader, payload: Bytes) -> Iterator[tuple[int, int]]:
    """(offset delta, timestamp delta) of each record, without a look at the rest of it."""
    position, end = 0, len(payload)
    try:
        for _ in range(header.record_count):
            size, position = read_varint(payload, position)
            record_end = position + size
            if size <= 0 or record_end > end:
                raise _invalid(f"a record of {size} bytes, {end - position} are left")
            timestamp_delta, position = read_varint(payload, position + 1, _VARLONG_BITS)
            offset_delta, _ = read_varint(payload, position)
            position = record_end
            yield offset_delta, timestamp_delta
    except IndexError:
        raise _invalid("a record goes past the end of its batch") from None
