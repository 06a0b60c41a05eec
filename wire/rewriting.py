"""Rewrites record batches (magic 2) that are not stored as sent: another codec, LogAppendTime, a
corrected max timestamp.

The records themselves are copied byte for byte: offset and timestamp deltas do not change, unless
the offset deltas do not count from 0.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from kavka.wire.building import varint
from kavka.wire.compression import Bytes
from kavka.wire.crc import crc32c
from kavka.wire.record_batches import (
    COMPRESSION_MASK,
    CRC_START,
    HEADER,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    LOG_APPEND_TIME,
    RECORD_BYTES_MIN,
    TRANSACTIONAL,
    BatchHeader,
    malformed,
    read_header,
    read_varint,
)
from kavka.wire.steps import ITEMS_PER_STEP, Steps

_CRC_AT: Final = 17
_MAX_TIMESTAMP_AT: Final = 35
_VARINT_BITS: Final = 32
_VARLONG_BITS: Final = 64
_pack_crc: Final = struct.Struct(">I").pack_into
_pack_attributes: Final = struct.Struct(">h").pack_into
_pack_timestamp: Final = struct.Struct(">q").pack_into


def set_times(
    batch: memoryview, header: BatchHeader, max_timestamp: int, *, append_time: bool
) -> BatchHeader:
    """Set the batch's LogAppendTime flag, max timestamp (ms) and CRC; returns the new header. With
    `append_time` the max timestamp is that of every record."""
    flag = LOG_APPEND_TIME if append_time else 0
    if header.max_timestamp == max_timestamp and header.attributes & LOG_APPEND_TIME == flag:
        return header
    _pack_attributes(batch, CRC_START, _attributes(header, header.compression, flag))
    _pack_timestamp(batch, _MAX_TIMESTAMP_AT, max_timestamp)
    _pack_crc(batch, _CRC_AT, crc32c(batch[CRC_START : header.size]))
    return read_header(batch)


def rebuild(header: BatchHeader, codec: int, compressed: Bytes) -> memoryview:
    """A batch with the fields of `header` and the records `compressed` by `codec`."""
    batch = memoryview(bytearray(HEADER_BYTES + len(compressed)))
    batch[HEADER_BYTES:] = compressed
    flag = header.attributes & LOG_APPEND_TIME
    fields = header._replace(
        batch_length=len(batch) - LENGTH_PREFIX_BYTES,
        attributes=_attributes(header, codec, flag),
        crc=0,
    )
    HEADER.pack_into(batch, 0, *fields)
    _pack_crc(batch, _CRC_AT, crc32c(batch[CRC_START:]))
    return batch


def _attributes(header: BatchHeader, codec: int, time_flag: int) -> int:
    """Undefined bits are cleared, as Apache Kafka does."""
    return header.attributes & TRANSACTIONAL | codec & COMPRESSION_MASK | time_flag


def iter_heads(header: BatchHeader, payload: Bytes) -> Iterator[tuple[int, int, int]]:
    """(timestamp delta in ms, key size or -1, offset delta) of each record; all of its fields are
    validated on the way.

    There must be as many as the header says and no bytes after the last; ApiError INVALID_RECORD
    at the first malformed record. `payload` is what `kavka.wire.record_batches.payload_of` gives.
    """
    position, end = 0, len(payload)
    if header.record_count * RECORD_BYTES_MIN > end:
        raise malformed(f"{header.record_count} records in {end} bytes")
    try:
        for _ in range(header.record_count):
            size = payload[position]
            if size < 128:
                position += 1
            else:
                size, position = _zigzag(payload, position)
            record_end = position + (size >> 1)
            timestamp = payload[position + 1]  # behind the attributes
            if timestamp < 128:
                position += 2
            else:
                timestamp, position = _zigzag(payload, position + 1, _VARLONG_BITS)
            offset = payload[position]
            if offset < 128:
                position += 1
            else:
                offset, position = _zigzag(payload, position)
            key = payload[position]
            if key < 128:
                position += 1
            else:
                key, position = _zigzag(payload, position)
            if not key & 1:
                position += key >> 1
            value = payload[position]
            if value < 128:
                position += 1
            else:
                value, position = _zigzag(payload, position)
            if not value & 1:
                position += value >> 1
            position = _after_headers(payload, position) if payload[position] else position + 1
            if position != record_end or size & 1:
                raise malformed(f"a record that should end at {record_end} ends at {position}")
            yield (
                (timestamp >> 1) ^ -(timestamp & 1),
                -1 if key & 1 else key >> 1,
                (offset >> 1) ^ -(offset & 1),
            )
    except IndexError:
        raise malformed("a record goes past the end of its batch") from None
    if position != end:
        raise malformed(f"{end - position} bytes after the last record")


def _zigzag(payload: Bytes, position: int, bits: int = _VARINT_BITS) -> tuple[int, int]:
    """(zigzag value of a varint, not decoded: odd if negative; position after it)."""
    more = payload[position + 1]
    if more < 128:
        return payload[position] & 127 | more << 7, position + 2
    value, position = read_varint(payload, position, bits)
    return value << 1 if value >= 0 else ~(value << 1), position


def _after_headers(payload: Bytes, position: int) -> int:
    """The position after a record's headers; `position` is that of their count. IndexError if the
    count exceeds the bytes."""
    count, position = read_varint(payload, position)
    if count < 0:
        raise malformed(f"{count} headers")
    for _ in range(count):
        size = payload[position]
        if size < 128:
            position += 1
        else:
            size, position = _zigzag(payload, position)
        if size & 1:
            raise malformed("a header without a name")
        position += size >> 1
        size = payload[position]
        if size < 128:
            position += 1
        else:
            size, position = _zigzag(payload, position)
        if not size & 1:
            position += size >> 1
    return position


def renumbered(payload: Bytes, count: int) -> Steps[Bytes]:
    """The `count` records in `payload`, validated by `iter_heads`, with offset deltas that count
    from 0. `payload` must not be overwritten before this ends."""
    parts: list[Bytes] = []
    position = 0
    for number in range(count):
        if number % ITEMS_PER_STEP == 0 and number:
            yield None
        size, start = read_varint(payload, position)
        position = start + size
        _, before = read_varint(payload, start + 1, _VARLONG_BITS)
        _, behind = read_varint(payload, before)
        offset = varint(number)
        new_size = varint(before - start + len(offset) + position - behind)
        parts += (new_size, payload[start:before], offset, payload[behind:position])
    return b"".join(parts)
