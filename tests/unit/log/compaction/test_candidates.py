"""How dirty logs are, and what of them may be compacted."""

from __future__ import annotations

from typing import Any

import pytest

from kavka.log.compaction.candidates import Cleanable
from kavka.log.memfs import MemFs
from kavka.log.partition_log import PartitionLog
from support import logs
from support.logs import NO_LIMIT, TIMESTAMP, Broker

PER_SEGMENT = 5


def a_log(segments: int, **changes: Any) -> PartitionLog:
    """Closed segments of five batches, a millisecond apart, and an active one with a batch."""
    size = len(logs.batch([bytes(100)]))
    log = Broker(
        MemFs(), log_settings=logs.settings(segment_bytes=PER_SEGMENT * size, **changes)
    ).log()
    logs.fill(log, segments * PER_SEGMENT + 1)
    assert log.segment_count == segments + 1
    return log


def examine(
    log: PartitionLog, *, clean: int = 0, stable: int | None = None, now_ms: int = TIMESTAMP
) -> Cleanable:
    return log.compaction.examine(
        log.settings,
        first_dirty=clean,
        last_stable=log.end_offset if stable is None else stable,
        now_ms=now_ms,
    )


def test_all_closed_segments_are_dirty_at_first() -> None:
    log = a_log(4)
    found = examine(log)
    assert (found.first_dirty, found.end_offset) == (0, 20)
    assert found.clean_bytes == 0
    assert found.dirty_bytes == log.size_bytes * 20 // 21
    assert found.ratio == 1


def test_what_was_compacted_is_clean() -> None:
    log = a_log(4)
    found = examine(log, clean=15)
    assert (found.first_dirty, found.end_offset) == (15, 20)
    assert found.clean_bytes == 3 * found.dirty_bytes
    assert found.ratio == 0.25
    done = examine(log, clean=20)
    assert (done.end_offset, done.dirty_bytes, done.ratio) == (20, 0, 0)


def test_a_log_with_only_an_active_segment_is_not_cleanable() -> None:
    found = examine(a_log(0))
    assert (found.end_offset, found.dirty_bytes, found.ratio, found.overdue_ms) == (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("stable", "end"), [(0, 0), (4, 0), (5, 5), (9, 5), (19, 15), (20, 20), (21, 20)]
)
def test_records_above_the_last_stable_offset_are_not_cleanable(stable: int, end: int) -> None:
    assert examine(a_log(4), stable=stable).end_offset == end


@pytest.mark.parametrize(("age_ms", "end"), [(0, 0), (3, 0), (4, 5), (8, 5), (9, 10), (100, 20)])
def test_records_younger_than_min_compaction_lag_are_not_cleanable(age_ms: int, end: int) -> None:
    """Segments end at 4, 9, 14 and 19 ms; one of them is too young with the age of its end."""
    log = a_log(4, min_compaction_lag_ms=1000)
    assert examine(log, now_ms=TIMESTAMP + 1000 + age_ms).end_offset == end
    assert examine(log, clean=10, now_ms=TIMESTAMP + 1000 + age_ms).end_offset == max(end, 10)


def test_records_are_overdue_by_the_first_of_a_dirty_segment() -> None:
    log = a_log(4, max_compaction_lag_ms=1000, min_cleanable_dirty_ratio=1.0)
    assert examine(log, now_ms=TIMESTAMP + 1000).overdue_ms == 0
    found = examine(log, now_ms=TIMESTAMP + 1300)
    assert found.overdue_ms == 300
    assert examine(log, clean=10, now_ms=TIMESTAMP + 1300).overdue_ms == 290
    assert examine(log, clean=20, now_ms=TIMESTAMP + 1300).overdue_ms == 0
    assert found.is_due(log.settings), "though the ratio is not above the least"
    assert not examine(log, now_ms=TIMESTAMP + 1000).is_due(log.settings)
    assert not examine(log, stable=0, now_ms=TIMESTAMP + 1300).is_due(log.settings)


def test_records_without_a_time_are_never_overdue() -> None:
    log = Broker(
        MemFs(), log_settings=logs.settings(segment_bytes=100, max_compaction_lag_ms=1000)
    ).log()
    for _ in range(3):
        logs.append(log, logs.batch([b"x"], timestamps=-1))
    assert log.segment_count == 3
    assert examine(log, now_ms=TIMESTAMP).overdue_ms == 0


def test_the_dirty_ratio_must_exceed_the_configured_minimum() -> None:
    found = Cleanable(0, 100, clean_bytes=50, dirty_bytes=50, overdue_ms=0)
    assert not found.is_due(logs.settings(min_cleanable_dirty_ratio=0.5))
    assert found.is_due(logs.settings(min_cleanable_dirty_ratio=0.49))
    assert logs.settings().max_compaction_lag_ms == NO_LIMIT
