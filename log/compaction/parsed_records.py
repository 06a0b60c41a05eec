"""Parses the records of a batch in bulk, and joins them again, without an object per record.

These loops are inlined for speed: varints of one or two bytes are decoded in place, longer ones by
a function.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from kavka.wire.building import varint
from kavka.wire.record_batches import read_varint

_VARLONG_BITS: Final = 64


class BrokenRecords(Exception):
    """The content of a batch is not valid records."""


class ParsedRecords(NamedTuple):
    """The records of one batch, one entry each."""

    data: bytes
    """All records, decompressed."""

    keys: list[bytes]
    """For a record without a key, an empty one."""

    deltas: list[int]
    """Offsets relative to the batch's base offset."""

    ends: list[int]
    """The end of each record in `data`; the next one starts there."""

    keyless: list[int]
    """Indexes of the records without a key."""

    tombstones: list[int]
    """Indexes of the records without a value."""


def split(data: bytes, count: int, last_delta: int) -> ParsedRecords:
    """Parse the `count` records in `data`, with offset deltas up to `last_delta`; BrokenRecords."""
    found = ParsedRecords(data, [], [], [], [], [])
    try:
        end = _split(data, count, found)
    except IndexError:
        raise BrokenRecords("a record goes past the end of its batch") from None
    if end != len(data):
        raise BrokenRecords(f"{len(data)} bytes of records, the last of which ends at {end}")
    if count and max(found.deltas) > last_delta:
        raise BrokenRecords(f"the offset delta {max(found.deltas)} is beyond {last_delta}")
    return found


def _split(data: bytes, count: int, found: ParsedRecords) -> int:
    """Fill the lists; returns the end of the last record. Numbers are zigzag-encoded: doubled, and
    odd if negative. IndexError, BrokenRecords."""
    add_key, add_delta = found.keys.append, found.deltas.append
    add_end = found.ends.append
    position = 0
    for slot in range(count):
        size = data[position]
        if size > 127:
            more = data[position + 1]
            if more > 127:
                size, position = _zigzag(data, position)
            else:
                size = size & 127 | more << 7
                position += 2
        else:
            position += 1
        end = position + (size >> 1)
        position += 1  # attributes
        while data[position] > 127:  # timestamp
            position += 1
        delta = data[position + 1]
        if delta > 127:
            more = data[position + 2]
            if more > 127:
                delta, position = _zigzag(data, position + 1)
            else:
                delta = delta & 127 | more << 7
                position += 3
        else:
            position += 2
        length = data[position]
        if length > 127:
            length, position = _zigzag(data, position)
        else:
            position += 1
        if length & 1:
            found.keyless.append(slot)
            add_key(b"")
        else:
            begin = position
            position += length >> 1
            add_key(data[begin:position])
        if data[position] & 1:
            found.tombstones.append(slot)
        if position >= end or (size | delta) & 1:
            raise BrokenRecords(f"record {slot} is malformed")
        add_delta(delta >> 1)
        add_end(end)
        position = end
    return position


def _zigzag(data: bytes, position: int) -> tuple[int, int]:
    """A varint of up to 32 bits, still zigzag-encoded, and the position after it."""
    byte = data[position]
    return (byte, position + 1) if byte < 128 else rest_of_zigzag(data, position + 1, byte)


def rest_of_zigzag(data: bytes, position: int, value: int) -> tuple[int, int]:
    """The same for a varint of several bytes, whose first byte `value` is before `position`."""
    value &= 127
    shift = 7
    while (byte := data[position]) > 127:
        value |= (byte & 127) << shift
        position += 1
        shift += 7
        if shift > 28:
            raise BrokenRecords("a varint of more than 32 bits")
    return value | byte << shift, position + 1


def timestamp_deltas(records: ParsedRecords, slots: Sequence[int]) -> list[int]:
    """The timestamp deltas of the records at these indexes."""
    data, ends = records.data, records.ends
    deltas = []
    for slot in slots:
        position = ends[slot - 1] if slot else 0
        while data[position] > 127:  # size
            position += 1
        delta, _ = read_varint(data, position + 2, _VARLONG_BITS)
        deltas.append(delta)
    return deltas


def join(records: ParsedRecords, slots: Sequence[int]) -> bytes:
    """The bytes of the records at these indexes."""
    data, ends = records.data, records.ends
    return b"".join([data[ends[slot - 1] if slot else 0 : ends[slot]] for slot in slots])


def join_shifted(records: ParsedRecords, slots: Sequence[int], by_ms: int) -> bytes:
    """The records at these indexes, for a base timestamp that is higher by `by_ms`."""
    data = records.data
    parts = []
    for slot in slots:
        attributes = records.ends[slot - 1] if slot else 0
        while data[attributes] > 127:  # size
            attributes += 1
        attributes += 1
        delta, position = read_varint(data, attributes + 1, _VARLONG_BITS)
        body = data[position : records.ends[slot]]
        shifted = varint(delta - by_ms)
        parts += [varint(1 + len(shifted) + len(body)), data[attributes : attributes + 1]]
        parts += [shifted, body]
    return b"".join(parts)
