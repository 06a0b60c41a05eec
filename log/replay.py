"""Producer state of a given offset: a snapshot and the batch headers since."""

from __future__ import annotations

from collections.abc import Iterable

from kavka.log.producer_state import ProducerStates
from kavka.log.scan import headers
from kavka.log.segment import Segment
from kavka.log.segments import SegmentList
from kavka.log.snapshots import Snapshots


def replay_producers(
    segments: Iterable[Segment],
    snapshots: Snapshots,
    producers: ProducerStates,
    start: int,
    end: int,
) -> None:
    """Set `producers` to the state just before `end`, for a log that starts at `start`.

    CorruptLogError when a segment that is needed for it is damaged.
    """
    begin = max(start, snapshots.load(end, producers))
    wanted = SegmentList(segments)
    for segment in wanted.since(begin) if len(wanted) else ():
        if segment.base_offset >= end:
            break
        first = segment.find(begin)
        if first is None:
            continue
        for _, header in headers(segment.file, segment.path, first.position, segment.size):
            if header.last_offset >= end:
                break
            producers.update(header, header.last_offset)
