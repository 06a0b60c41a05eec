"""What a flush plan brings to the disk, and in spite of what."""

from __future__ import annotations

import pytest

from kavka.log.memfs import Fault, MemFs
from kavka.log.settings import FSYNC, SYSTEM
from support import logs
from support.logs import Broker

HOUR_MS = 3_600_000


@pytest.fixture
def broker(fs: MemFs) -> Broker:
    return Broker(fs, log_settings=logs.settings(segment_bytes=2000))


def test_nothing_to_do(broker: Broker) -> None:
    log = broker.log()
    assert log.flush_plan() is None
    assert not log.flush_wanted and not log.flush_needed(broker.clock.now_ms() + HOUR_MS)
    logs.flush(log)
    assert log.flush_plan(everything=True) is None


def test_only_closed_segments_are_due_by_default(broker: Broker) -> None:
    log = broker.log()
    logs.fill(log, 5)
    assert not log.flush_wanted
    assert log.flush_plan() is None
    logs.fill(log, 30, start=5)
    assert log.flush_wanted
    plan = log.flush_plan()
    assert plan is not None
    plan.run()
    log.flushed(plan)
    assert log.recovery_point == plan.offset
    assert 0 < log.recovery_point < log.end_offset
    assert not log.flush_wanted
    broker.crash()
    log = broker.log()
    assert log.end_offset == plan.offset
    assert len(logs.read_from(log)) == plan.offset


def test_flush_messages(fs: MemFs) -> None:
    log = Broker(fs, log_settings=logs.settings(flush_messages=3)).log()
    logs.fill(log, 2)
    assert not log.flush_wanted
    logs.fill(log, 1, start=2)
    assert log.flush_wanted
    plan = log.flush_plan()
    assert plan is not None and plan.offset == 3
    log.flushed(plan)
    assert not log.flush_wanted


def test_flush_ms(fs: MemFs) -> None:
    broker = Broker(fs, log_settings=logs.settings(flush_ms=1000))
    log = broker.log()
    start = broker.clock.now_ms()
    assert not log.flush_needed(start + 5000), "nothing is unflushed"
    logs.fill(log, 2)
    assert not log.flush_needed(start + 999)
    assert log.flush_needed(start + 1000)
    assert log.flush_plan(start + 999) is None
    plan = log.flush_plan(start + 1000)
    assert plan is not None and plan.offset == 2
    log.flushed(plan)
    logs.fill(log, 1, start=2)
    assert not log.flush_needed(start + 1999)
    assert log.flush_needed(start + 2000)


def test_the_log_goes_on_while_a_plan_runs(broker: Broker) -> None:
    log = broker.log()
    logs.fill(log, 5)
    plan = log.flush_plan(everything=True)
    assert plan is not None
    logs.fill(log, 100, start=5)
    plan.run()
    log.flushed(plan)
    assert log.recovery_point == 5
    broker.crash()
    left = len(logs.read_from(broker.log()))
    assert 5 <= left < 105


def test_a_plan_from_before_a_truncation_is_void(broker: Broker) -> None:
    log = broker.log()
    logs.fill(log, 5)
    plan = log.flush_plan(everything=True)
    assert plan is not None
    logs.truncate(log, 2)
    logs.fill(log, 10, start=2)
    plan.run()
    log.flushed(plan)
    assert log.recovery_point == 0


def test_small_files_may_go_meanwhile(broker: Broker, fs: MemFs) -> None:
    log = broker.log()
    logs.fill(log, 30)
    plan = log.flush_plan(everything=True)
    assert plan is not None
    [snapshot, *_] = [path for path in plan.paths if path.endswith(".snapshot")]
    fs.remove(snapshot)
    plan.run()


def test_a_log_may_go_meanwhile(broker: Broker) -> None:
    log = broker.log()
    logs.fill(log, 3)
    plan = log.flush_plan(everything=True)
    assert plan is not None
    broker.logs.delete("t", 0)
    logs.purge(broker.logs)
    plan.run()


def test_a_failed_fsync_moves_nothing(broker: Broker, fs: MemFs) -> None:
    log = broker.log()
    logs.fill(log, 3)
    plan = log.flush_plan(everything=True)
    assert plan is not None
    fs.faults = [Fault("sync", ".log")]
    with pytest.raises(OSError):
        plan.run()
    assert log.recovery_point == 0


def test_a_new_partition_needs_the_names_of_its_directories(broker: Broker) -> None:
    logs.fill(broker.log(), 3)
    logs.flush(broker.log())
    broker.crash()
    log = broker.log()
    assert log.end_offset == 3
    assert log.topic_id == logs.TOPIC_ID
    assert logs.epoch_entries(log)[-1][0] == 0


def test_writes_of_a_killed_process_are_flushed_by_the_next(broker: Broker) -> None:
    logs.fill(broker.log(), 40)
    broker.kill()
    logs.flush(broker.log())
    broker.logs.checkpoint({}).run()
    broker.crash()
    assert len(logs.read_from(broker.log())) == 40


def test_records_are_flushed_without_the_indexes_of_the_active_segment(
    broker: Broker, fs: MemFs
) -> None:
    """Those follow from the records. At the end they are flushed too: then nothing is recovered."""
    log = broker.log()
    log.configure(logs.settings(segment_bytes=2000, kavka_durability=FSYNC))
    logs.fill(log, 5)
    assert log.flush_wanted
    logs.flush(log)
    logs.fill(log, 1, start=5)
    plan = log.flush_plan()
    assert plan is not None
    assert (len(plan.files), plan.paths, plan.offset) == (1, (), 6)
    log.flushed(plan)
    logs.fill(log, 30, start=6)
    plan = log.flush_plan()
    assert plan is not None and len(plan.files) > 2
    indexes = [path for path in plan.paths if path.endswith("index")]
    assert len(indexes) >= 2 * (len(plan.files) - 1)
    active = logs.files(broker.fs, log, ".index")[-1]
    assert active not in indexes
    everything = log.flush_plan(everything=True)
    assert everything is not None
    assert active in everything.paths


def test_durability_fsync_flushes_every_record(fs: MemFs) -> None:
    settings = logs.settings(flush_messages=1000, kavka_durability=FSYNC)
    assert settings.flush_after == 1
    assert logs.settings(flush_messages=1000).flush_after == 1000
    log = Broker(fs, log_settings=settings).log()
    assert not log.flush_wanted
    logs.fill(log, 1)
    assert log.flush_wanted
    log.configure(logs.settings())
    assert not log.flush_wanted


@pytest.mark.parametrize("durability", [FSYNC, SYSTEM])
def test_after_a_failed_fsync_and_a_kill_the_records_are_written_again(
    fs: MemFs, durability: str
) -> None:
    """Else a log that was flushed with success would lose them with the power, and what was
    acknowledged since with them. Only kavka.durability=fsync promises that."""
    settings = logs.settings(kavka_durability=durability)
    broker = Broker(fs, log_settings=settings)
    log = broker.log()
    logs.fill(log, 3)
    logs.flush(log)
    logs.fill(log, 3, start=3)
    fs.faults = [Fault("sync", ".log")]
    with pytest.raises(OSError):
        logs.flush(log)
    broker.kill()
    logs.fill(broker.log(), 3, start=6)
    logs.flush(broker.log())
    broker.crash()
    assert broker.log().end_offset == (9 if durability == FSYNC else 3)
