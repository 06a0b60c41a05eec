"""Reads of a log: finds the file and the byte range of the batches from an offset on.

Reads only batch headers and indexes; the caller reads the batches.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kavka.log.errors import CorruptLogError
from kavka.log.fs import File
from kavka.log.scan import Extent, extents
from kavka.log.segment import Segment
from kavka.log.segments import SegmentList
from kavka.log.txn_index import AbortedTxns, collect_aborted
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.record_batches import HEADER_BYTES

REMEMBERED_POSITIONS_MAX: Final = 64
"""Offsets whose file position is cached: where the next reads are likely to start."""

EMPTY_BATCHES_MAX: Final = 1000
"""Batches without records that one read skips, at 1 us each."""

EMPTY_SEGMENTS_MAX: Final = 100
"""Segments in which one read skips empty batches, at about 20 us each."""

NO_ABORTED_TXNS: Final = AbortedTxns()


class FileRange(NamedTuple):
    """Batches in one file: `length` bytes from `position` on. The last may be incomplete."""

    file: File
    position: int
    length: int
    base_offset: int
    """Of the first batch."""
    more_follows: bool = False
    """Readable batches follow in a later segment."""
    is_cut: bool = False
    """There is more than the reader's limit allows; `length` may be below the limit all the same,
    to end with a whole batch."""


def file_range_of(found: tuple[Segment, Extent] | None) -> FileRange | None:
    """The byte range of a batch that was found, if any."""
    if found is None:
        return None
    segment, extent = found
    return FileRange(segment.file, extent.position, extent.size, extent.base_offset)


def out_of_range(offset: int, name: str, start: int, end: int) -> ApiError:
    """The error for an offset outside of the log `name`."""
    message = f"offset {offset} of {name} is not within {start} to {end}"
    return ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, message)


class LogReader:
    """Reads of one log, whose `segments` it shares."""

    __slots__ = ("_active", "_active_base", "_positions", "_segments", "last_abort")

    def __init__(self, segments: SegmentList) -> None:
        """`activate` has to be called before the first read."""
        self._segments = segments
        self._positions: dict[int, int] = {}
        self.last_abort = max(segment.txns.last_offset for segment in segments)
        """There are no aborted transactions after this offset."""

    def activate(self, segment: Segment) -> None:
        """`segment` has become the active one, or was truncated: drop the cached positions."""
        self._active = segment
        self._active_base = segment.base_offset
        self._positions.clear()

    def read(
        self,
        offset: int,
        max_bytes: int,
        upto: int,
        to_end: bool,
        at_least_one: bool,
        skip_empty: bool,
    ) -> FileRange | None:
        """As `PartitionLog.read`, for an offset within the log and below `upto`; `to_end` says
        that `upto` is the end of the log."""
        active = self._active
        segment = active if offset >= self._active_base else self._segments.floor(offset)
        position = self._positions.get(offset)
        base = offset
        if position is None:
            extent = segment.find(offset)
            if extent is None:
                found = self._segments.locate(offset)
                if found is None:
                    return None
                segment, extent = found
            if skip_empty and extent.size == HEADER_BYTES:
                segment, extent = self._skip_empty(segment, extent, upto)
            position = extent.position
            base = extent.base_offset
        more_follows = segment is not active and self._segments.ends_before(segment, upto)
        end = segment.size if to_end or more_follows else self._end_of(segment, upto)
        length = end - position
        is_cut = length > max_bytes
        if not is_cut:
            if length <= 0:
                return None
            if segment is active:
                self._remember(upto, end)
        else:
            length = self._limit_length(segment, position, max_bytes, at_least_one)
            if not length:
                return None
        file = segment.open_file or segment.file
        return FileRange(file, position, length, base, more_follows, is_cut)

    def _skip_empty(self, segment: Segment, extent: Extent, upto: int) -> tuple[Segment, Extent]:
        """The first batch with records after an empty one, or the last empty one below `upto`.

        Compaction leaves empty batches, often a single one in a segment. Apache Kafka leaves few,
        and a consumer that gets only empty batches takes its fetch size for too small: librdkafka
        doubles it, and fails with MSG_SIZE_TOO_LARGE.
        """
        passed = 0
        begin = extent.position
        for following in self._segments.since(segment.base_offset)[:EMPTY_SEGMENTS_MAX]:
            try:
                for next_extent in extents(following.file, following.path, begin, following.size):
                    if next_extent.base_offset >= upto or passed == EMPTY_BATCHES_MAX:
                        return segment, extent
                    segment, extent = following, next_extent
                    if next_extent.size > HEADER_BYTES:
                        return segment, extent
                    passed += 1
            except CorruptLogError:  # reported to a read that starts there
                break
            begin = 0
        return segment, extent

    def aborted(self, offset: int, found: FileRange, end: int) -> AbortedTxns:
        """The aborted transactions in the batches found from `offset` on, in a log that ends at
        `end`; may include some that start a little after them, since the index is sparse."""
        if offset > self.last_abort:
            return NO_ABORTED_TXNS
        following = self._segments.since(found.base_offset)
        upper = following[0].indexed_after(found.position + found.length)
        if upper < 0:
            upper = following[1].base_offset if len(following) > 1 else end
        indexes = (segment.txns for segment in following)
        return collect_aborted(indexes, offset, upper, found.base_offset)

    def _end_of(self, segment: Segment, upto: int) -> int:
        """The position of the offset `upto`, in the segment that it belongs to."""
        position = self._positions.get(upto)
        if position is not None:
            return position
        extent = segment.find(upto)
        return segment.size if extent is None else extent.position

    def _remember(self, offset: int, position: int) -> None:
        positions = self._positions
        if offset not in positions:
            if len(positions) >= REMEMBERED_POSITIONS_MAX:
                del positions[next(iter(positions))]
            positions[offset] = position

    def _limit_length(
        self, segment: Segment, position: int, max_bytes: int, at_least_one: bool
    ) -> int:
        """How many bytes at `position` to return, if more than `max_bytes` are available.

        Prefers to end before an indexed batch, where the next fetch will start: it is found
        without a search, and no incomplete batch is sent.
        """
        following = segment.indexed_before(position + max_bytes)
        if following is not None and following.position > position:
            if segment is self._active and following.size > HEADER_BYTES:
                self._remember(following.base_offset, following.position)
            return following.position - position
        first = segment.extent_at(position).size
        if first <= max_bytes:
            return max_bytes
        return first if at_least_one else 0
