"""The list of segments of a log, with searches for offsets and timestamps."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from kavka.log.disk import Disk
from kavka.log.scan import Extent
from kavka.log.segment import DELETED, FILES, Segment
from kavka.log.times import ANY_NUMBER

LAZY_INDEX_BYTES_MAX: Final = 1 << 18
"""The indexes of an active segment up to this size are opened lazily, by the first `append` or
`read`; if they are damaged they are rebuilt in a few ms."""


class SegmentList:
    """Segments with increasing base offsets; the last is the active one."""

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
        """Add a segment after all others."""
        self._segments.append(segment)
        self._bases.append(segment.base_offset)

    def slot(self, offset: int) -> int:
        """The slot of the segment with `offset`; 0 for an offset before all segments."""
        return max(0, bisect_right(self._bases, offset) - 1)

    def floor(self, offset: int) -> Segment:
        """The segment with `offset`, by base offsets alone."""
        return self._segments[bisect_right(self._bases, offset) - 1]

    def since(self, offset: int) -> list[Segment]:
        """The segments from the one with `offset` on."""
        return self._segments[self.slot(offset) :]

    def ends_before(self, segment: Segment, offset: int) -> bool:
        """Whether all of `segment` is below `offset`: the next one starts there or before."""
        slot = bisect_right(self._bases, segment.base_offset)
        return slot < len(self._bases) and self._bases[slot] <= offset

    def locate(self, offset: int) -> tuple[Segment, Extent] | None:
        """The first batch that ends at `offset` or later, with its segment; None if there is none.

        CorruptLogError if a segment on the way is damaged.
        """
        for slot in range(self.slot(offset), len(self._segments)):
            extent = self._segments[slot].find(offset)
            if extent is not None:
                return self._segments[slot], extent
        return None

    def locate_timestamp(
        self, timestamp_ms: int, start: int, headers_max: int = ANY_NUMBER
    ) -> tuple[Segment, Extent] | None:
        """The first batch with a timestamp of at least `timestamp_ms`, of those that end at `start`
        or later. SearchPaused when `headers_max` of a segment were read."""
        for segment in self.since(start):
            if segment.max_timestamp >= timestamp_ms:
                extent = segment.find_timestamp(timestamp_ms, start, headers_max)
                if extent is not None:
                    return segment, extent
        return None

    def locate_max_timestamp(self) -> tuple[Segment, Extent] | None:
        """The first batch with the greatest timestamp; without any timestamp the first batch, as in
        Apache Kafka."""
        segment = max(self._segments, key=lambda candidate: candidate.max_timestamp)
        known = segment.max_timestamp >= 0
        extent = segment.find(segment.max_timestamp_offset if known else segment.base_offset)
        return None if extent is None else (segment, extent)

    def remove(self, slot: int) -> Sequence[Segment]:
        """Remove and return the segments from `slot` on."""
        removed = self._segments[slot:]
        del self._segments[slot:]
        del self._bases[slot:]
        return removed

    def truncate(self, offset: int) -> Sequence[Segment]:
        """Remove and return the segments above `offset`. The first one stays unless its base offset
        is above `offset`."""
        return self.remove(0 if offset < self._bases[0] else self.slot(offset) + 1)

    def bases_before(self, time_ms: int | None, limit: int) -> list[int]:
        """At most `limit` base offsets, newest first, starting with the newest segment last
        modified at `time_ms` or before; None: starting with the active one."""
        slot = len(self._segments)
        while slot and time_ms is not None and self._segments[slot - 1].written_ms() > time_ms:
            slot -= 1
        return self._bases[max(0, slot - limit) : slot][::-1]

    def replace(self, slot: int, count: int, made: Sequence[Segment]) -> Sequence[Segment]:
        """Replace `count` segments from `slot` on by `made`; returns the replaced ones."""
        replaced = self._segments[slot : slot + count]
        self._segments[slot : slot + count] = made
        self._bases[slot : slot + count] = [segment.base_offset for segment in made]
        return replaced

    def remove_oldest(self, count: int) -> Sequence[Segment]:
        """Remove and return the first `count` segments."""
        removed = self._segments[:count]
        del self._segments[:count]
        del self._bases[:count]
        return removed


def mark_deleted(disk: Disk, segments: Iterable[Segment]) -> list[str]:
    """Rename the files of removed segments to `.deleted`, in the given order; the new paths.

    Segments from an end of the log have to be given starting at that end, so that a crash in
    between leaves no gap.
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
