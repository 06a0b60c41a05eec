"""When to roll, and which of the oldest segments to delete: as in Apache Kafka's UnifiedLog.

Decides only; `PartitionLog` acts on it.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple

from kavka.log.segment import Segment
from kavka.log.segments import SegmentList
from kavka.log.settings import COMPACT, DELETE, LogSettings

SEGMENTS_AT_ONCE_MAX: Final = 10
"""Segments deleted from a log at a time: with up to four files to rename each, 1 ms."""


class OffsetBounds(NamedTuple):
    """Offsets of a log. Records at or above the high watermark are not deleted."""

    start: int
    end: int
    high_watermark: int


def roll_ms(settings: LogSettings, path: str) -> int:
    """The time span of the records in the segment at `path`: `segment.ms` minus the jitter.

    For compacted topics at most `max.compaction.lag.ms`, since only closed segments are compacted.
    Apache Kafka's jitter is random. Here it is derived from the path: spread as well, but the same
    after a restart.
    """
    span_ms = settings.segment_ms
    if COMPACT in settings.cleanup_policy:
        span_ms = min(span_ms, settings.max_compaction_lag_ms)
    jitter_ms = min(settings.segment_jitter_ms, settings.segment_ms)
    return span_ms - zlib.crc32(path.encode()) % jitter_ms if jitter_ms else span_ms


def count_deletable_segments(
    segments: SegmentList, settings: LogSettings, bounds: OffsetBounds, now_ms: int
) -> int:
    """How many of the oldest segments to delete, at most `SEGMENTS_AT_ONCE_MAX`; all of them if
    all records are expired, except an empty active segment.

    With any `cleanup.policy` segments are deleted that end at or before the log start offset; with
    "delete" then by `retention.bytes`, and of the rest by `retention.ms`.
    """
    count = _count_below_start(segments, bounds.start)
    if DELETE in settings.cleanup_policy:
        count += _count_by_size(segments, count, settings.retention_bytes, bounds)
        count += _count_by_age(segments, count, settings.retention_ms, bounds, now_ms)
    return count


def _deletable_segments(
    segments: SegmentList, skip: int, bounds: OffsetBounds
) -> Iterator[Segment]:
    """The segments from slot `skip` on that may be deleted: those below the high watermark."""
    for slot in range(skip, min(len(segments), SEGMENTS_AT_ONCE_MAX)):
        is_last = slot + 1 == len(segments)
        end = bounds.end if is_last else segments.base_at(slot + 1)
        if end > bounds.high_watermark or (is_last and not segments.at(slot).size):
            return
        yield segments.at(slot)


def _count_below_start(segments: SegmentList, start: int) -> int:
    return min(segments.slot(start), SEGMENTS_AT_ONCE_MAX)


def _count_by_size(
    segments: SegmentList, skip: int, retention_bytes: int, bounds: OffsetBounds
) -> int:
    if retention_bytes < 0:
        return 0
    surplus = sum(segment.size for segment in segments) - retention_bytes
    surplus -= sum(segments.at(slot).size for slot in range(skip))
    count = 0
    for segment in _deletable_segments(segments, skip, bounds):
        surplus -= segment.size
        if surplus < 0:
            break
        count += 1
    return count


def _count_by_age(
    segments: SegmentList, skip: int, retention_ms: int, bounds: OffsetBounds, now_ms: int
) -> int:
    if retention_ms < 0:
        return 0
    count = 0
    for segment in _deletable_segments(segments, skip, bounds):
        if now_ms - segment.newest_ms() <= retention_ms:
            break
        count += 1
    return count
