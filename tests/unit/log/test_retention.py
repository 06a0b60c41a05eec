"""Which segments go when, what of them is left on the disk, and what a log knows afterwards."""

from __future__ import annotations

import errno
import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.log.checkpoint import decode_epochs, decode_offsets
from kavka.log.memfs import Fault, MemFs
from kavka.log.partition_log import PartitionLog
from kavka.log.retention import SEGMENTS_AT_ONCE_MAX, roll_ms
from kavka.wire.errors import ApiError, ErrorCode
from support import logs
from support.logs import TIMESTAMP, Broker, Producer

DIRECTORY = f"{logs.DIRECTORY}/t-0"
DAY_MS = 24 * 3600 * 1000
MINUTE_MS = 60_000


def started(fs: MemFs | None = None, **changes: Any) -> Broker:
    """A broker whose segments hold ten batches of `logs.fill` each."""
    return Broker(fs or MemFs(), log_settings=logs.settings(**{"segment_bytes": 1700} | changes))


def bases(broker: Broker, suffix: str = ".log") -> list[int]:
    """Base offsets of the files that are there, by their names."""
    names = broker.fs.list_dir(DIRECTORY)
    return [int(name.removesuffix(suffix)) for name in names if name.endswith(suffix)]


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
    assert bases(broker) == list(range(0, 10 * segments, 10))
    return log


# --- by age


def test_segments_go_when_their_newest_record_is_too_old() -> None:
    broker = started(retention_ms=1000)
    log = ten_by_ten(broker)
    assert delete_old(log, TIMESTAMP + 9 + 1000) == 0, "as old as they may be"
    assert delete_old(log, TIMESTAMP + 9 + 1001) == 1
    assert (log.start_offset, bases(broker)) == (10, [10, 20, 30, 40])
    assert delete_old(log, TIMESTAMP + 29 + 1001) == 2
    assert (log.start_offset, bases(broker)) == (30, [30, 40])
    assert [record.offset for record in logs.read_from(log, 30)] == list(range(30, 50))


def test_the_newest_record_need_not_be_the_last() -> None:
    broker = started(retention_ms=1000, segment_bytes=400)
    log = broker.log()
    for timestamp in (TIMESTAMP + DAY_MS, TIMESTAMP, TIMESTAMP, TIMESTAMP):
        logs.append(log, logs.batch([bytes(100)], timestamps=timestamp))
    assert bases(broker) == [0, 2]
    assert delete_old(log, TIMESTAMP + DAY_MS + 1000) == 0, "a later segment is older, but later"
    assert delete_old(log, TIMESTAMP + DAY_MS + 1001) == 2


def test_when_all_is_too_old_an_empty_segment_is_left() -> None:
    broker = started(retention_ms=1000)
    log = ten_by_ten(broker, 2)
    assert delete_old(log, TIMESTAMP + DAY_MS) == 2
    assert (log.start_offset, log.end_offset, bases(broker)) == (20, 20, [20])
    assert delete_old(log, TIMESTAMP + 2 * DAY_MS) == 0, "an empty one stays"
    logs.fill(log, 3)
    assert [record.offset for record in logs.read_from(log, 20)] == [20, 21, 22]


def test_nothing_goes_that_consumers_may_not_see_yet() -> None:
    broker = started(retention_ms=0, retention_bytes=0)
    log = ten_by_ten(broker)
    assert delete_old(log, TIMESTAMP + DAY_MS, upto=0) == 0
    assert delete_old(log, TIMESTAMP + DAY_MS, upto=29) == 2
    assert delete_old(log, TIMESTAMP + DAY_MS, upto=49) == 2
    assert delete_old(log, TIMESTAMP + DAY_MS, upto=50) == 1
    assert (log.start_offset, bases(broker)) == (50, [50])


def test_records_of_the_future_stay() -> None:
    broker = started(retention_ms=0)
    log = ten_by_ten(broker, 2)
    assert delete_old(log, TIMESTAMP - DAY_MS) == 0


def test_records_without_a_time_are_as_old_as_their_file() -> None:
    broker = started(retention_ms=MINUTE_MS, segment_bytes=300)
    log = broker.log()
    for _ in range(2):
        logs.append(log, logs.batch([bytes(150)], timestamps=-1))
        broker.clock.elapsed_ms += MINUTE_MS
    assert bases(broker) == [0, 1]
    now_ms = broker.clock.now_ms()
    assert log.delete_old(now_ms, 2) == 1, "written two minutes ago; the other one just one"
    assert log.delete_old(now_ms + 1, 2) == 1


# --- by size


def test_segments_go_while_there_are_enough_bytes_without_them() -> None:
    broker = started()
    log = ten_by_ten(broker)
    each = log.size_bytes // 5
    for retention_bytes, left in (
        (5 * each, [0, 10, 20, 30, 40]),
        (4 * each + 1, [0, 10, 20, 30, 40]),
        (4 * each, [10, 20, 30, 40]),
        (2 * each, [30, 40]),
        (1, [40]),
        (0, [50]),
    ):
        log.configure(logs.settings(segment_bytes=1700, retention_bytes=retention_bytes))
        delete_old(log)
        assert bases(broker) == left, retention_bytes


def test_below_zero_is_no_limit() -> None:
    broker = started(retention_ms=-1, retention_bytes=-1)
    assert delete_old(ten_by_ten(broker), TIMESTAMP + 100 * DAY_MS) == 0


# --- by the start offset


def test_segments_before_the_start_go_whatever_the_policy() -> None:
    for policy in (("delete",), ("compact",), ("compact", "delete"), ()):
        broker = started(cleanup_policy=policy)
        log = ten_by_ten(broker)
        log.advance_start(29)
        assert delete_old(log) == 2, policy
        assert (log.start_offset, bases(broker)) == (29, [20, 30, 40])
        log.advance_start(30)
        assert delete_old(log) == 1
        log.advance_start(50)
        assert delete_old(log) == 1, "the last one is written to"
        assert (log.start_offset, bases(broker)) == (50, [40])


def test_age_and_size_say_nothing_without_the_policy_delete() -> None:
    for policy in (("compact",), ()):
        broker = started(cleanup_policy=policy, retention_ms=0, retention_bytes=0)
        assert delete_old(ten_by_ten(broker), TIMESTAMP + DAY_MS) == 0, policy
    broker = started(cleanup_policy=("compact", "delete"), retention_ms=0)
    assert delete_old(ten_by_ten(broker), TIMESTAMP + DAY_MS) == 5


def test_a_start_offset_does_not_go_back() -> None:
    log = ten_by_ten(started())
    assert log.advance_start(15)
    assert not log.advance_start(15)
    assert not log.advance_start(3)
    assert log.start_offset == 15


def test_what_is_out_of_range_moves_with_the_start() -> None:
    log = ten_by_ten(started())
    log.advance_start(15)
    with pytest.raises(ApiError) as refused:
        log.read(14, 1000, upto=50, at_least_one=True)
    assert refused.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert "14 of t-0 is not within 15 to 50" in str(refused.value)
    assert logs.read_from(log, 15)[0].offset == 15


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
        surplus = [sum(one.size for one in held) - size]

        def too_many(one: Held) -> bool:
            surplus[0] -= one.size
            return surplus[0] >= 0

        sweep(too_many)
    if ms >= 0:
        sweep(lambda one: now_ms - one.newest > ms)
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
        for base, next_base in _pairs([*bases(broker), end])
    ]
    wanted = expected_start(held, now, high_watermark, log.start_offset, ms=age, size=size)
    delete_old(log, TIMESTAMP + now, upto=high_watermark)
    assert log.start_offset == (end if wanted < 0 else wanted)
    assert [record.offset for record in logs.read_from(log, log.start_offset)] == list(
        range(log.start_offset, end)
    )


def _pairs(offsets: Sequence[int]) -> Iterator[tuple[int, int]]:
    yield from zip(offsets, offsets[1:], strict=False)


# --- what is done


def test_much_is_done_bit_by_bit() -> None:
    broker = started(retention_ms=0)
    log = ten_by_ten(broker, 2 * SEGMENTS_AT_ONCE_MAX + 5)
    now_ms = TIMESTAMP + DAY_MS
    counts = [log.delete_old(now_ms, log.end_offset) for _ in range(4)]
    assert counts == [SEGMENTS_AT_ONCE_MAX, SEGMENTS_AT_ONCE_MAX, 5, 0]
    log = ten_by_ten(started(), 2 * SEGMENTS_AT_ONCE_MAX + 5)
    log.advance_start(log.end_offset)
    counts = [log.delete_old(now_ms, log.end_offset) for _ in range(4)]
    assert counts == [SEGMENTS_AT_ONCE_MAX, SEGMENTS_AT_ONCE_MAX, 4, 0]


def test_files_are_renamed_and_go_later() -> None:
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


def test_snapshots_go_with_their_segments_and_producers_are_remembered() -> None:
    broker = started(retention_ms=0)
    log = broker.log()
    for sequence in range(30):
        data = logs.batch([bytes(100)], producer=Producer(7, 0, sequence))
        logs.append(log, data)
    assert bases(broker, ".snapshot") == [10, 20]
    delete_old(log, TIMESTAMP + DAY_MS)
    assert (bases(broker), bases(broker, ".snapshot")) == ([30], [30])
    for again in (broker.restart, broker.kill):
        again()
        assert [one.last_sequence for one in broker.log().producers] == [29]
        copy = logs.append(broker.log(), logs.batch([b"x"], producer=Producer(7, 0, 29)))
        assert copy.duplicate


def test_producers_are_remembered_though_their_records_were_deleted() -> None:
    broker = started()
    log = broker.log()
    logs.append(log, logs.batch([b"x"], producer=Producer(7, 0, 0)))
    log.advance_start(1)
    broker.restart()
    assert [one.producer_id for one in broker.log().producers] == [7]


def test_leader_epochs_begin_with_the_log() -> None:
    broker = started()
    log = broker.log()
    for epoch in (1, 3, 4):
        for _ in range(5):
            logs.append(log, logs.batch([b"x"]), leader_epoch=epoch)
    log.advance_start(7)
    assert logs.epoch_entries(log) == [(3, 7), (4, 10)]
    assert (log.epoch_of(6), log.epoch_of(7)) == (-1, 3)
    assert log.end_offset_for_epoch(1) == (1, 7)
    broker.logs.checkpoint({}).run()
    for life in (broker.kill, broker.restart):
        life()
        assert logs.epoch_entries(broker.log()) == [(3, 7), (4, 10)]
    log = broker.log()
    log.advance_start(14)
    assert logs.epoch_entries(log) == [(4, 14)]
    logs.append(log, logs.batch([b"x"]), leader_epoch=5)
    path = f"{DIRECTORY}/leader-epoch-checkpoint"
    assert decode_epochs(broker.fs.read_bytes(path), path) == [(4, 14), (5, 15)]


@pytest.mark.parametrize("life", ["restart", "kill", "crash"])
def test_the_start_offset_lasts(life: str) -> None:
    broker = started()
    log = ten_by_ten(broker)
    log.advance_start(25)
    delete_old(log)
    logs.flush(log)
    broker.logs.checkpoint({}).run()
    path = f"{logs.DIRECTORY}/log-start-offset-checkpoint"
    assert decode_offsets(broker.fs.read_bytes(path), path) == {("t", 0): 25}
    getattr(broker, life)()
    log = broker.log()
    assert (log.start_offset, log.end_offset, logs.first_base_offset(log)) == (25, 50, 20)
    assert logs.read_from(log, 25)[0].offset == 25


def test_without_its_checkpoint_a_log_begins_with_its_first_segment() -> None:
    broker = started()
    log = ten_by_ten(broker)
    log.advance_start(25)
    delete_old(log)
    broker.kill()
    assert (broker.log().start_offset, broker.log().end_offset) == (20, 50)


def test_a_log_that_was_emptied_goes_on_where_it_was() -> None:
    for life in ("restart", "kill", "crash"):
        broker = started(retention_ms=0)
        log = ten_by_ten(broker)
        delete_old(log, TIMESTAMP + DAY_MS)
        logs.flush(log)
        broker.logs.checkpoint({}).run()
        getattr(broker, life)()
        assert (broker.log().start_offset, broker.log().end_offset) == (50, 50), life
        logs.fill(broker.log(), 1)
        assert [record.offset for record in logs.read_from(broker.log(), 50)] == [50]


@pytest.mark.parametrize("seed", range(60))
def test_power_failures_around_it_lose_nothing_that_was_flushed(seed: int) -> None:
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


def test_segments_brought_back_by_a_power_failure_are_before_the_start() -> None:
    broker = started(MemFs())
    log = ten_by_ten(broker)
    logs.flush(log)
    log.advance_start(25)
    broker.logs.checkpoint({}).run()
    log.advance_start(30)
    assert delete_old(log) == 3
    broker.logs.checkpoint({}).run()
    broker.crash()
    assert (broker.log().start_offset, logs.first_base_offset(broker.log())) == (30, 0)


def test_a_failing_disk_is_reported() -> None:
    broker = started(MemFs(), retention_ms=0)
    log = ten_by_ten(broker)
    assert isinstance(broker.fs, MemFs)
    broker.fs.faults.append(Fault("rename", "10.log", errno.EIO))
    with pytest.raises(OSError, match="10.log"):
        delete_old(log, TIMESTAMP + DAY_MS)
    broker.kill()
    assert broker.log().start_offset == 10, "what had left by then is gone"
    assert [record.offset for record in logs.read_from(broker.log(), 10)] == list(range(10, 50))


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


def test_what_is_to_be_compacted_soon_is_closed_soon() -> None:
    given = {"segment_ms": DAY_MS, "max_compaction_lag_ms": 7}
    for policy, span in ((("delete",), DAY_MS), (("compact",), 7), (("compact", "delete"), 7)):
        assert roll_ms(logs.settings(cleanup_policy=policy, **given), "/any") == span
    settings = logs.settings(cleanup_policy=("compact",), segment_ms=5, max_compaction_lag_ms=7)
    assert roll_ms(settings, "/any") == 5


def test_an_index_without_room_for_an_entry_closes_each_segment_after_a_batch() -> None:
    broker = started(segment_index_bytes=12, index_interval_bytes=0)
    logs.fill(broker.log(), 4)
    broker.restart()
    logs.fill(broker.log(), 2)
    assert bases(broker) == [0, 1, 2, 3, 4, 5]


def test_a_log_heeds_the_jitter() -> None:
    broker = started(segment_ms=1000, segment_jitter_ms=1000, segment_bytes=1 << 20)
    log = broker.log()
    span = roll_ms(broker.settings, f"{DIRECTORY}/{0:020d}.log")
    assert 1 < span < 1000, "else this shows nothing"
    for later in (0, span, span + 1):
        logs.append(log, logs.batch([b"x"], timestamps=TIMESTAMP + later))
    assert bases(broker) == [0, 2]
