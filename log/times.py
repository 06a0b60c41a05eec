"""Searching timestamps in a segment by its time index, validating each entry before use.

An entry may be wrong (a flipped bit). It is valid if the log has a batch that ends with its offset
and has its timestamp as max timestamp, and no earlier batch has a timestamp at least as great.
"""

from __future__ import annotations

from typing import Final, Protocol

from kavka.log.errors import CorruptLogError
from kavka.log.fs import File
from kavka.log.index import OffsetIndex, TimeIndex
from kavka.log.scan import Extent, headers

CHECKED_BYTES_MAX: Final = 64 * 1024
"""All batches between two entries are checked if these are at most this far apart; otherwise only
those since the last index entry. Entries are far apart while no record is later than an earlier
one: with timestamps of whole days, or after one that was far in the future."""


ANY_NUMBER: Final = 2**63
"""As a limit of headers: none."""


class SearchPaused(Exception):
    """As many headers were read as the caller allows: no batch before `offset` is the one; the
    search can go on there."""

    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset


class IndexedSegment(Protocol):
    """What is read of a segment, and its index made anew, to find a timestamp."""

    base_offset: int
    size: int

    @property
    def max_timestamp_offset(self) -> int: ...

    @property
    def offsets(self) -> OffsetIndex: ...

    @property
    def times(self) -> TimeIndex: ...

    @property
    def file(self) -> File: ...

    @property
    def path(self) -> str: ...

    def find(self, offset: int) -> Extent | None:
        """The first batch that ends at `offset` or later."""
        ...

    def rebuild_indexes(self) -> None: ...


def find_timestamp(
    segment: IndexedSegment, timestamp_ms: int, from_offset: int, headers_max: int
) -> Extent | None:
    """The first batch with a timestamp of at least `timestamp_ms`, skipping those that end before
    `from_offset`; None if there is none. Rebuilds a wrong index.

    SearchPaused when `headers_max` were read: the index does not help where `from_offset` is behind
    the greatest timestamps.
    """
    times = segment.times
    slot = times.slot(timestamp_ms)
    if not (is_entry_valid(segment, times, slot) and _is_next_valid(segment, times, slot)):
        segment.rebuild_indexes()
    start = _search_start(segment, timestamp_ms)
    if segment.times is not times:  # rebuilt, here or by a check
        start = _search_start(segment, timestamp_ms)
    first = segment.find(max(start, from_offset))
    if first is None:
        return None
    return _first_since(segment, first.position, timestamp_ms, headers_max)


def _is_next_valid(segment: IndexedSegment, times: TimeIndex, slot: int) -> bool:
    """Whether the entry after `slot` is valid, if the indexes have not been rebuilt meanwhile."""
    if segment.times is not times or slot + 1 >= len(times):
        return True
    return is_entry_valid(segment, times, slot + 1)


def _search_start(segment: IndexedSegment, timestamp_ms: int) -> int:
    """An offset from which the search finds the first batch with this timestamp or a greater one:
    that of the entry before it, or a later one if the next entry is far away.

    The batch is later than all before it. An entry is written with each entry of the offset index
    if the greatest timestamp has risen since the last one. So the batch lies at most one index
    interval before the one that the next entry names.
    """
    times = segment.times
    slot = times.slot(timestamp_ms)
    timestamp, known = times.entry(slot) if slot >= 0 else (-1, segment.base_offset)
    if timestamp == timestamp_ms:
        return known
    is_last = slot + 1 == len(times)
    risen = segment.max_timestamp_offset if is_last else times.entry(slot + 1)[1]
    start, floor = segment.find(known), segment.offsets.floor(risen - 1)
    if start is None or floor.position - start.position <= CHECKED_BYTES_MAX:
        return known
    return max(known, floor.offset)


def is_last_entry_valid(segment: IndexedSegment, times: TimeIndex) -> bool:
    """Whether the last entry is valid; without entries, whether no record has a timestamp, judged
    by the first batches."""
    if not len(times):
        end = min(segment.size, CHECKED_BYTES_MAX)
        for position, header in headers(segment.file, segment.path, 0, segment.size):
            if header.newest_timestamp >= 0:
                return False
            if position >= end:
                break
        return True
    return is_entry_valid(segment, times, len(times) - 1)


def is_entry_valid(segment: IndexedSegment, times: TimeIndex, slot: int) -> bool:
    """Whether the entry at `slot` matches the log and the entries next to it; True for slot -1.

    Looking up a batch may rebuild both indexes: afterwards `times` is read no more.
    """
    if slot < 0:
        return True
    timestamp, offset = times.entry(slot)
    before = times.entry(slot - 1) if slot else None
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
    return _is_first(segment, before, timestamp, extent)


def _is_first(
    segment: IndexedSegment, previous: tuple[int, int] | None, timestamp_ms: int, extent: Extent
) -> bool:
    """Whether `extent`, the batch of an entry, is the first one since the previous entry with a
    timestamp at least as great."""
    start = 0
    if previous is not None:
        before = segment.find(previous[1]) if previous[0] < timestamp_ms else None
        if before is None or before.position >= extent.position:
            return False
        start = before.position
    if extent.position - start > CHECKED_BYTES_MAX:
        start = segment.offsets.floor(extent.last_offset - 1).position
    try:
        first = _first_since(segment, start, timestamp_ms, ANY_NUMBER)
    except CorruptLogError:
        return True  # can't be checked
    return first is not None and first.position == extent.position


def _first_since(
    segment: IndexedSegment, start: int, timestamp_ms: int, headers_max: int
) -> Extent | None:
    """The first batch from position `start` on with a timestamp of at least `timestamp_ms`."""
    known = headers(segment.file, segment.path, start, segment.size)
    for number, (position, header) in enumerate(known):
        if header.newest_timestamp >= timestamp_ms:
            return Extent(position, header.size, header.base_offset, header.last_offset)
        if number == headers_max:
            raise SearchPaused(header.last_offset + 1)
    return None
