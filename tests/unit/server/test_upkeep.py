"""What happens to the logs as time goes by, seen on the disk of a broker in memory."""

from __future__ import annotations

import pytest

from kavka.log.memfs import Fault
from support.batches import build
from support.memory_broker import DATA, MemoryBroker, scenario

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
async def test_checkpoints_are_saved_at_the_shortest_interval(broker: MemoryBroker) -> None:
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
async def test_deleted_topics_leave_the_checkpoints(broker: MemoryBroker) -> None:
    await broker.advance(MINUTE_MS)
    assert set(checkpoint(broker, WATERMARKS)) == {("t", 0), ("u", 0)}
    await broker.ask("DeleteTopics", 5, topic_names=["t"], timeout_ms=5000)
    await broker.advance(MINUTE_MS)
    assert set(checkpoint(broker, WATERMARKS)) == {("u", 0)}
    assert set(checkpoint(broker, RECOVERY_POINTS)) == {("u", 0)}


@scenario("replica.high.watermark.checkpoint.interval.ms=5000", topics={"t": 1})
async def test_a_checkpoint_that_fails_is_tried_again(
    broker: MemoryBroker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.fs.faults.append(Fault("create", "-checkpoint.1.tmp"))
    await broker.advance(5000)
    assert not broker.fs.exists(WATERMARKS)
    assert [line.partition(":")[0] for line in caplog.messages] == ["checkpoints"]
    await broker.advance(5000)
    assert checkpoint(broker, WATERMARKS) == {("t", 0): 0}


@scenario("log.flush.scheduler.interval.ms=1000")
async def test_flush_ms_is_the_longest_that_records_wait_for_the_disk(
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
async def test_without_a_scheduler_interval_nothing_is_flushed_by_time(
    broker: MemoryBroker,
) -> None:
    """Apache Kafka's default: flush.ms says nothing as long as nobody looks."""
    await broker.create("t", configs={"flush.ms": "1"})
    await broker.produce(build())
    assert "flush" not in broker.tasks.names
    await broker.advance(10 * MINUTE_MS)
    assert broker.replica().log.recovery_point == 0


@scenario(topics={"t": 2})
async def test_files_of_deleted_topics_go_after_a_while(broker: MemoryBroker) -> None:
    await broker.produce(build())
    used = len(broker.fs.list_dir(DATA))
    await broker.ask("DeleteTopics", 5, topic_names=["t"], timeout_ms=5000)
    deleted = [one for one in broker.fs.list_dir(DATA) if one.endswith("-delete")]
    assert len(deleted) == 2
    assert broker.fs.list_dir(f"{DATA}/{deleted[0]}"), "who still reads can finish"
    await broker.advance(MINUTE_MS)
    assert len(broker.fs.list_dir(DATA)) <= used - 2 + len(("checkpoints", "of", "three kinds"))
    assert not [one for one in broker.fs.list_dir(DATA) if one.endswith("-delete")]


@scenario(topics={"t": 1})
async def test_files_that_a_dead_broker_left_to_be_removed(broker: MemoryBroker) -> None:
    await broker.ask("DeleteTopics", 5, topic_names=["t"], timeout_ms=5000)
    await broker.kill()
    await broker.advance(MINUTE_MS)
    assert not [one for one in broker.fs.list_dir(DATA) if one.endswith("-delete")]


@scenario(topics={"t": 1})
async def test_it_ends_with_the_broker(broker: MemoryBroker) -> None:
    assert {"checkpoints", "removal of files"} <= set(broker.tasks.names)
    await broker.stop()
    assert not broker.tasks.names
    await broker.revive()
