"""Record batches (magic 2, KIP-98) in a buffer: parsed and validated in place, never re-encoded.

A batch is a 61-byte header and its records, which may be compressed as a whole. The CRC covers
everything from the attributes on, so base offset and leader epoch, which precede it, are set in
place without a new CRC. The records are decompressed only where their content is needed.
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
"""The limit of a batch's size."""

_MAGIC_AT: Final = 16
_MESSAGE_BYTES_MIN: Final = 14  # magic 0's overhead after its length, the smallest of all magics
_VARINT_BITS: Final = 32
_VARLONG_BITS: Final = 64

_unpack_header = HEADER.unpack_from
_unpack_length = struct.Struct(">i").unpack_from
_unpack_base_offset = struct.Struct(">q").unpack_from
_unpack_attributes = struct.Struct(">h").unpack_from
_pack_base_offset = struct.Struct(">q").pack_into
_pack_leader_epoch = struct.Struct(">i").pack_into


class BatchHeader(NamedTuple):
    """The header of a batch. Offsets are absolute, timestamps in ms, lengths in bytes."""

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
        """The greatest timestamp of a record; NO_TIMESTAMP if compaction has removed all records,
        though the batch is kept for its producer state, with its `max_timestamp`."""
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


def set_offset_and_epoch(batch: memoryview, base_offset: int, leader_epoch: int) -> None:
    """Set the fields that the leader assigns; the CRC does not cover them."""
    _pack_base_offset(batch, 0, base_offset)
    _pack_leader_epoch(batch, 12, leader_epoch)


class Unreadable(ApiError):
    """A batch with an invalid length or magic. Apache Kafka checks these of every partition's first
    batch before anything else, and rejects the whole request."""


class Unacceptable(ApiError):
    """Records that are invalid in any Produce request of this version, whatever the topic."""


def attributes_of_first(records: memoryview) -> int:
    """The attributes of the first batch, 0 if it is not a complete one of magic 2; Unreadable."""
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
    """Validate a client's records for one partition; the batch header.

    Valid is one batch of magic 2, of at most `bytes_max` bytes, with the right CRC, base offset 0,
    as many records as offsets, not a control batch, and with a sequence if it has a producer id.
    The records are not decompressed.
    As in Apache Kafka a partial batch may follow, which must not be appended (the header's `size`
    excludes it), and the client may set the LogAppendTime flag, which
    `kavka.server.replica.batch_admission` corrects.
    ApiError as of Apache Kafka's `ProduceRequest`, `UnifiedLog` and `LogValidator`, in their
    order: Unreadable, Unacceptable, INVALID_RECORD, MESSAGE_TOO_LARGE, CORRUPT_MESSAGE.
    """
    size = len(records)
    if size < HEADER_BYTES:
        return _check_in_order(records, codec_max, bytes_max)
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
        return _check_in_order(records, codec_max, bytes_max)
    return header


_new_tuple: Final = tuple.__new__
_CODEC_OR_FORBIDDEN: Final = COMPRESSION_MASK | LOG_APPEND_TIME | CONTROL


def _check_in_order(records: memoryview, codec_max: int, bytes_max: int) -> BatchHeader:
    """The slow path: the header, or the first error in Apache Kafka's order of checks."""
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
    """Size of the only batch; a partial one may follow it."""
    held = len(records)
    size = _complete_size(records)
    if not size:
        raise Unacceptable(
            ErrorCode.INVALID_RECORD, f"no complete record batch in {held} bytes of records"
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
        more = size < held and _complete_size(records[size:])
    except Unreadable as error:
        raise Unacceptable(error.code, error.message) from None
    if more:
        raise Unacceptable(ErrorCode.INVALID_RECORD, "more than one batch for a partition")
    return size


def _check_codec(codec: int, codec_max: int) -> None:
    """Only versions without zstd check the codec this early. Unknown codecs lead to an unexpected
    exception in Apache Kafka: UNKNOWN_SERVER_ERROR."""
    if codec == ZSTD:
        raise Unacceptable(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd in an old version")
    if codec_max < ZSTD:
        raise Unacceptable(ErrorCode.UNKNOWN_SERVER_ERROR, f"unknown compression codec {codec}")


def _complete_size(records: memoryview) -> int:
    """Size of the first batch, 0 if it is incomplete; Unreadable."""
    held = len(records)
    if held < LENGTH_PREFIX_BYTES:
        return 0
    (length,) = _unpack_length(records, 8)
    _check_start(records, length)
    size: int = length + LENGTH_PREFIX_BYTES
    return size if size <= held else 0


def malformed(message: str) -> ApiError:
    """The error for records that are malformed or inconsistent."""
    return ApiError(ErrorCode.INVALID_RECORD, message)


class Record(NamedTuple):
    """One record. Key, value and headers are slices of the payload, null as None."""

    offset_delta: int
    timestamp_delta: int
    key: Bytes | None
    value: Bytes | None
    headers: list[tuple[Bytes, Bytes | None]]


def payload_of(header: BatchHeader, batch: Bytes, limit_bytes: int) -> Bytes:
    """The decompressed records of a complete batch, at most `limit_bytes`.

    ApiError CORRUPT_MESSAGE when they are corrupt or bigger; see `compression.decompress`.
    """
    inner = memoryview(batch)[HEADER_BYTES : header.size]
    return compression.decompress(header.compression, inner, limit_bytes)


def iter_records(header: BatchHeader, payload: Bytes) -> Iterator[Record]:
    """The records in `payload`; ApiError INVALID_RECORD at the first malformed one.

    There must be as many as the header says and no bytes after the last (`DefaultRecordBatch`).
    """
    position, end = 0, len(payload)
    if header.record_count * RECORD_BYTES_MIN > end:
        raise malformed(f"{header.record_count} records in {end} bytes")
    try:
        for _ in range(header.record_count):
            record, position = read_record(payload, position, end)
            yield record
    except IndexError:
        raise malformed("a record goes past the end of its batch") from None
    if position != end:
        raise malformed(f"{end - position} bytes after the last record")


def read_record(payload: Bytes, position: int, end: int) -> tuple[Record, int]:
    """(record at `position`, position after it); IndexError past the end, ApiError INVALID_RECORD
    when it is malformed."""
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
    """A search for the first record at or after `from_offset` and at or after a timestamp.

    With the header's `max_timestamp` it finds the record that has it. `found` is the result,
    (offset, timestamp in ms). It works in steps, since the records of a big batch would block the
    loop for too long.
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
        """Check up to `records_max` more records; whether the search has ended."""
        header = self._header
        appended = header.attributes & LOG_APPEND_TIME
        checked = 0
        for offset_delta, timestamp_delta in islice(self._deltas, records_max):
            checked += 1
            timestamp = (
                header.max_timestamp if appended else header.base_timestamp + timestamp_delta
            )
            offset = header.base_offset + offset_delta
            if timestamp >= self._timestamp_ms and offset >= self._from_offset:
                self.found = (offset, timestamp)
                return True
        return checked < records_max


def _iter_deltas(header: BatchHeader, payload: Bytes) -> Iterator[tuple[int, int]]:
    """(offset delta, timestamp delta) of each record; its other fields are skipped."""
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
