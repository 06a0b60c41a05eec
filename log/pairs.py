"""Keys and values of records in bulk, for loading a coordinator.

Inlined for speed, like `compaction.parsed_records.split`, which returns more of each record.
"""

from __future__ import annotations

from typing import Final

from kavka.log.compaction.parsed_records import BrokenRecords, rest_of_zigzag

BROKEN: Final = (BrokenRecords, IndexError)
"""What `add_pairs` raises."""


def add_pairs(
    data: bytes, position: int, count: int, keys: list[bytes], values: list[bytes | None]
) -> tuple[int, int]:
    """Add key and value of each of the `count` records from `position` on.

    Returns the end position, and how many records had no key and were skipped. BROKEN if they are
    not valid records; the caller has to remove what was added to the lists.
    """
    # numbers are zigzag-encoded: doubled, and odd if negative
    add_key, add_value = keys.append, values.append
    keyless = 0
    for _ in range(count):
        size = data[position]
        position += 1
        if size > 127:
            size, position = rest_of_zigzag(data, position, size)
        end = position + (size >> 1)
        position += 1  # attributes
        while data[position] > 127:  # timestamp
            position += 1
        position += 1
        while data[position] > 127:  # offset
            position += 1
        length = data[position + 1]
        position += 2
        if length > 127:
            length, position = rest_of_zigzag(data, position, length)
        if length & 1:
            keyless += 1
        else:
            begin = position
            position += length >> 1
            add_key(data[begin:position])
            size = data[position]
            position += 1
            if size > 127:
                size, position = rest_of_zigzag(data, position, size)
            if size & 1:
                add_value(None)
            else:
                begin = position
                position += size >> 1
                add_value(data[begin:position])
        if position >= end or end > len(data):
            raise BrokenRecords("a record is malformed")
        position = end
    return position, keyless
