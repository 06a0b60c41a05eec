"""The segments of a log in a row: which one holds an offset, and searches across them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from kavka.log.disk import Disk
from kavka.log.scan import Extent
from kavka.log.segment import DELETED, FILES, Segment

LAZY_INDEX_BYTES_MAX: Final = 1 << 18
"""The indexes of an active segment that is no longer than this are not opened before the first
`append` or `read`; should they be damaged, they are made anew in a few ms."""


class SegmentList:
    """Segments with rising base offsets; the last is the active one."""

    __slots__ = ("_bases", "_segments")

    def __init__(self, segments: Iterable[Segment]) -> None:
        self._segments = list(segments)
        self._bases = [segment.base_offset for segment in self._segments]

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    @property
    def active(self) -> Segment:
        """The last segment."""
        return self._segments[-1]

    def at(self, slot: int) -> Segment:
        """The segment at `slot`, counted from the first."""
        return self._segments[slot]

    def base_at(self, slot: int) -> int:
        """The base offset of the segment at `slot`."""
        return self._bases[slot]

    def append(self, segment: Segment) -> None:
        """Add a segment behind all others."""
        self._segments.append(segment)
        self._bases.append(segment.base_offset)

    def slot(self, offset: int) -> int:
        """Where the segment stands that `offset` belongs to; 0 for one before all."""
        return max(0, bisect_right(self._bases, offset) - 1)

    def floor(self, offset: int) -> Segment:
        """The segment that `offset` belongs to, by base offsets alone."""
        return self._segments[bisect_right(self._bases, offset) - 1]

    def since(self, offset: int) -> list[Segment]:
        """The segments from the one that `offset` belongs to on."""
        return self._segments[self.slot(offset) :]

    def ends_before(self, segment: Segment, offset: int) -> bool:
        """Whether all of `segment` lies below `offset`, because the next one does not."""
        slot = bisect_right(self._bases, segment.base_offset)
        return slot < len(self._bases) and self._bases[slot] <= offset

    def locate(self, offset: int) -> tuple[Segment, Extent] | None:
        """The first batch that ends at `offset` or later, and its segment; None: none does.

        CorruptLogError when a segment that has to be looked at is damaged.
        """
        for slot in range(self.slot(offset), len(self._segments)):
            extent = self._segments[slot].find(offset)
            if extent is not None:
                return self._segments[slot], extent
        return None

    def locate_timestamp(self, timestamp_ms: int, start: int) -> tuple[Segment, Extent] | None:
        """The first batch with a timestamp not below, of those that end at `start` or later."""
        for segment in self.since(start):
            if segment.max_timestamp >= timestamp_ms:
                extent = segment.find_timestamp(timestamp_ms, start)
                if extent is not None:
                    return segment, extent
        return None

    def locate_max_timestamp(self) -> tuple[Segment, Extent] | None:
        """The first batch that holds the greatest timestamp of all; where none has one, the
        first batch, as in Apache Kafka."""
        segment = max(self._segments, key=lambda candidate: candidate.max_timestamp)
        known = segment.max_timestamp >= 0
        extent = segment.find(segment.max_timestamp_offset if known else segment.base_offset)
        return None if extent is None else (segment, extent)

    def remove(self, slot: int) -> Sequence[Segment]:
        """Take the segments from `slot` on out of the row."""
        removed = self._segments[slot:]
        del self._segments[slot:]
        del self._bases[slot:]
        return removed

    def truncate(self, offset: int) -> Sequence[Segment]:
        """Take the segments out that hold nothing below `offset`; the first is left, unless it
        lies above it."""
        return self.remove(0 if offset < self._bases[0] else self.slot(offset) + 1)

    def bases_before(self, time_ms: int | None, limit: int) -> list[int]:
        """Base offsets, newest first and at most `limit`, from the newest segment on of which the
        file was last written at `time_ms` or before; None: from the active one on."""
        slot = len(self._segments)
        while slot and time_ms is not None and self._segments[slot - 1].written_ms() > time_ms:
            slot -= 1
        return self._bases[max(0, slot - limit) : slot][::-1]

    def replace(self, slot: int, count: int, made: Sequence[Segment]) -> Sequence[Segment]:
        """Have others stand in the place of `count` segments from `slot` on, which are returned."""
        replaced = self._segments[slot : slot + count]
        self._segments[slot : slot + count] = made
        self._bases[slot : slot + count] = [segment.base_offset for segment in made]
        return replaced

    def remove_oldest(self, count: int) -> Sequence[Segment]:
        """Take the first `count` segments out of the row."""
        removed = self._segments[:count]
        del self._segments[:count]
        del self._bases[:count]
        return removed


def mark_deleted(disk: Disk, segments: Iterable[Segment]) -> list[str]:
    """Rename the files of segments that are out of the row, in the order given; the new paths.

    Whoever takes them from an end of the log begins at that end: were the names that follow to
    be lost in a crash, no gap would be left.
    """
    renamed = []
    for segment in segments:
        segment.release()
        for suffix in FILES:
            path = segment.path_of(suffix)
            if disk.fs.exists(path):
                disk.fs.rename(path, path + DELETED)
                renamed.append(path + DELETED)
    return renamed
