"""Builds record batches (magic 2, KIP-98) from plain Python values.

Batches from clients are never re-encoded; see `kavka.wire.record_batches`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from kavka.wire.compressing import compress
from kavka.wire.crc import crc32c
from kavka.wire.record_batches import (
    COMPRESSION_MASK,
    CRC_START,
    CURRENT_MAGIC,
    HEADER,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
)
from kavka.wire.steps import Steps

PAIRS_PER_STEP: Final = 1000
"""Records encoded between two pauses, at about a microsecond each."""

_NO_EPOCH = -1
_NULL_LENGTH = -1
_pack_crc = struct.Struct(">I").pack_into
_CRC_AT = 17


class NewRecord(NamedTuple):
    """A record to encode; the timestamp is in ms since 1970, null is None."""

    timestamp_ms: int
    key: bytes | None = None
    value: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()


def build_batch(records: Sequence[NewRecord]) -> bytearray:
    """One batch of at least one record, as a producer sends it: uncompressed, CreateTime, base
    offset 0, without producer id."""
    base_timestamp = records[0].timestamp_ms
    batch = bytearray(HEADER_BYTES)
    for offset_delta, record in enumerate(records):
        batch += _record(record, offset_delta, base_timestamp)
    last_delta = len(records) - 1
    HEADER.pack_into(
        batch,
        0,
        0,
        len(batch) - LENGTH_PREFIX_BYTES,
        _NO_EPOCH,
        CURRENT_MAGIC,
        0,
        0,
        last_delta,
        base_timestamp,
        max(record.timestamp_ms for record in records),
        NO_PRODUCER_ID,
        _NO_EPOCH,
        NO_SEQUENCE,
        len(records),
    )
    _pack_crc(batch, _CRC_AT, crc32c(memoryview(batch)[CRC_START:]))
    return batch


def batch_of_pairs(
    pairs: Sequence[tuple[bytes, bytes | None]],
    timestamp_ms: int,
    *,
    attributes: int = 0,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = _NO_EPOCH,
    base_sequence: int = NO_SEQUENCE,
) -> Steps[bytearray]:
    """One batch of key-value pairs with the same timestamp, compressed as `attributes` says."""
    payload = bytearray()
    count = len(pairs)
    for start in range(0, count, PAIRS_PER_STEP):
        if start:
            yield None
        parts: list[bytes] = []
        _add_pairs(parts, pairs[start : start + PAIRS_PER_STEP], start)
        payload += b"".join(parts)
    batch = bytearray(HEADER_BYTES)
    batch += compress(attributes & COMPRESSION_MASK, payload)
    HEADER.pack_into(
        batch,
        0,
        0,
        len(batch) - LENGTH_PREFIX_BYTES,
        _NO_EPOCH,
        CURRENT_MAGIC,
        0,
        attributes,
        count - 1,
        timestamp_ms,
        timestamp_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    )
    _pack_crc(batch, _CRC_AT, crc32c(memoryview(batch)[CRC_START:]))
    return batch


def _add_pairs(parts: list[bytes], pairs: Sequence[tuple[bytes, bytes | None]], first: int) -> None:
    shape: tuple[int, int, int] | None = None
    begin = key_length = value_length = b""
    for number, (key, value) in enumerate(pairs, first):
        offset = _length(number)
        sizes = (len(key), _NULL_LENGTH if value is None else len(value), len(offset))
        if sizes != shape:  # consecutive records mostly have the same sizes
            shape = sizes
            key_length = _length(len(key))
            value_length = _NULL if value is None else _length(len(value))
            lengths = len(offset) + len(key_length) + len(value_length)
            begin = _length(3 + lengths + len(key) + len(value or b"")) + b"\0\0"
        parts += (begin, offset, key_length, key, value_length, value or b"", b"\0")


def _record(record: NewRecord, offset_delta: int, base_timestamp: int) -> bytes:
    body = bytearray(1)  # attributes: unused
    body += varint(record.timestamp_ms - base_timestamp)
    body += varint(offset_delta)
    body += _nullable(record.key) + _nullable(record.value)
    body += varint(len(record.headers))
    for name, value in record.headers:
        body += _nullable(name.encode()) + _nullable(value)
    return varint(len(body)) + bytes(body)


def _nullable(value: bytes | None) -> bytes:
    return varint(_NULL_LENGTH) if value is None else varint(len(value)) + value


def _length(value: int) -> bytes:
    """`varint`, with a fast path for small values."""
    if value < 64:
        return _SHORT[value]
    if value < 8192:
        return bytes((value << 1 & 0x7F | 0x80, value >> 6))
    return varint(value)


def varint(value: int) -> bytes:
    """`value` (64 bits, signed) in zigzag, seven bits a byte, the low ones first."""
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


_NULL: Final = varint(_NULL_LENGTH)
_SHORT: Final = tuple(map(varint, range(64)))
