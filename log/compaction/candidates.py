"""How dirty a log is, and which part of it may be compacted: as in Apache Kafka's
LogCleanerManager."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kavka.log.segment import Segment
from kavka.log.segments import SegmentList
from kavka.log.settings import LogSettings


class Cleanable(NamedTuple):
    """The cleanable part of a log. Sizes in bytes."""

    first_dirty: int
    """Below this offset the log is clean."""

    end_offset: int
    """The first uncleanable offset: the base offset of the first segment that may not be
    cleaned."""

    clean_bytes: int
    dirty_bytes: int
    overdue_ms: int
    """How long the oldest dirty record has exceeded `max.compaction.lag.ms`."""

    @property
    def ratio(self) -> float:
        """The dirty ratio, from 0 to 1."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    def is_due(self, settings: LogSettings) -> bool:
        """Whether the log should be compacted now."""
        if self.overdue_ms > 0 and self.dirty_bytes:
            return True
        return self.ratio > settings.min_cleanable_dirty_ratio


def examine(
    segments: SegmentList,
    settings: LogSettings,
    *,
    first_dirty: int,
    last_stable: int,
    now_ms: int,
) -> Cleanable:
    """What may be compacted: closed segments below the last stable offset, all of whose records
    are older than `min.compaction.lag.ms`."""
    dirty = segments.since(first_dirty)[:-1]
    upto = min(last_stable, segments.active.base_offset)
    if settings.min_compaction_lag_ms > 0:
        young = (s for s in dirty if s.max_timestamp > now_ms - settings.min_compaction_lag_ms)
        upto = min([upto, *(segment.base_offset for segment in list(young)[:1])])
    end_offset = segments.floor(max(first_dirty, upto)).base_offset
    return Cleanable(
        first_dirty,
        end_offset,
        sum(segment.size for segment in segments if segment.base_offset < first_dirty),
        sum(segment.size for segment in dirty if segment.base_offset < end_offset),
        _overdue_ms(dirty, settings, now_ms),
    )


def _overdue_ms(dirty: Sequence[Segment], settings: LogSettings, now_ms: int) -> int:
    times = [segment.first_timestamp for segment in dirty if segment.size]
    oldest = min((time for time in times if time > 0), default=None)
    if oldest is None:
        return 0
    return max(0, now_ms - settings.max_compaction_lag_ms - oldest)
