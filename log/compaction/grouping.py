"""Groups adjacent closed segments to be merged, so that segments don't get ever smaller."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from kavka.log.segment import RELATIVE_OFFSET_MAX

GROUP_SEGMENTS_MAX: Final = 32
"""Segments replaced at a time: with four files to rename each, 4 ms."""


class SegmentSize(NamedTuple):
    """The sizes of a segment's files in bytes. `end_offset` is the next segment's base offset."""

    base_offset: int
    end_offset: int
    log: int
    offset_index: int
    time_index: int


def group(
    segments: Sequence[SegmentSize], segment_bytes: int, index_bytes: int
) -> list[list[SegmentSize]]:
    """The segments in groups whose total sizes are within these limits."""
    groups: list[list[SegmentSize]] = []
    sums = SegmentSize(0, 0, 0, 0, 0)
    for segment in segments:
        log = sums.log + segment.log
        index = sums.offset_index + segment.offset_index
        time_index = sums.time_index + segment.time_index
        if (
            groups
            and len(groups[-1]) < GROUP_SEGMENTS_MAX
            and log <= segment_bytes
            and index <= index_bytes
            and time_index <= index_bytes
            and (
                not segment.log or segment.end_offset - 1 - sums.base_offset <= RELATIVE_OFFSET_MAX
            )
        ):
            groups[-1].append(segment)
            sums = sums._replace(log=log, offset_index=index, time_index=time_index)
        else:
            groups.append([segment])
            sums = segment
    return groups
