"""Record batches (magic 2) that are stored otherwise than they were sent: in another codec, with
the time of their append, with a header that tells the truth.

The records themselves are copied byte for byte: neither offsets nor times within a batch change,
unless its offsets do not count from 0 on.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from kavka.wire.building import varint
from kavka.wire.compression import Bytes
from kavka.wire.crc import crc32c
from kavka.wire.records import (
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
from kavka.wire.steps import ITEMS_A_STEP, Slices

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
    """Write into the batch, and its CRC, whether it has the time of its append, and its newest
    timestamp in ms, which is then that of every record. The header as it is now."""
    flag = LOG_APPEND_TIME if append_time else 0
    if header.max_timestamp == max_timestamp and header.attributes & LOG_APPEND_TIME == flag:
        return header
    _pack_attributes(batch, CRC_START, _attributes(header, header.compression, flag))
    _pack_timestamp(batch, _MAX_TIMESTAMP_AT, max_timestamp)
    _pack_crc(batch, _CRC_AT, crc32c(batch[CRC_START : header.size]))
    return read_header(batch)


def rebuild(header: BatchHeader, codec: int, compressed: Bytes) -> memoryview:
    """A batch like the one of `header`, but for its records, which are in `codec` now."""
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
    """Bits that mean nothing, or nothing yet, are dropped, as Apache Kafka drops them."""
    return header.attributes & TRANSACTIONAL | codec & COMPRESSION_MASK | time_flag


def iter_heads(header: BatchHeader, payload: Bytes) -> Iterator[tuple[int, int, int]]:
    """(timestamp delta in ms, bytes of the key or -1, offset delta) of each record, whose whole
    form is checked on the way.

    As many as the header says, and nothing may be left after the last; ApiError INVALID_RECORD
    once the records are malformed. `payload` is what `kavka.wire.records.payload_of` gives.
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
    """A number as it is stored: doubled, and odd where it is below zero; and where it ends."""
    more = payload[position + 1]
    if more < 128:
        return payload[position] & 127 | more << 7, position + 2
    value, position = read_varint(payload, position, bits)
    return value << 1 if value >= 0 else ~(value << 1), position


def _after_headers(payload: Bytes, position: int) -> int:
    """Where the headers of a record end, which begin with how many there are. IndexError at the
    latest when there are more of them than bytes."""
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


def renumbered(payload: Bytes, count: int) -> Slices[Bytes]:
    """The `count` records in `payload`, which `iter_heads` has found to be whole, with offsets that
    count from 0 on. They may not be written over before it ends."""
    parts: list[Bytes] = []
    position = 0
    for number in range(count):
        if number % ITEMS_A_STEP == 0 and number:
            yield None
        size, start = read_varint(payload, position)
        position = start + size
        _, before = read_varint(payload, start + 1, _VARLONG_BITS)
        _, behind = read_varint(payload, before)
        offset = varint(number)
        new_size = varint(before - start + len(offset) + position - behind)
        parts += (new_size, payload[start:before], offset, payload[behind:position])
    return b"".join(parts)
