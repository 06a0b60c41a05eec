"""The state of very many producers: saved in steps while they write, and rebuilt in steps after a
truncation, with crashes of the broker at any moment."""

from __future__ import annotations

import pytest

from kavka.log import producer_snapshots, producer_state
from kavka.log.memfs import Died, Fault, MemFs
from kavka.log.partition_log import PartitionLog
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import Steps, run_at_once
from support import logs
from support.logs import NO_PRODUCER, Broker, Producer

PRODUCERS = 20
PER_STEP = 3


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_state, "ENTRIES_PER_STEP", PER_STEP)
    monkeypatch.setattr(producer_snapshots, "ENTRIES_PER_STEP", PER_STEP)
    monkeypatch.setattr("kavka.log.replay.BATCHES_PER_STEP", 4)


def write(log: PartitionLog, producer_id: int, sequence: int) -> None:
    logs.append(log, logs.batch([b"v"], producer=Producer(producer_id, 0, sequence)))


@pytest.fixture
def log(broker: Broker) -> PartitionLog:
    """A log to which each producer has written twice."""
    log = broker.log()
    for number in range(2 * PRODUCERS):
        write(log, number % PRODUCERS, number // PRODUCERS)
    return log


def known(log: PartitionLog) -> dict[int, int]:
    return {state.producer_id: state.last_sequence for state in log.producers}


def snapshots(fs: MemFs, log: PartitionLog) -> list[int]:
    return logs.base_offsets(fs, log, ".snapshot")


def begin_truncation(log: PartitionLog, offset: int) -> Steps[None]:
    """A truncation after its first step."""
    steps = log.truncate_in_steps(offset)
    next(steps)
    return steps


# --- snapshots


def test_a_roll_begins_a_snapshot_and_others_go_on_with_it(log: PartitionLog, fs: MemFs) -> None:
    log.roll(logs.TIMESTAMP)
    assert snapshots(fs, log) == []
    for steps in range(PRODUCERS):
        if not log.producer_manager.write_snapshot_step():
            break
        write(log, steps if steps % 2 else PRODUCERS - steps - 1, 2)
    assert 4 <= steps <= PRODUCERS // PER_STEP
    assert snapshots(fs, log) == [2 * PRODUCERS]
    assert not log.producer_manager.write_snapshot_step()
    plan = log.flush_plan()
    assert plan is not None
    assert any(path.endswith(".snapshot") for path in plan.paths), "on the disk with the segment"
    loaded = producer_state.ProducerStates()
    path = f"{log.directory}/{2 * PRODUCERS:020d}.snapshot"
    for _ in loaded.load(fs.open(path), path):
        pass
    assert {entry.producer_id: entry.last_sequence for entry in loaded} == dict.fromkeys(
        range(PRODUCERS), 1
    ), "as it was at the roll"


def test_few_are_saved_at_once(broker: Broker, fs: MemFs) -> None:
    log = broker.log()
    for producer_id in range(PER_STEP):
        write(log, producer_id, 0)
    log.roll(logs.TIMESTAMP)
    assert snapshots(fs, log) == [PER_STEP]
    assert not log.producer_manager.write_snapshot_step()


def test_a_roll_during_another_s_snapshot_makes_none(log: PartitionLog, fs: MemFs) -> None:
    log.roll(logs.TIMESTAMP)
    log.producer_manager.write_snapshot_step()
    write(log, 0, 2)
    log.roll(logs.TIMESTAMP)
    while log.producer_manager.write_snapshot_step():
        pass
    assert snapshots(fs, log) == [2 * PRODUCERS]
    write(log, 0, 3)
    log.roll(logs.TIMESTAMP)
    while log.producer_manager.write_snapshot_step():
        pass
    assert snapshots(fs, log) == [2 * PRODUCERS, 2 * PRODUCERS + 2]


def write_snapshots(log: PartitionLog) -> None:
    """What the flusher does, while there is something to do."""
    while log.producer_manager.write_snapshot_step():
        pass


def test_segments_are_deleted_though_rolls_made_no_snapshot(
    broker: Broker, log: PartitionLog, fs: MemFs
) -> None:
    """The snapshot at the new start of the log is made then, from the one before it. A kill at any
    time loses no producer."""
    for sequence in range(2, 30):
        log.roll(logs.TIMESTAMP)
        write(log, 0, sequence)
    write_snapshots(log)
    assert snapshots(fs, log) == [2 * PRODUCERS]
    newest = dict.fromkeys(range(PRODUCERS), 1) | {0: 29}
    rounds = 0
    while len(logs.base_offsets(fs, log, ".log")) > 1:
        log.advance_start(log.end_offset)
        log.delete_old(logs.TIMESTAMP, log.end_offset)
        rounds += 1
        assert rounds < 10
        if rounds % 2:
            logs.flush(log)
            broker.logs.checkpoint(None).run()
            broker.crash()
            log = broker.log()
            assert known(log) == newest
            log.advance_start(log.end_offset)
            log.delete_old(logs.TIMESTAMP, log.end_offset)
        write_snapshots(log)
    assert set(snapshots(fs, log)) <= set(logs.base_offsets(fs, log, ".log"))
    assert known(log) == newest


def test_a_truncation_ends_the_making_of_a_snapshot(log: PartitionLog, fs: MemFs) -> None:
    for sequence in range(2, 30):
        log.roll(logs.TIMESTAMP)
        write(log, 0, sequence)
    write_snapshots(log)
    log.advance_start(log.end_offset - 1)
    assert log.delete_old(logs.TIMESTAMP, log.end_offset) == 1
    assert log.delete_old(logs.TIMESTAMP, log.end_offset) == 0
    assert log.producer_manager.is_saving
    before = snapshots(fs, log)
    logs.truncate(log, log.end_offset - 25)
    write_snapshots(log)
    assert snapshots(fs, log) == before


@pytest.mark.parametrize("steps", range(10))
def test_the_state_survives_a_kill_in_between(
    broker: Broker, log: PartitionLog, steps: int
) -> None:
    log.roll(logs.TIMESTAMP)
    for _ in range(steps):
        log.producer_manager.write_snapshot_step()
    write(log, 3, 2)
    logs.flush(log)
    broker.logs.checkpoint(None).run()
    broker.crash()
    again = broker.log()
    assert known(again) == dict.fromkeys(range(PRODUCERS), 1) | {3: 2}
    assert not [name for name in broker.fs.list_dir(again.directory) if name.endswith(".tmp")]


@pytest.mark.parametrize("steps", range(10))
def test_a_stop_in_between_saves_the_state_of_then(
    broker: Broker, log: PartitionLog, fs: MemFs, steps: int
) -> None:
    log.roll(logs.TIMESTAMP)
    for _ in range(steps):
        log.producer_manager.write_snapshot_step()
    write(log, 3, 2)
    end = log.end_offset
    broker.restart()
    again = broker.log()
    assert known(again) == dict.fromkeys(range(PRODUCERS), 1) | {3: 2}
    assert again.producer_manager.snapshots.newest == end == max(snapshots(fs, again))
    assert not [name for name in fs.list_dir(again.directory) if name.endswith(".tmp")]


def test_a_stop_goes_in_steps_too(broker: Broker, log: PartitionLog) -> None:
    (closing,) = broker.logs.closings()
    portions = 0
    for _ in closing.parts():
        portions += 1
        closing.sync()
        closing.finish()
    assert portions >= PRODUCERS // PER_STEP + 2
    broker.logs.close_directories(None)
    broker.start()
    assert known(broker.log()) == dict.fromkeys(range(PRODUCERS), 1)


@pytest.mark.parametrize("rolls", [0, 1, 2])
@pytest.mark.parametrize("steps", range(10))
def test_no_segment_is_deleted_before_its_producer_state_is_saved(
    broker: Broker, log: PartitionLog, rolls: int, steps: int
) -> None:
    """After any number of steps: a producer goes on after a crash where it was."""
    for _ in range(rolls):
        log.roll(logs.TIMESTAMP)
        logs.append(log, logs.batch([b"v"], producer=NO_PRODUCER))
    log.configure(logs.settings(retention_bytes=0))
    for _ in range(steps):
        log.delete_old(logs.TIMESTAMP, log.end_offset)
        log.producer_manager.write_snapshot_step()
    broker.logs.checkpoint(None).run()
    broker.kill()
    log = broker.log()
    assert known(log) == dict.fromkeys(range(PRODUCERS), 1)
    log.configure(logs.settings(retention_bytes=0))
    for _ in range(20):
        log.delete_old(logs.TIMESTAMP, log.end_offset)
        log.producer_manager.write_snapshot_step()
    assert log.size_bytes == 0 and log.start_offset == log.end_offset, "they go at last"
    broker.logs.checkpoint(None).run()
    broker.kill()
    assert known(broker.log()) == dict.fromkeys(range(PRODUCERS), 1)


def test_a_full_disk_ends_the_snapshot(log: PartitionLog, fs: MemFs) -> None:
    log.roll(logs.TIMESTAMP)
    fs.faults = [Fault("pwrite", ".snapshot.tmp")]
    with pytest.raises(OSError):
        log.producer_manager.write_snapshot_step()


# --- after a truncation


@pytest.mark.parametrize("steps", range(10))
def test_whether_sequences_are_checked_survives_a_truncation(log: PartitionLog, steps: int) -> None:
    """It is set by the writer of the log, before a truncation or during the rebuild after it."""
    if not steps:
        log.producers.checks_txn_sequences = False
    rest = begin_truncation(log, 2 * PRODUCERS - 5)
    for _ in range(steps):
        next(rest, None)
    log.producers.checks_txn_sequences = False
    for _ in rest:
        pass
    assert not log.producers.checks_txn_sequences
    rest = begin_truncation(log, 2 * PRODUCERS - 10)
    assert not log.producers.checks_txn_sequences
    for _ in rest:
        pass
    assert not log.producers.checks_txn_sequences


def test_the_first_step_truncates_and_the_others_rebuild(log: PartitionLog) -> None:
    end = 2 * PRODUCERS - 5
    steps = begin_truncation(log, end)
    assert log.end_offset == end
    assert [read.offset for read in logs.read_from(log)] == list(range(end))
    more = 0
    for _ in steps:
        more += 1
    assert more >= PRODUCERS // PER_STEP + end // 4
    assert known(log) == {
        producer_id: 1 if producer_id < PRODUCERS - 5 else 0 for producer_id in range(PRODUCERS)
    }
    write(log, PRODUCERS - 1, 1)
    assert log.end_offset == end + 1


def test_nothing_can_be_appended_meanwhile_and_nothing_counts_as_decided(
    log: PartitionLog,
) -> None:
    for steps in range(1, 12):
        cutting = log.truncate_in_steps(log.end_offset - 1)
        for _ in range(steps):
            next(cutting)
        for producer in (Producer(PRODUCERS - 1, 0, 1), Producer(77, 0, 0), NO_PRODUCER):
            with pytest.raises(ApiError) as error:
                logs.append(log, logs.batch([b"v"], producer=producer))
            assert error.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert not log.transactions.all_decided
        assert log.last_stable_offset(log.end_offset) == log.start_offset
        log.configure(logs.settings(segment_bytes=1 << 20))
        with pytest.raises(ApiError):
            logs.append(log, logs.batch([b"v"]))
        for _ in cutting:
            pass
        assert log.transactions.all_decided
        logs.append(log, logs.batch([b"v"]))


@pytest.mark.parametrize("end", [30, 2 * PRODUCERS, 2 * PRODUCERS + 1])
def test_a_truncation_ends_a_snapshot(log: PartitionLog, fs: MemFs, end: int) -> None:
    """Its producers are known no more."""
    log.roll(logs.TIMESTAMP)
    log.producer_manager.write_snapshot_step()
    for sequence in (2, 3):
        write(log, 0, sequence)
    for _ in log.truncate_in_steps(end):
        assert not log.producer_manager.write_snapshot_step()
    assert snapshots(fs, log) == []
    assert [name for name in fs.list_dir(log.directory) if name.endswith(".tmp")] == []


def test_no_segment_is_deleted_during_a_truncation(log: PartitionLog) -> None:
    log.roll(logs.TIMESTAMP)
    write(log, 0, 2)
    write(log, 1, 2)
    log.configure(logs.settings(retention_bytes=0))
    steps = begin_truncation(log, log.end_offset - 1)
    assert log.delete_old(logs.TIMESTAMP, log.end_offset) == 0
    for _ in steps:
        pass
    log.delete_old(logs.TIMESTAMP, log.end_offset)
    while log.producer_manager.write_snapshot_step():
        pass
    assert log.delete_old(logs.TIMESTAMP, log.end_offset) > 0


def test_an_abandoned_truncation_is_completed_by_the_next(log: PartitionLog) -> None:
    steps = begin_truncation(log, 30)
    next(steps)
    logs.truncate(log, 35)
    assert known(log) == {
        producer_id: 1 if producer_id < 10 else 0 for producer_id in range(PRODUCERS)
    }
    write(log, 10, 1)


@pytest.mark.parametrize("end", [30, 35])
@pytest.mark.parametrize("before", range(0, 20, 3))
@pytest.mark.parametrize("meanwhile", range(1, 20, 3))
def test_of_two_concurrent_truncations_the_later_sets_the_state(
    log: PartitionLog, end: int, before: int, meanwhile: int
) -> None:
    """The earlier knows batches that are gone, or not yet those that were appended since."""
    earlier = begin_truncation(log, 35)
    for _ in range(before):
        next(earlier, None)
    later = log.truncate_in_steps(end)
    for _ in range(meanwhile):
        next(later, None)
    for _ in earlier:
        pass
    for _ in later:
        pass
    last = {
        producer_id: 1 if producer_id < end - PRODUCERS else 0 for producer_id in range(PRODUCERS)
    }
    assert known(log) == last
    write(log, PRODUCERS - 1, 1)
    assert known(log) == last | {PRODUCERS - 1: 1}


def test_a_late_truncation_changes_nothing(log: PartitionLog) -> None:
    earlier, later = begin_truncation(log, 35), log.truncate_in_steps(35)
    for _ in later:
        pass
    write(log, PRODUCERS - 1, 1)
    for _ in earlier:
        pass
    assert known(log)[PRODUCERS - 1] == 1


@pytest.mark.parametrize("steps", range(1, 14, 3))
def test_a_shutdown_during_a_truncation_completes_it(
    broker: Broker, log: PartitionLog, steps: int
) -> None:
    cutting = broker.logs.truncate_in_steps(log, 30)
    for _ in range(steps):
        next(cutting)
    broker.restart()
    assert known(broker.log()) == {
        producer_id: 1 if producer_id < 10 else 0 for producer_id in range(PRODUCERS)
    }


@pytest.mark.parametrize("with_snapshot", [True, False])
def test_killed_at_any_moment_of_a_truncation(with_snapshot: bool) -> None:
    for dies_after in range(200):
        fs = MemFs()
        broker = Broker(fs)
        log = broker.log()
        for number in range(2 * PRODUCERS):
            write(log, number % PRODUCERS, number // PRODUCERS)
            if number == PRODUCERS and with_snapshot:
                log.roll(logs.TIMESTAMP)
                while log.producer_manager.write_snapshot_step():
                    pass
        logs.flush(log)
        broker.logs.checkpoint(None).run()
        fs.dies_after = dies_after
        try:
            run_at_once(broker.logs.truncate_in_steps(log, 30))
        except Died:
            pass
        died, fs.dies_after = (fs.dies_after or 0) < 0, None
        broker.crash()
        again = broker.log()
        assert 30 <= again.end_offset <= 2 * PRODUCERS
        last = again.end_offset - PRODUCERS
        assert known(again) == {
            producer_id: 1 if producer_id < last else 0 for producer_id in range(PRODUCERS)
        }
        if not died:
            break
    assert dies_after > 2
