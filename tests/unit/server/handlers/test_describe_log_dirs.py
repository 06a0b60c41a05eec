"""DescribeLogDirs: the answers of Apache Kafka 4.3.1, and of 3.9.2 to version 0."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from kavka.compat_tests.raw.codec.batches import Written, build
from kavka.log.memfs import Fault
from kavka.wire.apis.describe_log_dirs import API
from kavka.wire.errors import ErrorCode as Code
from support.memory_broker import DATA, MemoryBroker, scenario

VERSIONS = range(API.lowest, API.highest + 1)
UNKNOWN_SIZE = -1
CAPACITY_BYTES = 1 << 30
TWO_DIRECTORIES = f"log.dirs={DATA}/one,{DATA}/two/"

PartitionsByTopic = dict[str, list[int]]


async def ask(
    broker: MemoryBroker, topics: PartitionsByTopic | None = None, *, version: int = 5
) -> Any:
    """DescribeLogDirs of these partitions, or of all."""
    requested = None
    if topics is not None:
        requested = [{"topic": name, "partitions": indexes} for name, indexes in topics.items()]
    return await broker.ask("DescribeLogDirs", version, topics=requested)


def found(directory: Any) -> PartitionsByTopic:
    """What was answered for one directory: the partitions of each topic."""
    return {
        topic.name: sorted(partition.partition_index for partition in topic.partitions)
        for topic in directory.topics
    }


@pytest.mark.parametrize("version", VERSIONS)
@scenario(topics={"a": 2, "b": 1})
async def test_sizes_in_every_version(broker: MemoryBroker, version: int) -> None:
    broker.fs.capacity_bytes = CAPACITY_BYTES
    batch = build([Written(value=bytes(1000))])
    await broker.produce(bytearray(batch), "a", 1)
    answer = await ask(broker, version=version)
    assert answer.error_code == Code.NONE
    (directory,) = answer.results
    assert (directory.error_code, directory.log_dir) == (Code.NONE, DATA)
    assert not directory.is_cordoned
    if version >= 4:
        assert directory.total_bytes == CAPACITY_BYTES
        assert 0 < directory.usable_bytes < CAPACITY_BYTES - len(batch)
    else:
        assert (directory.total_bytes, directory.usable_bytes) == (UNKNOWN_SIZE, UNKNOWN_SIZE)
    partitions = {
        (topic.name, partition.partition_index): (
            partition.partition_size,
            partition.offset_lag,
            partition.is_future_key,
        )
        for topic in directory.topics
        for partition in topic.partitions
    }
    empty = (0, 0, False)
    assert partitions == {("a", 0): empty, ("a", 1): (len(batch), 0, False), ("b", 0): empty}


@scenario("log.segment.bytes=1048576")
async def test_sizes_are_those_of_all_segments(broker: MemoryBroker) -> None:
    await broker.create("t", configs={"segment.bytes": "1048576"})
    total = 0
    for _ in range(4):
        batch = build([Written(value=bytes(700_000))])
        total += len(batch)
        await broker.produce(batch)
    assert broker.replica().log.segment_count > 1
    (directory,) = (await ask(broker)).results
    assert directory.topics[0].partitions[0].partition_size == total


@scenario(TWO_DIRECTORIES)
async def test_each_directory_has_its_own_row(broker: MemoryBroker) -> None:
    await broker.create("t", 3)
    first, second = (await ask(broker)).results
    assert (first.log_dir, second.log_dir) == (f"{DATA}/one", f"{DATA}/two")
    assert sorted(found(first)["t"] + found(second)["t"]) == [0, 1, 2]
    for directory in (first, second):
        for index in found(directory)["t"]:
            assert broker.fs.is_dir(f"{directory.log_dir}/t-{index}")


@scenario(TWO_DIRECTORIES)
async def test_a_volume_that_cannot_be_asked(
    broker: MemoryBroker, caplog: pytest.LogCaptureFixture
) -> None:
    await broker.create("t", 2)
    broker.fs.faults = [Fault("volume", "/one", error=errno.EIO)]
    first, second = (await ask(broker)).results
    assert (first.error_code, first.topics) == (Code.KAFKA_STORAGE_ERROR, [])
    assert (first.total_bytes, first.usable_bytes) == (UNKNOWN_SIZE, UNKNOWN_SIZE)
    assert second.error_code == Code.NONE
    assert len(found(second)["t"]) == 1
    assert f"can't get the size of the volume of {DATA}/one" in caplog.text


@scenario(topics={"t": 1})
async def test_the_lag_of_a_log_without_a_replica_is_unknown(broker: MemoryBroker) -> None:
    broker.parts.replicas.remove("t", 0)
    (directory,) = (await ask(broker)).results
    assert directory.topics[0].partitions[0].offset_lag == -1
