"""A follower's log has what its leader's has, however the fetched bytes are cut."""

from __future__ import annotations

import random
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.compat_tests.raw.codec import batches
from kavka.compat_tests.raw.codec.batches import patch
from kavka.log.follower_append import (
    NOTHING_APPENDED,
    CorruptFetchError,
    UnexpectedOffsetError,
    append_as_follower,
)
from kavka.log.memfs import MemFs
from kavka.log.segment import RELATIVE_OFFSET_MAX
from kavka.log.settings import LogSettings
from kavka.log.txn_index import AbortedTxn
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.record_batches import read_header
from kavka.wire.steps import run_at_once
from support import compaction, logs, replication
from support.logs import Broker
from support.replication import Leader, Op, fetch, replicate, state, take

SMALL = logs.settings(segment_bytes=900, index_interval_bytes=200)
COMPACTED = logs.settings(segment_bytes=1500, index_interval_bytes=200, cleanup_policy=("compact",))


def any_settings(*segment_bytes: int) -> st.SearchStrategy[LogSettings]:
    return st.builds(
        logs.settings,
        segment_bytes=st.sampled_from(segment_bytes),
        index_interval_bytes=st.sampled_from([0, 200, 4096]),
        segment_index_bytes=st.sampled_from([60, 1 << 20]),
        segment_ms=st.sampled_from([100, 1 << 40]),
    )


def batch_at(offset: int, *, epoch: int = 0, size: int = 20) -> memoryview:
    """A batch of one record as a leader has it in its log."""
    data = batches.build([batches.Written(b"k", bytes(size))])
    return memoryview(patch(data, base_offset=offset, leader_epoch=epoch))


def empty_batch(offset: int, **fields: int) -> bytearray:
    """A batch of three offsets that compaction has left without records."""
    length = batches.HEADER_BYTES - 12
    head = batches.build()[: batches.HEADER_BYTES]
    return patch(head, base_offset=offset, batch_length=length, record_count=0, **fields)


def joined(*parts: memoryview) -> memoryview:
    return memoryview(b"".join(parts))


# --- the same as the leader


@settings(max_examples=150)
@given(
    replication.ops(),
    any_settings(1500, 100_000),
    any_settings(300, 900, 100_000),
    st.integers(0, 1 << 32),
)
def test_a_follower_converges(
    history: list[Op], of_leader: LogSettings, of_follower: LogSettings, seed: int
) -> None:
    """Its state is the leader's, after a restart and a kill too, and after a truncation."""
    chance = random.Random(seed)
    leader = Leader(of_leader)
    leader.do(history)
    fs = MemFs()
    broker = Broker(fs, log_settings=of_follower)
    replicate(leader.log, broker.log(), chance)
    expected = state(leader.log, leader.fs)
    assert state(broker.log(), fs) == expected
    assert expected["epochs"] == list(replication.epochs_of(expected["bytes"]))
    theirs = {producer.producer_id: producer.batches for producer in leader.log.producers}
    assert {producer.producer_id: producer.batches for producer in broker.log().producers} == theirs
    for begin_again in (broker.restart, broker.kill):
        begin_again()
        assert state(broker.log(), fs) == expected
    bounds = [header.base_offset for header in replication.headers_in(expected["bytes"])]
    run_at_once(broker.logs.truncate_in_steps(broker.log(), chance.choice([0, *bounds])))
    logs.purge(broker.logs)
    replicate(leader.log, broker.log(), chance)
    assert state(broker.log(), fs) == expected
    broker.kill()
    assert state(broker.log(), fs) == expected


@pytest.mark.parametrize("segment_bytes", [1000, 3000, 100_000])
@pytest.mark.parametrize("index_interval_bytes", [0, 200])
@pytest.mark.parametrize("segment_index_bytes", [60, 1 << 20])
@pytest.mark.parametrize("segment_ms", [300, 1 << 40])
def test_with_the_same_settings_it_has_the_same_files(
    segment_bytes: int, index_interval_bytes: int, segment_index_bytes: int, segment_ms: int
) -> None:
    """Segments, indexes, snapshots: as if the batches had been appended one at a time."""
    both = logs.settings(
        segment_bytes=segment_bytes,
        index_interval_bytes=index_interval_bytes,
        segment_index_bytes=segment_index_bytes,
        segment_ms=segment_ms,
    )
    chance = random.Random(segment_bytes + index_interval_bytes + segment_index_bytes)
    leader, fs = Leader(both), MemFs()
    leader.do(
        Op(
            chance.choice(
                ["plain", "idempotent", "transactional", "transactional", "end", "epoch"]
            ),
            producer=chance.randint(1, 3),
            size=chance.randint(0, 150),
            records=chance.randint(1, 3),
            commit=chance.random() < 0.5,
            step_ms=chance.randint(-20, 60),
        )
        for _ in range(150)
    )
    broker = Broker(fs, log_settings=both)
    log = broker.log()
    replicate(leader.log, log, chance, bytes_max=20_000)
    leader.broker.logs.close()
    broker.logs.close()
    assert replication.all_files(fs, log) == replication.all_files(leader.fs, leader.log)


@settings(max_examples=150)
@given(
    replication.ops(),
    replication.ops(),
    any_settings(300, 900, 100_000),
    st.integers(0, 1 << 32),
)
def test_a_follower_of_a_compacted_log(
    first: list[Op], second: list[Op], of_follower: LogSettings, seed: int
) -> None:
    """Offsets are missing, and there are batches without records."""
    leader = Leader(COMPACTED)
    leader.do(first)
    leader.log.roll(leader.now_ms)
    leader.compact()
    leader.do(second)
    fs = MemFs()
    # a topic whose policy has changed since must not lose anything either
    broker = Broker(fs, log_settings=of_follower)
    replicate(leader.log, broker.log(), random.Random(seed))
    found, theirs = state(broker.log(), fs), state(leader.log, leader.fs)
    for name in ("end", "bytes", "producers", "stable", "ongoing"):
        assert found[name] == theirs[name], name
    assert found["epochs"] == list(replication.epochs_of(found["bytes"]))
    for begin_again in (broker.kill, broker.restart):
        begin_again()
        assert state(broker.log(), fs) == found
    assert compaction.read_all(broker.log()) == compaction.read_all(leader.log)


def test_undecided_transactions_are_the_leaders_at_each_high_watermark() -> None:
    leader = Leader(SMALL)
    kinds = [
        Op("transactional", 1),
        Op("transactional", 2),
        Op("plain"),
        Op("end", 1, commit=False),
        Op("transactional", 1),
        Op("end", 2),
        Op("plain"),
    ]
    leader.do(kinds * 4)
    follower = Broker(MemFs(), log_settings=SMALL).log()
    replicate(leader.log, follower, random.Random(1))
    stable = [follower.last_stable_offset(offset) for offset in range(leader.log.end_offset + 1)]
    assert stable == [
        leader.log.last_stable_offset(offset) for offset in range(leader.log.end_offset + 1)
    ]
    assert len(set(stable)) > 5
    reported: set[AbortedTxn] = set()
    for offset in range(leader.log.end_offset):
        ours, theirs = (
            log.aborted_transactions(offset, found)
            for log in (follower, leader.log)
            if (found := log.read(offset, 1, upto=log.end_offset, at_least_one=True)) is not None
        )
        assert ours == theirs
        reported.update(ours.found)
    assert len(reported) == 4


# --- how it is written


class CountingFs(MemFs):
    """Remembers what was done, and to which files."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[str] = []

    def check(self, op: str, path: str) -> None:
        self.done.append(f"{op} {path.rpartition('.')[2]}")
        super().check(op, path)


def test_a_run_of_batches_is_one_write() -> None:
    fs = CountingFs()
    log = Broker(fs, log_settings=logs.settings(index_interval_bytes=500)).log()
    take(log, batch_at(0))
    fs.done.clear()
    data = joined(*(batch_at(offset) for offset in range(1, 200)))
    done = take(log, data)
    assert done == (1, 199, len(data), 199)
    assert fs.done == ["pwrite log"]


def test_a_new_segment_costs_one_more_write() -> None:
    fs = CountingFs()
    size = len(batch_at(0))
    log = Broker(fs, log_settings=logs.settings(segment_bytes=10 * size)).log()
    take(log, joined(*(batch_at(offset) for offset in range(35))))
    assert fs.done.count("pwrite log") == 4
    assert logs.base_offsets(fs, log) == [0, 10, 20, 30]


def test_a_batch_that_is_larger_than_a_segment_has_one_of_its_own(
    broker: Broker, fs: MemFs
) -> None:
    """The leader's segment.bytes was greater when it took it; replication must not end there."""
    broker.settings = logs.settings(segment_bytes=500)
    log = broker.log()
    take(log, joined(batch_at(0), batch_at(1, size=2000), batch_at(2), batch_at(3)))
    assert logs.base_offsets(fs, log) == [0, 1, 2]
    assert [record.offset for record in logs.read_from(log)] == [0, 1, 2, 3]


def test_indexes_are_written_as_they_grow(fs: MemFs) -> None:
    """Else all of their entries would stay in memory."""
    log = Broker(fs, log_settings=logs.settings(index_interval_bytes=0)).log()
    for start in range(0, 2000, 400):
        take(log, joined(*(batch_at(offset) for offset in range(start, start + 400))))
    (index,) = logs.files(fs, log, ".index")
    assert fs.size(index) >= 1000 * 8


def test_batches_without_timestamps_are_one_write_too() -> None:
    fs = CountingFs()
    log = Broker(fs).log()
    fs.done.clear()
    empty = patch(bytearray(batch_at(0)), max_timestamp=-1, base_timestamp=-1)
    parts = [memoryview(patch(empty, base_offset=offset)) for offset in range(50)]
    take(log, joined(*parts))
    assert fs.done.count("pwrite log") == 1


# --- offsets


def test_nothing_and_half_a_batch_append_nothing(broker: Broker) -> None:
    log = broker.log()
    data = batch_at(0)
    for cut in (0, 11, 12, 17, 60, 61, len(data) - 1):
        assert take(log, data[:cut]) == NOTHING_APPENDED
    assert log.end_offset == 0
    assert take(log, data).last_offset == 0


def test_batches_below_the_end_are_refused(broker: Broker) -> None:
    log = broker.log()
    take(log, joined(batch_at(0), batch_at(1)))
    for offset in (0, 1):
        with pytest.raises(UnexpectedOffsetError) as refused:
            take(log, batch_at(offset))
        assert (refused.value.first_offset, refused.value.last_offset) == (offset, offset)
    with pytest.raises(CorruptFetchError, match="2 to 2, after 2"):
        take(log, joined(batch_at(2), batch_at(2)))
    assert log.end_offset == 2


def test_an_offset_that_has_no_next_one_is_refused(broker: Broker) -> None:
    with pytest.raises(CorruptFetchError, match="offsets would be"):
        take(broker.log(), batch_at((1 << 63) - 1))
    assert take(broker.log(), batch_at((1 << 63) - 2)).last_offset == (1 << 63) - 2


@pytest.mark.parametrize(
    ("offset", "base"),
    [
        (RELATIVE_OFFSET_MAX, 0),
        (RELATIVE_OFFSET_MAX + 1, 1),
        (RELATIVE_OFFSET_MAX + 2, RELATIVE_OFFSET_MAX + 2),
        (1 << 40, 1 << 40),
    ],
)
def test_an_offset_too_far_for_the_index_begins_a_segment(
    fs: MemFs, offset: int, base: int
) -> None:
    """At the end of the log if that is near enough, so that recovery finds no gap."""
    broker = Broker(
        fs, log_settings=logs.settings(index_interval_bytes=0, cleanup_policy=("compact",))
    )
    take(broker.log(), joined(batch_at(0), batch_at(offset), batch_at(offset + 1)))
    assert logs.base_offsets(fs, broker.log())[:2] == ([0, base] if base else [0, offset + 1])
    for begin_again in (broker.kill, broker.restart):
        begin_again()
        log = broker.log()
        assert [record.offset for record in logs.read_from(log)] == [0, offset, offset + 1]
        assert [record.offset for record in logs.read_from(log, offset - 1)] == [offset, offset + 1]
        assert log.end_offset == offset + 2


def test_an_empty_segment_may_stay_before_one_that_is_far_away(fs: MemFs) -> None:
    """As in Apache Kafka; compaction and retention take it as it is."""
    far = 1 << 40
    broker = Broker(fs, log_settings=logs.settings(cleanup_policy=("compact",)))
    log = broker.log()
    take(log, batch_at(0))
    log.roll(logs.TIMESTAMP)
    take(log, batch_at(far))
    assert logs.base_offsets(fs, log) == [0, 1, far]
    log.roll(logs.TIMESTAMP)
    compaction.clean(log, fs)
    broker.kill()
    log = broker.log()
    assert [record.offset for record in logs.read_from(log)] == [far]
    take(log, batch_at(log.end_offset))
    assert log.delete_old(logs.TIMESTAMP, log.end_offset) == 0
    assert [record.offset for record in logs.read_from(log)] == [far, far + 1]


def test_a_consumer_is_not_led_to_an_empty_batch(broker: Broker) -> None:
    """Also not by the position at which an earlier read has ended."""
    log = broker.log()
    take(log, batch_at(0))
    assert log.read(0, 1 << 20, upto=1, at_least_one=True) is not None
    empty = memoryview(empty_batch(1))
    done = take(log, joined(empty, batch_at(4)))
    assert done == (1, 4, len(empty) + len(batch_at(4)), 1)
    found = log.read(1, 1 << 20, upto=5, at_least_one=True)
    assert found is not None
    assert found.base_offset == 4


def test_an_empty_batch_has_no_time_but_that_for_rolling(fs: MemFs) -> None:
    """No record has its timestamp; yet the segment is as old as it."""
    hour_ms = 3_600_000
    log = Broker(fs, log_settings=logs.settings(segment_ms=hour_ms)).log()
    time_ms = batches.BASE_TIMESTAMP_MS
    empty = memoryview(empty_batch(0, max_timestamp=time_ms + 1))
    take(log, joined(empty, batch_at(3)), now_ms=time_ms + 9 * hour_ms)
    found = log.batch_of_max_timestamp()
    assert found is not None
    assert found.base_offset == 3
    later = patch(bytearray(batch_at(4)), max_timestamp=time_ms + hour_ms + 2)
    take(log, memoryview(later), now_ms=0)
    assert logs.base_offsets(fs, log) == [0, 4]


# --- epochs


def test_batches_of_a_later_epoch_are_left_out(broker: Broker) -> None:
    """A former leader sends what it has fetched itself meanwhile (KAFKA-18723)."""
    log = broker.log()
    data = joined(batch_at(0, epoch=3), batch_at(1, epoch=5), batch_at(2, epoch=3))
    done = append_as_follower(log, data, leader_epoch=4, now_ms=logs.TIMESTAMP)
    assert done.last_offset == 0
    assert logs.epoch_entries(log) == [(3, 0)]
    data = joined(batch_at(1, epoch=3), batch_at(2, epoch=5))
    assert append_as_follower(log, data, leader_epoch=5, now_ms=0).last_offset == 2
    assert logs.epoch_entries(log) == [(3, 0), (5, 2)]


def test_an_epoch_in_which_it_led_without_records_gives_way(broker: Broker) -> None:
    log = broker.log()
    take(log, batch_at(0, epoch=3))
    log.assign_epoch(5, 1)
    take(log, batch_at(1, epoch=4))
    assert logs.epoch_entries(log) == [(3, 0), (4, 1)]
    broker.kill()
    assert logs.epoch_entries(broker.log()) == [(3, 0), (4, 1)]


def test_an_epoch_that_is_too_low_changes_nothing(broker: Broker) -> None:
    """As in recovery: it must be damaged, since no checksum covers it."""
    log = broker.log()
    take(log, joined(batch_at(0, epoch=3), batch_at(1, epoch=1), batch_at(2, epoch=-1)))
    assert logs.epoch_entries(log) == [(3, 0)]
    broker.kill()
    assert logs.epoch_entries(broker.log()) == [(3, 0)]


def test_nothing_is_appended_during_a_truncation(broker: Broker) -> None:
    log = broker.log()
    by_a_producer = patch(bytearray(batch_at(0)), producer_id=7, producer_epoch=0, base_sequence=0)
    take(log, joined(memoryview(by_a_producer), batch_at(1)))
    steps = log.truncate_in_steps(1)
    next(steps)
    with pytest.raises(ApiError) as refused:
        take(log, batch_at(1))
    assert refused.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    run_at_once(steps)
    assert take(log, batch_at(1)).last_offset == 1


# --- damage


def damaged(data: memoryview, bit: int) -> memoryview:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return memoryview(changed)


@pytest.mark.parametrize("field", batches.FIELDS)
def test_each_bit_of_a_header(field: str, fs: MemFs) -> None:
    """Damage in the middle one of three batches is noticed, but for its leader epoch: that is left
    out if it is too high, and not used if it is too low."""
    broker = Broker(fs)
    log = broker.log()
    take(log, batch_at(0, epoch=5))
    data = joined(*(batch_at(offset, epoch=5) for offset in (1, 2, 3)))
    size = len(data) // 3
    begin, form = batches.FIELDS[field]
    before = state(log, fs)
    noticed = 0
    for bit in range(8 * begin, 8 * (begin + struct.calcsize(form))):
        changed = damaged(data, 8 * size + bit)
        try:
            done = append_as_follower(log, changed, leader_epoch=5, now_ms=logs.TIMESTAMP)
        except CorruptFetchError:
            noticed += 1
            assert state(log, fs) == before
            continue
        epoch = batches.field(changed[size:], "leader_epoch")
        if epoch < 5:
            assert (field, done.last_offset) == ("leader_epoch", 3)
        else:
            # a length beyond the end is that of an incomplete batch
            assert field in ("leader_epoch", "batch_length")
            assert done.last_offset == 1
        assert logs.epoch_entries(log) == [(5, 0)]
        run_at_once(log.truncate_in_steps(1))
        assert state(log, fs) == before
    bits = 8 * struct.calcsize(form)
    assert noticed == bits or field in ("leader_epoch", "batch_length")
    assert take(log, data).last_offset == 3


@settings(max_examples=150)
@given(st.data())
def test_each_bit_that_a_checksum_covers(data: st.DataObject) -> None:
    fs = MemFs()
    leader = Leader(logs.settings())
    leader.do([Op("idempotent", records=3), Op("transactional"), Op("end", commit=False)] * 2)
    log = Broker(fs).log()
    fetched = fetch(leader.log, 0)
    take(log, fetched[: read_header(fetched).size])
    rest = fetch(leader.log, log.end_offset)
    before = state(log, fs), replication.all_files(fs, log)
    position = data.draw(st.sampled_from(list(positions(rest))))
    size = read_header(rest, position).size
    bit = data.draw(st.integers(8 * (position + batches.CRC_START), 8 * (position + size) - 1))
    with pytest.raises(CorruptFetchError, match="t-0 has no batch at byte"):
        take(log, damaged(rest, bit))
    assert (state(log, fs), replication.all_files(fs, log)) == before
    take(log, rest)
    assert state(log, fs) == state(leader.log, leader.fs)


def positions(data: memoryview) -> list[int]:
    found = [0]
    for header in replication.headers_in(data):
        found.append(found[-1] + header.size)
    return found[:-1]


def test_older_formats_are_refused(broker: Broker) -> None:
    old = memoryview(batches.build_legacy(1) * 2)
    with pytest.raises(CorruptFetchError, match="magic would be 1") as refused:
        take(broker.log(), old)
    assert refused.value.code == ErrorCode.CORRUPT_MESSAGE


def test_an_invalid_marker_is_refused(broker: Broker) -> None:
    """Recovery would end the log there."""
    wrong = batches.build([batches.Written(b"\0\0\0\1", b"\0\0")])
    attributes = batches.CONTROL | 0x10
    wrong = patch(wrong, attributes=attributes, producer_id=7, base_offset=1)
    with pytest.raises(CorruptFetchError, match="coordinator"):
        take(broker.log(), joined(batch_at(0), memoryview(wrong)))
    assert broker.log().end_offset == 0
    # without a producer it is one of KRaft's, and no marker
    other = patch(wrong, producer_id=-1)
    assert take(broker.log(), joined(batch_at(0), memoryview(other))).last_offset == 1
    broker.kill()
    assert broker.log().end_offset == 2
