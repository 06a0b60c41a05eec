"""Compacting whole logs, against a model that knows only records."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.compat_tests.raw.codec.batches import CODECS, Written, around, build
from kavka.log.compaction import cleaned, run
from kavka.log.compaction.offset_map import SLOT_BYTES
from kavka.log.compaction.order import Progress, Replacement
from kavka.log.compaction.run import compact
from kavka.log.errors import CorruptLogError
from kavka.log.memfs import MemFs
from kavka.log.partition_log import PartitionLog
from kavka.log.producer_state import ProducerStates
from kavka.log.replay import replay_in_steps
from kavka.log.snapshots import Snapshots
from kavka.wire.record_batches import read_header
from kavka.wire.steps import run_at_once
from support import compaction, logs, replication
from support.compaction import LIMITS, clean, compacted, order, read_all
from support.logs import Broker
from support.virtual import InlineWorker

COMPACT: dict[str, Any] = {"cleanup_policy": ("compact",), "index_interval_bytes": 200}


def a_broker(fs: MemFs, **changes: Any) -> Broker:
    return Broker(fs, log_settings=logs.settings(**COMPACT | {"segment_bytes": 4000} | changes))


def write(log: PartitionLog, chance: random.Random, count: int, *, keys: int = 30) -> None:
    for number in range(count):
        records = [
            Written(
                b"key-%d" % chance.randrange(keys) if chance.random() < 0.97 else None,
                b"value %d" % number if chance.random() < 0.9 else None,
                (),
                10 * number + chance.randrange(50),
            )
            for _ in range(chance.randrange(1, 9))
        ]
        batch = build(records, codec=chance.choice(list(CODECS)))
        logs.append(log, memoryview(batch))


@settings(max_examples=40)
@given(
    seed=st.integers(0, 1 << 30),
    rounds=st.integers(1, 4),
    segment_bytes=st.sampled_from([600, 2000, 50_000]),
    slots=st.sampled_from([3, 20, 1000]),
    read_bytes=st.sampled_from([0, 1 << 20]),
)
def test_the_last_value_of_each_key_is_left(
    seed: int, rounds: int, segment_bytes: int, slots: int, read_bytes: int
) -> None:
    """Round after round, with maps that have no room for all keys too, and after restarts."""
    chance = random.Random(seed)
    fs = MemFs()
    broker = a_broker(fs, segment_bytes=segment_bytes)
    limits = replace(LIMITS, map_bytes=slots * SLOT_BYTES, read_bytes=read_bytes)
    model: list[compaction.Keyed] = []
    end = -1
    for _ in range(rounds):
        log = broker.log()
        write(log, chance, 40)
        model += [record for record in read_all(log) if record.offset > end]
        end = model[-1].offset
        dirty = log.compaction.first_dirty(log.start_offset, log.end_offset)
        outcome = clean(log, fs, limits=limits)
        assert dirty <= outcome.end_offset <= log.end_offset
        assert slots < 1000 or outcome.end_offset == order(log).end_offset
        model = compacted(model, dirty, outcome.end_offset)
        assert read_all(log) == model
        broker.restart() if chance.random() < 0.5 else broker.kill()
        assert read_all(broker.log()) == model
        assert broker.log().end_offset == end + 1


def test_a_small_offset_map_needs_several_passes() -> None:
    fs = MemFs()
    log = a_broker(fs).log()
    write(log, random.Random(1), 100)
    before = read_all(log)
    limits = replace(LIMITS, map_bytes=4 * SLOT_BYTES)
    upto = 0
    while (now := clean(log, fs, limits=limits).end_offset) > upto:
        upto = now
    assert upto == order(log).end_offset
    assert read_all(log) == compacted(before, 0, upto)


def test_compaction_reports_its_statistics() -> None:
    fs = MemFs()
    log = a_broker(fs, segment_bytes=3000).log()
    write(log, random.Random(2), 200)
    compaction_order = order(log)
    messages: list[Any] = []
    outcome = compact(InlineWorker(messages.append), fs, compaction_order)
    assert {base for replacement in messages for base in replacement.old} == {
        base for base, _ in compaction_order.segments
    }
    for replacement in messages:
        assert isinstance(replacement, Replacement)
        for base, size in replacement.new:
            assert fs.size(f"{log.directory}/{base:020d}.log.cleaned") == size
    sizes = sum(size for _, size in compaction_order.segments)
    assert outcome.bytes_indexed == outcome.bytes_read == sizes
    assert outcome.bytes_written == sum(
        size for replacement in messages for _, size in replacement.new
    )
    read = [record for record in read_all(log) if record.offset < compaction_order.end_offset]
    assert outcome.records_read == len(read)
    assert outcome.records_kept == len(compacted(read, 0, compaction_order.end_offset))
    assert outcome.records_keyless == sum(record.key is None for record in read)


def test_it_reports_progress_once_a_second() -> None:
    fs = MemFs()
    log = a_broker(fs, segment_bytes=300_000).log()
    for number in range(40):
        write_value(log, b"key-%d" % (number % 7), 30_000)
    messages: list[Any] = []
    limits = replace(LIMITS, read_bytes=1, bytes_per_s=200_000.0)
    worker = InlineWorker(messages.append)
    outcome = compact(worker, fs, order(log, limits=limits))
    progress = [message for message in messages if isinstance(message, Progress)]
    assert len(progress) >= 5
    assert abs(len(progress) - outcome.total_s / run.REPORT_INTERVAL_S) < outcome.total_s / 2
    assert [report.stage for report in progress] == sorted(
        (report.stage for report in progress), reverse=True
    )
    assert all(0 < report.bytes_done <= report.bytes_in_all for report in progress)
    assert outcome.waited_s > 0
    spent = outcome.bytes_indexed + outcome.bytes_read + outcome.bytes_written
    assert abs(outcome.total_s - spent / 200_000) < 1


def write_value(log: PartitionLog, key: bytes, size: int) -> None:
    logs.append(log, memoryview(build([Written(key, bytes(size))])))


def test_batches_larger_than_the_buffer_are_read() -> None:
    fs = MemFs()
    log = a_broker(fs, segment_bytes=1 << 20).log()
    for number in range(12):
        write_value(log, b"%d" % (number % 3), 300_000)
        write_value(log, b"%d" % (number % 3), 10)
    before = read_all(log)
    outcome = clean(log, fs, limits=replace(LIMITS, read_bytes=1000))
    assert read_all(log) == compacted(before, 0, outcome.end_offset)


def test_a_segment_that_stays_as_it_is_is_not_replaced() -> None:
    fs = MemFs()
    log = a_broker(fs, segment_bytes=1000).log()
    for number in range(40):
        write_value(log, b"%d" % number, 850)
    messages: list[Any] = []
    outcome = compact(InlineWorker(messages.append), fs, order(log))
    assert messages == []
    assert outcome.records_kept == outcome.records_read == 39
    assert [name for name in fs.list_dir(log.directory) if name.endswith(".cleaned")] == []


def test_files_of_an_interrupted_run_are_removed() -> None:
    """Were it there during a swap, a restart would take that for half a one."""
    fs = MemFs()
    log = a_broker(fs).log()
    write(log, random.Random(3), 100)
    stray = f"{log.directory}/{5:020d}.log.cleaned"
    fs.create(stray)
    clean(log, fs)
    assert not fs.exists(stray)


def test_segments_end_where_the_next_one_begins() -> None:
    """So that a gap is always a loss. Each run makes groups of what the one before left."""
    fs = MemFs()
    broker = a_broker(fs, segment_bytes=1500)
    log = broker.log()
    for turn in range(3):
        write(log, random.Random(turn), 60, keys=3)
        clean(log, fs)
        check_no_gaps(fs, log)


def check_no_gaps(fs: MemFs, log: PartitionLog) -> None:
    ends = [compaction.end_of(fs.read_bytes(path)) for path in logs.files(fs, log)]
    assert ends[:-1] == logs.base_offsets(fs, log)[1:]


def test_a_group_may_need_more_than_one_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where what is kept gets larger than positions can express: here than 1000 bytes."""
    monkeypatch.setattr(cleaned, "SIZE_MAX", 1000)
    fs = MemFs()
    broker = a_broker(fs, segment_bytes=8000)
    log = broker.log()
    write(log, random.Random(5), 400, keys=200)
    before = read_all(log)
    outcome = clean(log, fs)
    sizes = [fs.size(f"{log.directory}/{name}") for name in fs.list_dir(log.directory)]
    assert log.segment_count > 8, sizes
    check_no_gaps(fs, log)
    model = compacted(before, 0, outcome.end_offset)
    assert read_all(log) == model
    broker.kill()
    assert read_all(broker.log()) == model


@pytest.mark.parametrize("at", [0, 30, 70, 200, 2000])
def test_a_damaged_batch_ends_compaction(at: int) -> None:
    fs = MemFs()
    log = a_broker(fs).log()
    write(log, random.Random(6), 100)
    path = f"{log.directory}/{0:020d}.log"
    data = bytearray(fs.read_bytes(path))
    data[at + 16 if at == 0 else at] ^= 0x40
    fs.open(path).pwrite(data, 0)
    with pytest.raises(CorruptLogError, match="0.log has no batch at byte"):
        compact(InlineWorker(print), fs, order(log))


def test_a_truncated_file_ends_compaction() -> None:
    fs = MemFs()
    log = a_broker(fs).log()
    write(log, random.Random(6), 100)
    fs.open(f"{log.directory}/{0:020d}.log").truncate(1000)
    with pytest.raises(CorruptLogError):
        compact(InlineWorker(print), fs, order(log))


def test_an_index_may_be_missing() -> None:
    """The index of a segment that was not searched since; that is no failing disk."""
    fs = MemFs()
    log = a_broker(fs).log()
    write(log, random.Random(6), 100)
    before = read_all(log)
    for suffix in (".index", ".timeindex"):
        fs.remove(f"{log.directory}/{0:020d}{suffix}")
    outcome = clean(log, fs)
    assert read_all(log) == compacted(before, 0, outcome.end_offset)


def test_a_rewritten_segment_keeps_its_modification_time() -> None:
    """For retention, where no record has a timestamp."""
    fs = MemFs()
    log = a_broker(fs).log()
    fs.now_ms = lambda: 5000
    write(log, random.Random(6), 100)
    fs.now_ms = lambda: 9000
    clean(log, fs)
    assert fs.modified_ms(f"{log.directory}/{0:020d}.log") == 5000


def test_a_batch_that_can_t_be_opened_is_kept_and_reported() -> None:
    fs = MemFs()
    log = a_broker(fs).log()
    broken = around(b"\x00\x01\x02\x03", count=2)
    logs.append(log, memoryview(bytearray(broken)))
    for number in range(40):
        write_value(log, b"%d" % (number % 2), 300)
    outcome = clean(log, fs)
    assert outcome.batches_broken == [f"{log.directory}/{0:020d}.log at byte 0"]
    kept = fs.read_bytes(f"{log.directory}/{0:020d}.log")
    assert kept[17 : len(broken)] == broken[17:]


# --- producers and transactions


def test_producer_states_survive_compaction() -> None:
    """Their last sequence is in a batch that has no records any more."""
    fs = MemFs()
    broker = a_broker(fs, segment_bytes=2000)
    log = broker.log()
    for sequence in range(5):
        batch = build([Written(b"k", b"v")], producer=(7, 1, sequence))
        logs.append(log, memoryview(batch))
    write_value(log, b"k", 300)
    for number in range(40):
        write_value(log, b"k%d" % (number % 2), 300)
    clean(log, fs)
    assert [record.offset for record in read_all(log) if record.key == b"k"] == [5]
    for name in fs.list_dir(log.directory):
        if name.endswith(".snapshot"):
            fs.remove(f"{log.directory}/{name}")
    broker.kill()
    (entry,) = broker.log().producers
    assert (entry.producer_id, entry.epoch, entry.last_sequence) == (7, 1, 4)


def with_a_batch_beyond(kept: bool) -> tuple[Broker, MemFs]:
    """A log after compaction, in whose active segment is the last batch of producer 7, with the
    sequence 5. `kept`: whether the snapshot at the end of what is compacted was there."""
    fs = MemFs()
    broker = a_broker(fs, segment_bytes=2000)
    log = broker.log()

    def write_as_producer(sequence: int) -> None:
        logs.append(log, memoryview(build([Written(b"k", b"v")], producer=(7, 1, sequence))))

    for sequence in range(5):
        write_as_producer(sequence)
    for number in range(12):
        write_value(log, b"k", 300)
        write_value(log, b"k%d" % (number % 2), 300)
    log.roll(logs.TIMESTAMP)
    write_as_producer(5)
    snapshots = log.producer_manager.snapshots
    assert snapshots.newest == log.end_offset - 1
    if not kept:
        for offset in snapshots.offsets:
            snapshots.remove(offset)
    clean(log, fs)
    assert len(read_all(log)) == 4, "three keys, and the last batch"
    return broker, fs


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("why", ["truncated", "truncated and killed", "power cut"])
def test_a_producer_whose_last_batch_is_lost_goes_on_after_the_one_before(
    why: str, kept: bool
) -> None:
    """That was compacted away, as there was a later one: else a batch sent again would be appended
    a second time, or the next one refused."""
    broker, fs = with_a_batch_beyond(kept)
    log = broker.log()
    if why == "power cut":
        plan = log.flush_plan()
        assert plan is not None
        plan.run()
        broker.crash()
    else:
        run_at_once(broker.logs.truncate_in_steps(log, log.end_offset - 1))
    if why == "truncated and killed":
        broker.kill()
    log = broker.log()
    assert log.end_offset == 29
    (entry,) = log.producers
    assert (entry.producer_id, entry.epoch, entry.last_sequence) == (7, 1, 4)
    again = logs.append(log, memoryview(build([Written(b"k", b"v")], producer=(7, 1, 4))))
    assert again.duplicate and again.base_offset == 4


Known = dict[int, tuple[int, int, bool]]


def known_from_batches(log: PartitionLog, fs: MemFs, end: int) -> Known:
    """Epoch and last sequence of each producer at `end`, and whether it has a transaction, without
    snapshots. Not where that began: the records there may have been compacted away."""
    states = ProducerStates()
    none = Snapshots(fs, log.directory, ())
    run_at_once(replay_in_steps(log._segments, none, states, log.start_offset, end))
    return {
        entry.producer_id: (entry.epoch, entry.last_sequence, entry.txn_first_offset >= 0)
        for entry in states
    }


@settings(max_examples=40)
@given(
    histories=st.lists(replication.ops(), min_size=2, max_size=3),
    has_snapshots=st.booleans(),
)
def test_wherever_a_log_is_cut_later_its_producers_are_known_as_before(
    histories: list[list[replication.Op]], has_snapshots: bool
) -> None:
    """At the end of what is compacted, and at each offset after it: its followers may get so far,
    and it may be truncated to there."""
    leader = replication.Leader(logs.settings(**COMPACT | {"segment_bytes": 1000}))
    log, snapshots = leader.log, leader.log.producer_manager.snapshots
    for history in histories:
        leader.do(history)
        if not has_snapshots:
            for offset in snapshots.offsets:
                snapshots.remove(offset)
        end = order(log, last_stable=log.last_stable_offset(log.end_offset)).end_offset
        cuts = range(end, log.end_offset + 1)
        before = [known_from_batches(log, leader.fs, cut) for cut in cuts]
        leader.compact()
        assert [known_from_batches(log, leader.fs, cut) for cut in cuts] == before


@pytest.mark.parametrize("damage", ["none", "short", "checksum"])
def test_a_damaged_snapshot_is_not_believed(damage: str) -> None:
    """As without one more batches stay than are needed."""
    fs = MemFs()
    broker = a_broker(fs, segment_bytes=2000)
    log = broker.log()
    for sequence in range(3):
        logs.append(log, memoryview(build([Written(b"k", b"v")], producer=(7, 1, sequence))))
    write_value(log, b"k", 300)
    log.roll(logs.TIMESTAMP)
    logs.append(log, memoryview(build([Written(b"k", b"v")], producer=(7, 1, 3))))
    path = f"{log.directory}/{4:020d}.snapshot"
    if damage == "short":
        fs.open(path).truncate(20)
    elif damage == "checksum":
        fs.flip_bit(path, 8 * 30)
    clean(log, fs)
    left = [header.base_offset for header in replication.headers_in(replication.log_bytes(log, fs))]
    assert left == ([2, 3, 4] if damage == "none" else [0, 1, 2, 3, 4])


def test_aborted_records_are_removed_first_and_their_marker_later() -> None:
    fs = MemFs()
    broker = a_broker(fs, segment_bytes=1000, delete_retention_ms=100)
    log = broker.log()
    producer = logs.Producer(7, 0, 0)
    logs.append(log, logs.batch([b"v"], keys=[b"a"]))
    batch = logs.batch([b"aborted"], keys=[b"a"], producer=producer, transactional=True)
    logs.append(log, batch)
    marker = logs.end_transaction(log, producer, commit=False)
    later = producer._replace(sequence=1)  # else the producer would be known by what was aborted
    logs.append(log, logs.batch([b"v"], keys=[b"c"], producer=later, transactional=True))
    logs.end_transaction(log, producer, commit=True)
    write_value(log, b"b", 900)
    write_value(log, b"b", 900)
    write_value(log, b"b", 900)
    clean(log, fs, now_ms=logs.TIMESTAMP)
    assert [record.offset for record in read_all(log)] == [0, 3, 6, 7]
    assert [entry[1:3] for entry in logs.aborted_entries(fs, log)] == [(1, marker)]
    for turn, left in enumerate([1, 0, 0], 1):
        log.compaction.clean_upto = 0
        clean(log, fs, now_ms=logs.TIMESTAMP + 200 * turn)
        extent = log.read(marker, 1 << 20, upto=log.end_offset, at_least_one=True)
        assert extent is not None
        assert (read_header(logs.bytes_of(extent)).last_offset == marker) is bool(left), turn
    assert not fs.exists(f"{log.directory}/{0:020d}.txnindex")
