"""Down-conversion of batches of magic 2 to a message set (magic 0 or 1) for an old consumer.

As in Apache Kafka's `RecordsUtil`: the old formats have no record headers, producer ids and
transactions, so these are dropped, control batches are skipped, codecs are kept, and zstd, which
old consumers do not support, is rejected (KIP-110). Offsets do not change.
"""

from __future__ import annotations

import zlib
from typing import Final, NamedTuple

from kavka.wire.compression import Bytes, Codec
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.inflating import (
    compress_in_steps,
    decompress_in_steps,
    free_in_steps,
    join_in_steps,
)
from kavka.wire.message_set import (
    BODY_HEADS,
    CRC_BYTES,
    LOG_APPEND_TIME,
    LOG_OVERHEAD_BYTES,
    NO_TIMESTAMP,
    NULL_LENGTH,
    pack_length,
    pack_start,
)
from kavka.wire.old_lz4 import old_header
from kavka.wire.record_batches import (
    HEADER_BYTES,
    MESSAGE_BYTES_MAX,
    BatchHeader,
    malformed,
    read_header,
    read_varint,
)
from kavka.wire.steps import Steps
from kavka.wire.up_conversion import BYTES_PER_STEP, INLINE_CRC_BYTES_MAX, RECORDS_PER_STEP

COPIED_BYTES_MAX: Final = 1024 * 1024
"""Records up to this size are copied to `bytes`, which is faster to parse."""

_VARLONG_BITS: Final = 64
_TIMESTAMP_MAX: Final = 2**63 - 1


class Converted(NamedTuple):
    """A message set, and the offset after the last batch that it covers or that was skipped.

    The set is in pieces, of `size` bytes together: a growing `bytearray` is moved now and then,
    which for 27 MB takes 10 ms.
    """

    pieces: list[Bytes]
    size: int
    next_offset: int


class _Messages(NamedTuple):
    """The messages of one batch: consecutive ones, or one wrapper around them."""

    pieces: list[Bytes]
    size: int
    whole: bool
    """False if `room` did not suffice for all of them."""
    last_offset: int
    max_timestamp: int


def down_convert(batches: memoryview, magic: int, offset: int, bytes_max: int) -> Steps[Converted]:
    """Convert these batches, from the record with `offset` on.

    A truncated last batch is left out. The set has at most `bytes_max` bytes, unless the first
    batch alone takes more: then it is returned whole (KIP-74).
    If a batch can't be converted the set ends before it; ApiError if it is the first:
    UNSUPPORTED_COMPRESSION_TYPE, or CORRUPT_MESSAGE and INVALID_RECORD if it is corrupt.
    """
    made: list[Bytes] = []
    size, next_offset, position, held, since_pause = 0, offset, 0, len(batches), 0
    while held - position >= HEADER_BYTES:
        header = read_header(batches, position)
        end = position + header.size
        if not position + HEADER_BYTES <= end <= held:
            break
        if header.record_count and not header.is_control:
            room = bytes_max - size if size else MESSAGE_BYTES_MAX
            try:
                found = yield from _convert(batches[position:end], magic, offset, room)
            except ApiError:
                if size:
                    break
                raise
            made += found.pieces
            size += found.size
            if not found.whole:
                break
        position = end
        next_offset = header.last_offset + 1
        since_pause += RECORDS_PER_STEP if header.compression else 1 + header.record_count
        if since_pause >= RECORDS_PER_STEP and end < held:
            since_pause = 0
            yield None
    return Converted(made, size, next_offset)


def _convert(batch: memoryview, magic: int, offset: int, room: int) -> Steps[_Messages]:
    """Convert a batch, to at most `room` bytes."""
    header = read_header(batch)
    codec = header.compression
    if codec == Codec.ZSTD:
        raise ApiError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            "this Fetch version does not support zstd: use a newer client",
        )
    inner = batch[HEADER_BYTES:]
    if codec == Codec.NONE:
        return (yield from _write(header, _quick(inner), magic, offset, room))
    # A wrapper has all messages of the batch, and clients skip those below the fetch offset. But
    # if compaction has left no others, they would fetch the same offset again and again.
    payload = yield from decompress_in_steps(codec, inner)
    first = header.base_offset
    inside = yield from _write(header, _quick(payload), magic, first, MESSAGE_BYTES_MAX)
    yield from free_in_steps(payload)
    if inside.last_offset < offset or not inside.size:
        return inside._replace(pieces=[], size=0)
    wrapper = yield from _wrapper(header, inside, magic)
    return wrapper if wrapper.size <= room else wrapper._replace(pieces=[], size=0, whole=False)


def _quick(data: Bytes) -> Bytes:
    """`data` as bytes, which are faster to parse, unless it is too big to copy at once."""
    return bytes(data) if isinstance(data, memoryview) and len(data) <= COPIED_BYTES_MAX else data


def _write(
    header: BatchHeader, payload: Bytes, magic: int, offset: int, room: int
) -> Steps[_Messages]:
    """The records from `offset` on as messages, up to `room` bytes."""
    by_log = header.attributes & LOG_APPEND_TIME
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    relative = bool(magic and header.compression)
    body_head = BODY_HEADS[magic].pack
    flags = by_log if magic else 0
    last_offset, max_timestamp, first = offset, NO_TIMESTAMP, -1
    record_at, pause_at, written, whole = 0, BYTES_PER_STEP, 0, True
    pieces: list[Bytes] = []
    messages: list[bytes] = []  # of the next piece
    try:
        for number in range(1, header.record_count + 1):
            delta, delta_offset, key, value, record_at = _read(payload, record_at)
            record_offset = base_offset + delta_offset
            if record_offset >= offset:
                if first < 0:
                    first = record_offset if relative else 0
                timestamp = header.max_timestamp if by_log else base_timestamp + delta
                if not 0 <= timestamp <= _TIMESTAMP_MAX:
                    timestamp = NO_TIMESTAMP  # the old formats have no other negative one
                if timestamp > max_timestamp:
                    max_timestamp = timestamp
                key_size = -1 if key is None else len(key)
                head = (
                    body_head(magic, flags, timestamp, key_size)
                    if magic
                    else body_head(magic, flags, key_size)
                )
                tail = NULL_LENGTH if value is None else pack_length(len(value))
                body = b"".join((head, key or b"", tail, value or b""))
                size = len(body) + CRC_BYTES
                written += size + LOG_OVERHEAD_BYTES
                if written > room:
                    written -= size + LOG_OVERHEAD_BYTES
                    whole = False
                    break
                messages += (pack_start(record_offset - first, size, zlib.crc32(body)), body)
                last_offset = record_offset
            if record_at >= pause_at or number % RECORDS_PER_STEP == 0:
                pause_at = record_at + BYTES_PER_STEP
                pieces.append(b"".join(messages))
                messages.clear()
                yield None
    except IndexError:
        raise malformed("a record goes past the end of its batch") from None
    pieces.append(b"".join(messages))
    return _Messages(pieces, written, whole, last_offset, max_timestamp)


_Read = tuple[int, int, Bytes | None, Bytes | None, int]


def _read(payload: Bytes, position: int) -> _Read:
    """(timestamp delta, offset delta, key, value, where the next begins) of a record."""
    size, position = read_varint(payload, position)
    end = position + size
    if size <= 0 or end > len(payload):
        raise malformed(f"a record of {size} bytes, {len(payload) - position} are left")
    delta, position = read_varint(payload, position + 1, _VARLONG_BITS)
    delta_offset, position = read_varint(payload, position)
    key, position = _read_nullable(payload, position, end)
    value, position = _read_nullable(payload, position, end)
    return delta, delta_offset, key, value, end


def _read_nullable(payload: Bytes, position: int, end: int) -> tuple[Bytes | None, int]:
    size, position = read_varint(payload, position)
    if size < 0:
        return None, position
    if position + size > end:
        raise malformed(f"a field of {size} bytes, {end - position} are left")
    return payload[position : position + size], position + size


def _wrapper(header: BatchHeader, inside: _Messages, magic: int) -> Steps[_Messages]:
    """The wrapper message around a compressed set."""
    codec = header.compression
    plain = yield from join_in_steps(inside.pieces, inside.size)
    value = yield from compress_in_steps(codec, plain)
    yield from free_in_steps(plain)
    if magic:
        by_log = header.attributes & LOG_APPEND_TIME
        head = BODY_HEADS[1].pack(1, codec | by_log, inside.max_timestamp, -1)
    else:
        head = BODY_HEADS[0].pack(0, codec, -1)
    head += pack_length(len(value))
    size = CRC_BYTES + len(head) + len(value)
    if codec == Codec.LZ4 and not magic:
        start = old_header(value)
        value = memoryview(value)[len(start) :]
        head += start
    if len(value) <= INLINE_CRC_BYTES_MAX:
        crc = zlib.crc32(value, zlib.crc32(head))
    else:
        crc = yield zlib.crc32, value, zlib.crc32(head)
    head = pack_start(inside.last_offset, size, crc) + head
    return inside._replace(pieces=[head, value], size=size + LOG_OVERHEAD_BYTES)
