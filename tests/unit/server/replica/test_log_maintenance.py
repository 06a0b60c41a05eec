"""Checkpoints, flushes, retention and expiry by time, of a broker in memory."""

from __future__ import annotations

import asyncio
import errno

import pytest

from kavka.compat_tests.raw.codec.batches import Written, build
from kavka.log.memfs import Fault
from kavka.log.partition_log import PartitionLog
from kavka.log.retention import SEGMENTS_AT_ONCE_MAX
from kavka.server.replica.log_maintenance import DELETE_CHECK_INTERVAL_MS, LogMaintenance
from support import logs
from support.logs import Producer
from support.memory_broker import DATA, MemoryBroker, scenario
from support.virtual import run_until_idle

MINUTE_MS = 60_000
RECOVERY_POINTS = f"{DATA}/recovery-point-offset-checkpoint"
WATERMARKS = f"{DATA}/replication-offset-checkpoint"


def checkpoint(broker: MemoryBroker, path: str) -> dict[tuple[str, int], int]:
    """A checkpoint file in Apache Kafka's format: version, count, then topic partition offset."""
    version, count, *lines = broker.fs.read_bytes(path).decode().splitlines()
    assert (version, int(count)) == ("0", len(lines))
    rows = [line.split(" ") for line in lines]
    return {(topic, int(partition)): int(offset) for topic, partition, offset in rows}


@scenario("replica.high.watermark.checkpoint.interval.ms=5000", topics={"t": 2})
async def test_checkpoints_are_written_at_the_shortest_interval(broker: MemoryBroker) -> None:
    await broker.produce(build())
    await broker.advance(4999)
    assert not broker.fs.exists(WATERMARKS)
    await broker.advance(1)
    assert checkpoint(broker, WATERMARKS) == {("t", 0): 3, ("t", 1): 0}
    assert checkpoint(broker, RECOVERY_POINTS) == {("t", 0): 0, ("t", 1): 0}
    broker.jobs.done.clear()
    await broker.advance(MINUTE_MS)
    assert "CheckpointPlan.run" not in broker.jobs.done, "nothing has changed"
    await broker.produce(build(), partition=1)
    await broker.advance(5000)
    assert checkpoint(broker, WATERMARKS) == {("t", 0): 3, ("t", 1): 3}


@scenario(topics={"t": 1, "u": 1})
async def test_checkpoints_are_written_one_at_a_time(broker: MemoryBroker) -> None:
    """The cleaner asks for one, too. Of two at once the older could have the last word."""
    parts = broker.parts
    maintenance = LogMaintenance(
        parts.live,
        fs=broker.fs,
        logs=parts.replicas.logs,
        replicas=parts.replicas,
        clock=broker.clock,
        tasks=broker.tasks,
        jobs=broker.jobs,
    )
    await broker.produce(build())
    broker.jobs.hold("CheckpointPlan.run")
    first = asyncio.ensure_future(maintenance.checkpoint())
    await run_until_idle()
    await broker.produce(build())
    others = [asyncio.ensure_future(maintenance.checkpoint()) for _ in range(2)]
    await run_until_idle()
    assert broker.jobs.held == ["CheckpointPlan.run"]
    assert not any(task.done() for task in (first, *others))
    broker.jobs.done.clear()
    broker.jobs.release()
    await run_until_idle()
    assert all(task.done() for task in (first, *others))
    assert broker.jobs.done.count("CheckpointPlan.run") == 2, "the third has nothing to add"
    assert checkpoint(broker, WATERMARKS) == {("t", 0): 6, ("u", 0): 0}


@scenario(topics={"t": 1, "u": 1})
async def test_deleted_topics_leave_the_checkpoints(broker: MemoryBroker) -> None:
    await broker.advance(MINUTE_MS)
    assert set(checkpoint(broker, WATERMARKS)) == {("t", 0), ("u", 0)}
    await broker.ask("DeleteTopics", 5, topic_names=["t"], timeout_ms=5000)
    await broker.advance(MINUTE_MS)
    assert set(checkpoint(broker, WATERMARKS)) == {("u", 0)}
    assert set(checkpoint(broker, RECOVERY_POINTS)) == {("u", 0)}


@scenario("replica.high.watermark.checkpoint.interval.ms=5000", topics={"t": 1})
async def test_a_failed_checkpoint_takes_the_directory_offline(
    broker: MemoryBroker,
) -> None:
    broker.fs.faults.append(Fault("create", "-checkpoint.1.tmp"))
    await broker.advance(5000)
    assert not broker.fs.exists(WATERMARKS)
    assert list(broker.parts.replicas.logs.failed_directories) == ["/data"]
    assert broker.failed == 1, "there is no other"


@scenario("log.flush.scheduler.interval.ms=1000")
async def test_flush_ms_bounds_the_time_until_the_flush(
    broker: MemoryBroker,
) -> None:
    await broker.create("slow", configs={"flush.ms": "3600000"})
    await broker.create("t", configs={"flush.ms": "3000"})
    await broker.produce(build(), "slow")
    await broker.produce(build())
    await broker.advance(2000)
    assert (broker.replica().partition.flushed_end, broker.replica().log.recovery_point) == (0, 0)
    await broker.advance(2000)
    assert (broker.replica().partition.flushed_end, broker.replica().log.recovery_point) == (3, 3)
    assert broker.replica("slow").log.recovery_point == 0
    broker.jobs.done.clear()
    await broker.advance(10_000)
    assert "FlushPlan.run" not in broker.jobs.done, "nothing new"
    await broker.crash()
    assert len(await broker.read_all()) == 3
    assert await broker.read_all("slow") == []


@scenario()
async def test_without_a_scheduler_interval_flush_ms_has_no_effect(
    broker: MemoryBroker,
) -> None:
    """Apache Kafka's default: flush.ms has no effect without the scheduler."""
    await broker.create("t", configs={"flush.ms": "1"})
    await broker.produce(build())
    assert "flush" not in broker.tasks.names
    await broker.advance(10 * MINUTE_MS)
    assert broker.replica().log.recovery_point == 0


@scenario(topics={"t": 2})
async def test_files_of_deleted_topics_are_removed_after_the_delay(broker: MemoryBroker) -> None:
    await broker.produce(build())
    used = len(broker.fs.list_dir(DATA))
    await broker.ask("DeleteTopics", 5, topic_names=["t"], timeout_ms=5000)
    deleted = [name for name in broker.fs.list_dir(DATA) if name.endswith("-delete")]
    assert len(deleted) == 2
    await broker.advance(MINUTE_MS - 1)
    assert broker.fs.list_dir(f"{DATA}/{deleted[0]}"), "who still reads can finish"
    await broker.advance(2 * DELETE_CHECK_INTERVAL_MS)
    assert len(broker.fs.list_dir(DATA)) <= used - 2 + len(("checkpoints", "of", "three kinds"))
    assert not [name for name in broker.fs.list_dir(DATA) if name.endswith("-delete")]


@scenario(topics={"t": 1})
async def test_files_of_deleted_topics_are_removed_after_a_kill(broker: MemoryBroker) -> None:
    await broker.ask("DeleteTopics", 5, topic_names=["t"], timeout_ms=5000)
    await broker.kill()
    await broker.advance(MINUTE_MS)
    assert not [name for name in broker.fs.list_dir(DATA) if name.endswith("-delete")]


@scenario(topics={"t": 1})
async def test_maintenance_ends_with_the_broker(broker: MemoryBroker) -> None:
    assert {"checkpoints", "removal of files"} <= set(broker.tasks.names)
    await broker.stop()
    assert not broker.tasks.names
    await broker.revive()


# --- retention

OLD = {"internal.segment.bytes": "200", "retention.ms": "60000"}
FIRST_LOOK_MS = 30_000
SECOND_LOOK_MS = 330_000


async def fill(broker: MemoryBroker, topic: str = "t", batches: int = 6) -> None:
    """Batches of three records, two a segment."""
    for _ in range(batches):
        await broker.produce(build(), topic)


@scenario()
async def test_old_records_are_deleted_at_the_first_check_after_retention_ms(
    broker: MemoryBroker,
) -> None:
    await broker.create("t", configs=OLD)
    await fill(broker)
    log = broker.replica().log
    assert log.segment_count == 3
    await broker.advance(FIRST_LOOK_MS)
    assert log.start_offset == 0, "half a minute old"
    await broker.advance(SECOND_LOOK_MS - FIRST_LOOK_MS - 1)
    assert log.start_offset == 0, "before the next check"
    await broker.advance(1)
    assert (log.start_offset, log.end_offset, log.segment_count) == (18, 18, 1)
    assert await broker.read_all() == []
    await broker.produce(build())
    assert [record.offset for record in await broker.read_all()] == [18, 19, 20]


@scenario("log.initial.task.delay.ms=1000", "log.retention.check.interval.ms=2000")
async def test_the_retention_check_interval(broker: MemoryBroker) -> None:
    await broker.create("t", configs={"internal.segment.bytes": "200", "retention.bytes": "0"})
    log = broker.replica().log
    ends = []
    for elapsed_ms in (999, 1, 1999, 1, 2000):
        await fill(broker)
        await broker.advance(elapsed_ms)
        ends.append((log.start_offset, log.end_offset))
    assert ends == [(0, 18), (36, 36), (36, 54), (72, 72), (90, 90)]


@scenario()
async def test_a_changed_config_applies_at_the_next_check(broker: MemoryBroker) -> None:
    await broker.create("t", configs={"internal.segment.bytes": "200"})
    await fill(broker)
    await broker.advance(SECOND_LOOK_MS)
    log = broker.replica().log
    assert log.start_offset == 0, "a week is not over"
    enough = str(log.size_bytes * 2 // 3)
    change = {"name": "retention.bytes", "config_operation": 0, "value": enough}
    resource = {"resource_type": 2, "resource_name": "t", "configs": [change]}
    await broker.ask("IncrementalAlterConfigs", 1, resources=[resource], validate_only=False)
    await broker.advance(SECOND_LOOK_MS)
    assert log.start_offset == 6, "two segments of 2 x 3 records are left"


@scenario("log.retention.ms=1000", topics={"t": 1})
async def test_the_broker_s_default_applies_to_all_topics(broker: MemoryBroker) -> None:
    await broker.create("own", configs={"retention.ms": "-1"})
    await fill(broker)
    await fill(broker, "own")
    await broker.advance(FIRST_LOOK_MS)
    assert (broker.replica().log.start_offset, broker.replica("own").log.start_offset) == (18, 0)


@scenario()
async def test_files_are_removed_after_file_delete_delay_ms(broker: MemoryBroker) -> None:
    for topic, delay_ms in (("slow", "90000"), ("quick", "0")):
        await broker.create(topic, configs=OLD | {"file.delete.delay.ms": delay_ms})
        await fill(broker, topic)

    def deleted(topic: str) -> int:
        names = broker.fs.list_dir(f"{DATA}/{topic}-0")
        return sum(name.endswith(".log.deleted") for name in names)

    await broker.advance(SECOND_LOOK_MS)
    assert deleted("slow") == 3
    await broker.advance(2 * DELETE_CHECK_INTERVAL_MS)
    assert (deleted("slow"), deleted("quick")) == (3, 0)
    await broker.advance(90_000)
    assert deleted("slow") == 0


@scenario()
async def test_many_segments_are_deleted_in_steps(broker: MemoryBroker) -> None:
    await broker.create("t", configs=OLD)
    await fill(broker, batches=5 * SEGMENTS_AT_ONCE_MAX)
    await broker.advance(SECOND_LOOK_MS)
    log = broker.replica().log
    assert log.start_offset == log.end_offset == 15 * SEGMENTS_AT_ONCE_MAX


@scenario(f"log.dirs={DATA}/one,{DATA}/two")
async def test_a_failing_directory_leaves_the_others(broker: MemoryBroker) -> None:
    for topic in ("bad", "good"):
        await broker.create(topic, configs=OLD)
        await fill(broker, topic)
    broker.fs.faults.append(Fault("rename", "bad-0/00000000000000000006.log"))
    await broker.advance(SECOND_LOOK_MS)
    assert broker.replica("bad").offline
    assert broker.replica("good").log.start_offset == 18


@pytest.mark.parametrize("segment", [0, 12])
@scenario()
async def test_a_corrupt_log_does_not_delay_others(broker: MemoryBroker, segment: int) -> None:
    for topic in ("bad", "good"):
        await broker.create(topic, configs=OLD)
        await fill(broker, topic)
    await broker.restart()
    damaged = f"{DATA}/bad-0/{segment:020d}"
    broker.fs.open(f"{damaged}.log").pwrite(bytes(61), 0)
    broker.fs.remove(f"{damaged}.timeindex")
    for _ in range(2):
        await broker.produce(build(), "good")
        await broker.advance(SECOND_LOOK_MS)
        log = broker.replica("good").log
        assert log.start_offset == log.end_offset
    log = broker.replica("bad").log
    assert log.start_offset == log.end_offset, "the damaged segment is as old as its file"
    assert not broker.replica("bad").offline


@scenario()
async def test_an_unexpected_failure_does_not_end_retention(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await broker.create("t", configs=OLD)
    await fill(broker)
    with monkeypatch.context() as patched:
        patched.setattr(PartitionLog, "delete_old", None)
        await broker.advance(FIRST_LOOK_MS)
    assert "retention failed" in caplog.text
    await broker.advance(SECOND_LOOK_MS)
    assert broker.replica().log.start_offset == 18


@scenario()
async def test_a_topic_deleted_during_retention(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await broker.create("t", configs=OLD)
    await fill(broker, batches=5 * SEGMENTS_AT_ONCE_MAX)
    replicas, seen = broker.parts.replicas, []
    delete_old = PartitionLog.delete_old

    def and_the_topic_goes(log: PartitionLog, now_ms: int, high_watermark: int) -> int:
        seen.append(log.segment_count)
        count = delete_old(log, now_ms, high_watermark)
        if count:
            replicas.remove("t", 0)
        return count

    monkeypatch.setattr(PartitionLog, "delete_old", and_the_topic_goes)
    await broker.advance(SECOND_LOOK_MS)
    assert len(seen) == 2, "nothing was old at the first look; at the second it had to end"


@scenario()
async def test_the_log_start_offset_survives_a_restart(broker: MemoryBroker) -> None:
    await broker.create("t", configs=OLD)
    await fill(broker)
    await broker.advance(SECOND_LOOK_MS)
    for life in (broker.restart, broker.kill):
        await life()
        assert (await broker.list_offset(-2)).offset == 18
        assert broker.replica().high_watermark == 18


HOURS_2_MS = 7_200_000
EXPIRY = ("producer.id.expiration.ms=7200000", "producer.id.expiration.check.interval.ms=60000")
"""A producer is as old as its newest record; those of the helpers are as old as the broker."""


def producers(broker: MemoryBroker) -> list[int]:
    return [entry.producer_id for entry in broker.replica().log.producers]


@scenario(*EXPIRY, topics={"t": 1})
async def test_producer_ids_expire(broker: MemoryBroker) -> None:
    await broker.produce(build(producer=(1, 0, 0)))
    await broker.produce(build([Written(time_ms=5 * MINUTE_MS)], producer=(2, 0, 0)))
    await broker.advance(118 * MINUTE_MS)
    assert producers(broker) == [1, 2]
    await broker.advance(5 * MINUTE_MS)
    assert producers(broker) == [2]
    log = broker.replica().log
    logs.append(log, logs.batch([b"v"], producer=Producer(1, 0, 77)), leader_epoch=0)
    await broker.advance(5 * MINUTE_MS)
    assert producers(broker) == [], "nothing newer has come"


@scenario(*EXPIRY, topics={"t": 1})
async def test_a_retry_after_a_kill_finds_its_producer_id_however_old_the_record_is(
    broker: MemoryBroker,
) -> None:
    """The response to a batch is lost with the broker, and the producer sends it again. Expiry goes
    by the records' timestamps: it must not run before, as it does not in Apache Kafka, which also
    checks for the first time after the interval."""
    await broker.produce(build([Written(time_ms=-HOURS_2_MS)], producer=(1, 0, 0)))
    await broker.kill()
    await run_until_idle()
    assert producers(broker) == [1]


@scenario(*EXPIRY, topics={"t": 1})
async def test_a_producer_id_with_an_ongoing_transaction_does_not_expire(
    broker: MemoryBroker,
) -> None:
    log = broker.replica().log
    for producer in (Producer(1, 0, 0), Producer(2, 0, 0)):
        logs.append(log, logs.batch([b"v"], producer=producer, transactional=True), leader_epoch=0)
    logs.end_transaction(log, Producer(2, 0, 0), commit=True)
    logs.append(log, logs.batch([b"v"], producer=Producer(3, 0, 0)), leader_epoch=0)
    guard = log.producers.verifications.begin(4, 0, 0, broker.clock.now_ms())
    await broker.advance(HOURS_2_MS + MINUTE_MS)
    assert producers(broker) == [1]
    assert not log.producers.verifications.holds(4, guard)
    assert log.last_stable_offset(log.end_offset) == 0


@scenario(*EXPIRY, topics={"t": 1})
async def test_producer_id_expiration_ms_can_be_changed(broker: MemoryBroker) -> None:
    await broker.produce(build(producer=(1, 0, 0)))
    change = {"name": "producer.id.expiration.ms", "config_operation": 0, "value": str(2**31 - 1)}
    resource = {"resource_type": 4, "resource_name": "", "configs": [change]}
    await broker.ask("IncrementalAlterConfigs", 1, resources=[resource])
    await broker.advance(HOURS_2_MS + MINUTE_MS)
    assert producers(broker) == [1]


SHORT_OF = {
    "a flush": ("open", ".index"),
    "a checkpoint": ("create", ".tmp"),
    "a roll of old records": ("create", ".index"),
}


@pytest.mark.parametrize("work", SHORT_OF)
@scenario(
    "log.retention.ms=60000",
    "log.retention.check.interval.ms=5000",
    "log.initial.task.delay.ms=5000",
    topics={"t": 1},
)
async def test_exhausted_file_descriptors_do_not_take_the_directory_offline(
    broker: MemoryBroker, work: str
) -> None:
    """As `docs/limits.md` promises: it is used on, and what could not be done is done later."""
    await broker.produce(build())
    log = broker.replica().log
    op, name = SHORT_OF[work]
    if work == "a flush":
        log.roll(broker.clock.now_ms())
    broker.fs.faults.append(Fault(op, name, error=errno.EMFILE, times=2))
    if work == "a flush":
        broker.parts.replicas.flusher.flush_soon(broker.replica())
    await broker.advance(10 * MINUTE_MS)
    assert not any(fault.times for fault in broker.fs.faults), "it was short of them"
    assert not broker.parts.replicas.logs.failed_directories
    assert log.start_offset == log.end_offset == log.recovery_point == 3
    assert checkpoint(broker, RECOVERY_POINTS) == {("t", 0): 3}
    await broker.produce(build())
    await broker.crash()
    assert broker.replica().log.start_offset == 3
