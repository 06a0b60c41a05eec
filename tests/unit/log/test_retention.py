"""Which segments go when, what of them is left on the disk, and what a log knows afterwards."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.log.memfs import MemFs
from kavka.log.partition_log import PartitionLog
from kavka.log.retention import SEGMENTS_AT_ONCE_MAX, roll_ms
from support import logs
from support.logs import TIMESTAMP, Broker

DIRECTORY = f"{logs.DIRECTORY}/t-0"
DAY_MS = 24 * 3600 * 1000


def started(fs: MemFs | None = None, **changes: Any) -> Broker:
    """A broker whose segments hold ten batches of `logs.fill` each."""
    return Broker(fs or MemFs(), log_settings=logs.settings(**{"segment_bytes": 1700} | changes))


def delete_old(log: PartitionLog, now_ms: int = TIMESTAMP, upto: int | None = None) -> int:
    """As the broker does it, again and again."""
    total = 0
    while count := log.delete_old(now_ms, log.end_offset if upto is None else upto):
        total += count
    return total


def ten_by_ten(broker: Broker, segments: int = 5) -> PartitionLog:
    """A log of segments with ten records each, a millisecond apart."""
    log = broker.log()
    logs.fill(log, 10 * segments)
    assert logs.base_offsets(broker.fs, log) == list(range(0, 10 * segments, 10))
    return log


# --- all rules together, against a list


class Held:
    """A segment of the list."""

    def __init__(self, base: int, end: int, size: int, newest: int) -> None:
        self.base, self.end, self.size, self.newest = base, end, size, newest


def expected_start(
    held: list[Held], now_ms: int, high_watermark: int, start: int, *, ms: int, size: int
) -> int:
    """Where a log begins after Apache Kafka's deleteOldSegments: three rules, one by one, each
    from the front until it first says no."""

    def sweep(rule: Any) -> None:
        while held and held[0].end <= high_watermark and held[0].size and rule(held[0]):
            held.pop(0)

    while len(held) > 1 and held[1].base <= start:
        held.pop(0)
    if size >= 0:
        surplus = [sum(segment.size for segment in held) - size]

        def too_many(segment: Held) -> bool:
            surplus[0] -= segment.size
            return surplus[0] >= 0

        sweep(too_many)
    if ms >= 0:
        sweep(lambda segment: now_ms - segment.newest > ms)
    return max(start, held[0].base) if held else -1


@given(
    times=st.lists(st.integers(0, 100), min_size=1, max_size=40),
    start=st.integers(0, 40),
    behind=st.integers(0, 10),
    age=st.integers(-1, 120),
    size=st.integers(-1, 5000),
    now=st.integers(0, 200),
)
def test_all_rules(
    times: Sequence[int], start: int, behind: int, age: int, size: int, now: int
) -> None:
    broker = started(segment_bytes=700, retention_ms=age, retention_bytes=size)
    log = broker.log()
    for time in times:
        logs.append(log, logs.batch([bytes(100)], timestamps=TIMESTAMP + time))
    end = log.end_offset
    high_watermark = max(0, end - behind)
    log.advance_start(min(start, high_watermark))
    batch_bytes = log.size_bytes // end
    held = [
        Held(base, next_base, (next_base - base) * batch_bytes, max(times[base:next_base]))
        for base, next_base in _pairs([*logs.base_offsets(broker.fs, log), end])
    ]
    expected = expected_start(held, now, high_watermark, log.start_offset, ms=age, size=size)
    delete_old(log, TIMESTAMP + now, upto=high_watermark)
    assert log.start_offset == (end if expected < 0 else expected)
    assert [record.offset for record in logs.read_from(log, log.start_offset)] == list(
        range(log.start_offset, end)
    )


def _pairs(offsets: Sequence[int]) -> Iterator[tuple[int, int]]:
    yield from zip(offsets, offsets[1:], strict=False)


# --- what is done


def test_deletion_is_split_into_steps() -> None:
    broker = started(retention_ms=0)
    log = ten_by_ten(broker, 2 * SEGMENTS_AT_ONCE_MAX + 5)
    now_ms = TIMESTAMP + DAY_MS
    counts = [log.delete_old(now_ms, log.end_offset) for _ in range(4)]
    assert counts == [SEGMENTS_AT_ONCE_MAX, SEGMENTS_AT_ONCE_MAX, 5, 0]
    log = ten_by_ten(started(), 2 * SEGMENTS_AT_ONCE_MAX + 5)
    log.advance_start(log.end_offset)
    counts = [log.delete_old(now_ms, log.end_offset) for _ in range(4)]
    assert counts == [SEGMENTS_AT_ONCE_MAX, SEGMENTS_AT_ONCE_MAX, 4, 0]


def test_files_are_renamed_first_and_removed_later() -> None:
    broker = started(file_delete_delay_ms=5000)
    log = ten_by_ten(broker)
    found = log.read(0, 1 << 20, upto=50, at_least_one=True)
    log.advance_start(20)
    delete_old(log)
    deleted = [name for name in broker.fs.list_dir(DIRECTORY) if name.endswith(".deleted")]
    assert sorted(deleted) == [
        *(f"{0:020d}.{kind}.deleted" for kind in ("index", "log", "timeindex")),
        *(f"{10:020d}.{kind}.deleted" for kind in ("index", "log", "snapshot", "timeindex")),
    ]
    assert broker.logs.deferred_deletes.due(0) == []
    assert sorted(broker.logs.deferred_deletes.due(5)) == [
        f"{DIRECTORY}/{name}" for name in sorted(deleted)
    ]
    assert found is not None
    logs.purge(broker.logs)
    assert len(logs.parse(logs.bytes_of(found))) == 10, "who reads goes on"


@pytest.mark.parametrize("seed", range(60))
def test_power_failures_during_retention_lose_no_flushed_record(seed: int) -> None:
    """Some of the names may have got to the disk, and old segments be back: what was flushed and
    not deleted is there, and what was deleted is there whole or gone."""
    chance = random.Random(seed)
    broker = started()
    log = ten_by_ten(broker)
    if chance.random() < 0.5:
        logs.flush(log)
    log.configure(logs.settings(segment_bytes=1700, retention_bytes=chance.randrange(9000)))
    if chance.random() < 0.5:
        log.advance_start(chance.randrange(50))
    log.delete_old(TIMESTAMP, 50)
    start = log.start_offset
    logs.fill(log, chance.randrange(20), start=50)
    flushed = log.recovery_point
    if chance.random() < 0.5:
        logs.flush(log)
        flushed = log.end_offset
    if chance.random() < 0.5:
        broker.logs.checkpoint({}).run()
    broker.crash(chance)
    log = broker.log()
    assert log.start_offset <= start
    assert log.end_offset >= flushed
    offsets = [record.offset for record in logs.read_from(log, log.start_offset)]
    assert offsets == list(range(log.start_offset, log.end_offset))


# --- when segments close


def test_the_jitter_closes_segments_earlier_by_up_to_its_size() -> None:
    settings = logs.settings(segment_ms=DAY_MS, segment_jitter_ms=10_000)
    paths = [f"/data/t-{number}/{number:020d}.log" for number in range(200)]
    spans = [roll_ms(settings, path) for path in paths]
    assert spans == [roll_ms(settings, path) for path in paths], "the same after a restart"
    assert all(DAY_MS - 10_000 < span <= DAY_MS for span in spans)
    assert len(set(spans)) > 150
    assert min(spans) < DAY_MS - 9000 and max(spans) > DAY_MS - 1000


def test_a_jitter_takes_no_more_than_segment_ms() -> None:
    settings = logs.settings(segment_ms=100, segment_jitter_ms=DAY_MS)
    assert all(0 < roll_ms(settings, str(number)) <= 100 for number in range(500))


def test_without_jitter_segments_close_on_time() -> None:
    assert roll_ms(logs.settings(segment_ms=5), "/any") == 5


def test_max_compaction_lag_ms_limits_the_roll_interval() -> None:
    given = {"segment_ms": DAY_MS, "max_compaction_lag_ms": 7}
    for policy, span in ((("delete",), DAY_MS), (("compact",), 7), (("compact", "delete"), 7)):
        assert roll_ms(logs.settings(cleanup_policy=policy, **given), "/any") == span
    settings = logs.settings(cleanup_policy=("compact",), segment_ms=5, max_compaction_lag_ms=7)
    assert roll_ms(settings, "/any") == 5


def test_segment_jitter_rolls_segments_earlier() -> None:
    broker = started(segment_ms=1000, segment_jitter_ms=1000, segment_bytes=1 << 20)
    log = broker.log()
    span = roll_ms(broker.settings, f"{DIRECTORY}/{0:020d}.log")
    assert 1 < span < 1000, "else this shows nothing"
    for later in (0, span, span + 1):
        logs.append(log, logs.batch([b"x"], timestamps=TIMESTAMP + later))
    assert logs.base_offsets(broker.fs, log) == [0, 2]
