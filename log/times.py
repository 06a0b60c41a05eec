"""Searching timestamps in a segment by its time index, validating each entry before use.

An entry may be wrong (a flipped bit). It is valid if the log has a batch that ends with its offset
and has its timestamp as max timestamp, and no earlier batch has a timestamp at least as great.
"""

from __future__ import annotations

from typing import Final, Protocol

from kavka.log.errors import CorruptLogError
from kavka.log.fs import File
from kavka.log.index import TimeIndex
from kavka.log.scan import Extent, headers

CHECKED_BYTES_MAX: Final = 1 << 20
"""If two entries are at most this far apart all batches between them are checked. They are farther
apart than an index interval only after a record with a timestamp far in the future."""


class IndexedSegment(Protocol):
    """What is read of a segment, and its index made anew, to find a timestamp."""

    base_offset: int
    size: int

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


def find_timestamp(segment: IndexedSegment, timestamp_ms: int, from_offset: int) -> Extent | None:
    """The first batch with a timestamp of at least `timestamp_ms`, skipping those that end before
    `from_offset`; None if there is none. Rebuilds a wrong index."""
    times = segment.times
    slot = times.slot(timestamp_ms)
    if not is_entry_valid(segment, times, slot):
        segment.rebuild_indexes()
    if segment.times is not times:  # rebuilt, here or by the check
        times = segment.times
        slot = times.slot(timestamp_ms)
    indexed = segment.base_offset if slot < 0 else times.entry(slot)[1]
    first = segment.find(max(indexed, from_offset))
    return None if first is None else _first_since(segment, first.position, timestamp_ms)


def is_last_entry_valid(segment: IndexedSegment, times: TimeIndex) -> bool:
    """Whether the last entry is valid; without entries, whether no record has a timestamp."""
    if not len(times):
        known = headers(segment.file, segment.path, 0, segment.size)
        return all(header.newest_timestamp < 0 for _, header in known)
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
        return True
    try:
        first = _first_since(segment, start, timestamp_ms)
    except CorruptLogError:
        return True  # can't be checked
    return first is not None and first.position == extent.position


def _first_since(segment: IndexedSegment, start: int, timestamp_ms: int) -> Extent | None:
    """The first batch from position `start` on with a timestamp of at least `timestamp_ms`."""
    for position, header in headers(segment.file, segment.path, start, segment.size):
        if header.newest_timestamp >= timestamp_ms:
            return Extent(position, header.size, header.base_offset, header.last_offset)
    return None
