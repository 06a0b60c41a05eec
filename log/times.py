"""Looking for times in one segment by its time index, each entry of which is checked before use.

An entry may be wrong (a flipped bit). It is believed if the log has a batch that ends with its
offset and has its timestamp, and, since several may have that timestamp, if no batch before is as
new. Nothing here changes an index; who asks has it made anew where it is wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kavka.log.errors import CorruptLogError
from kavka.log.index import TimeIndex
from kavka.log.scan import Extent, headers

if TYPE_CHECKING:
    from kavka.log.segment import Segment

CHECKED_BYTES_MAX: Final = 1 << 20
"""How far apart two entries may lie to have all between them looked at. They are an index interval
apart, but for a record with a time that those after it do not reach for long."""


def find_timestamp(segment: Segment, timestamp_ms: int, from_offset: int) -> Extent | None:
    """The first batch with a timestamp that is not below, passing over those that end before
    `from_offset`; None: there is none."""
    slot = segment.times.slot(timestamp_ms)
    if not is_entry_valid(segment, segment.times, slot):
        segment.rebuild_indexes()
        slot = segment.times.slot(timestamp_ms)
    indexed = segment.base_offset if slot < 0 else segment.times.entry(slot)[1]
    first = segment.find(max(indexed, from_offset))
    return None if first is None else _first_since(segment, first.position, timestamp_ms)


def is_last_entry_valid(segment: Segment, times: TimeIndex) -> bool:
    """Whether the last entry is right. There is one if a record has a timestamp."""
    if not len(times):
        known = headers(segment.file, segment.path, 0, segment.size)
        return all(header.newest_timestamp < 0 for _, header in known)
    return is_entry_valid(segment, times, len(times) - 1)


def is_entry_valid(segment: Segment, times: TimeIndex, slot: int) -> bool:
    """Whether the entry at `slot` is in the log, and those beside it fit; so does none, at -1."""
    if slot < 0:
        return True
    timestamp, offset = times.entry(slot)
    if slot + 1 < len(times):
        next_timestamp, next_offset = times.entry(slot + 1)
        if next_timestamp <= timestamp or next_offset <= offset:
            return False
    extent = segment.find(offset)
    if extent is None or extent.last_offset != offset:
        return False
    _, header = next(headers(segment.file, segment.path, extent.position, segment.size))
    if header.max_timestamp != timestamp:
        return False
    return _is_first(segment, times, slot, extent)


def _is_first(segment: Segment, times: TimeIndex, slot: int, extent: Extent) -> bool:
    """Whether no batch since the entry before `slot` is as new as that of `slot`, at `extent`."""
    start = 0
    if slot:
        timestamp, offset = times.entry(slot - 1)
        before = segment.find(offset) if timestamp < times.entry(slot)[0] else None
        if before is None or before.position >= extent.position:
            return False
        start = before.position
    if extent.position - start > CHECKED_BYTES_MAX:
        return True
    try:
        first = _first_since(segment, start, times.entry(slot)[0])
    except CorruptLogError:
        return True  # as far as can be told
    return first is not None and first.position == extent.position


def _first_since(segment: Segment, start: int, timestamp_ms: int) -> Extent | None:
    """The first batch from a position on that is not older."""
    for position, header in headers(segment.file, segment.path, start, segment.size):
        if header.newest_timestamp >= timestamp_ms:
            return Extent(position, header.size, header.base_offset, header.last_offset)
    return None
