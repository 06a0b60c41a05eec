"""DescribeLogDirs: the answers of Apache Kafka 4.3.1, and of 3.9.2 to version 0."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from kavka.log.memfs import Fault
from kavka.server.auth.authorizer import Operation
from kavka.server.handlers import describe_log_dirs
from kavka.wire.apis.describe_log_dirs import API
from kavka.wire.errors import ErrorCode as Code
from support.batches import Written, build
from support.denied import Denied
from support.memory_broker import DATA, MemoryBroker, scenario
from support.virtual import settle

VERSIONS = range(API.lowest, API.highest + 1)
NOT_TOLD = -1
CAPACITY_BYTES = 1 << 30
TWO_DIRECTORIES = f"log.dirs={DATA}/one,{DATA}/two/"

Asked = dict[str, list[int]]


async def ask(broker: MemoryBroker, topics: Asked | None = None, *, version: int = 5) -> Any:
    """DescribeLogDirs of these partitions, or of all."""
    asked = None
    if topics is not None:
        asked = [{"topic": name, "partitions": indexes} for name, indexes in topics.items()]
    return await broker.ask("DescribeLogDirs", version, topics=asked)


def found(directory: Any) -> Asked:
    """What was answered for one directory: the partitions of each topic."""
    return {
        topic.name: sorted(one.partition_index for one in topic.partitions)
        for topic in directory.topics
    }


@pytest.mark.parametrize("version", VERSIONS)
@scenario(topics={"a": 2, "b": 1})
async def test_what_every_version_tells(broker: MemoryBroker, version: int) -> None:
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
        assert (directory.total_bytes, directory.usable_bytes) == (NOT_TOLD, NOT_TOLD)
    partitions = {
        (topic.name, one.partition_index): (one.partition_size, one.offset_lag, one.is_future_key)
        for topic in directory.topics
        for one in topic.partitions
    }
    empty = (0, 0, False)
    assert partitions == {("a", 0): empty, ("a", 1): (len(batch), 0, False), ("b", 0): empty}


@scenario(topics={"a": 3, "b": 1})
async def test_only_what_was_asked_for_and_is_here(broker: MemoryBroker) -> None:
    async def of(topics: Asked) -> Asked:
        (directory,) = (await ask(broker, topics)).results
        assert directory.error_code == Code.NONE
        return found(directory)

    assert await of({"a": [2, 0, 2, 3, -1], "nobody": [0]}) == {"a": [0, 2]}
    assert await of({"b": []}) == {}
    assert await of({}) == {}


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
    one, two = (await ask(broker)).results
    assert (one.log_dir, two.log_dir) == (f"{DATA}/one", f"{DATA}/two")
    assert sorted(found(one)["t"] + found(two)["t"]) == [0, 1, 2]
    for directory in (one, two):
        for index in found(directory)["t"]:
            assert broker.fs.is_dir(f"{directory.log_dir}/t-{index}")


@scenario("log.dirs=data")
async def test_paths_are_absolute(broker: MemoryBroker) -> None:
    (directory,) = (await ask(broker)).results
    assert directory.log_dir == "/data"


@scenario(TWO_DIRECTORIES)
async def test_a_volume_that_cannot_be_asked(
    broker: MemoryBroker, caplog: pytest.LogCaptureFixture
) -> None:
    await broker.create("t", 2)
    broker.fs.faults = [Fault("volume", "/one", error=errno.EIO)]
    one, two = (await ask(broker)).results
    assert (one.error_code, one.topics) == (Code.KAFKA_STORAGE_ERROR, [])
    assert (one.total_bytes, one.usable_bytes) == (NOT_TOLD, NOT_TOLD)
    assert two.error_code == Code.NONE
    assert len(found(two)["t"]) == 1
    assert f"can't get the size of the volume of {DATA}/one" in caplog.text


@scenario(TWO_DIRECTORIES, topics={"t": 1, "bad": 1})
async def test_a_directory_that_failed(broker: MemoryBroker) -> None:
    broker.fs.faults = [Fault("pwrite", "/bad-0/00000000000000000000.log")]
    assert (await broker.produce(build(), "bad")).error_code == Code.KAFKA_STORAGE_ERROR
    well, failed = (await ask(broker)).results
    assert (well.error_code, found(well)) == (Code.NONE, {"t": [0]})
    assert failed.error_code == Code.KAFKA_STORAGE_ERROR
    assert (failed.log_dir, failed.topics) == (f"{DATA}/two", [])
    assert (failed.total_bytes, failed.usable_bytes) == (NOT_TOLD, NOT_TOLD)


@scenario(topics={"t": 1})
async def test_the_lag_of_a_log_without_a_replica_is_unknown(broker: MemoryBroker) -> None:
    broker.parts.replicas.remove("t", 0)
    (directory,) = (await ask(broker)).results
    assert directory.topics[0].partitions[0].offset_lag == -1


@pytest.mark.parametrize("version", VERSIONS)
@scenario(topics={"t": 1})
async def test_who_may_not_describe_the_cluster(broker: MemoryBroker, version: int) -> None:
    broker.parts.authorizer = Denied((Operation.DESCRIBE, "kafka-cluster"))
    answer = await ask(broker, version=version)
    received = Code.CLUSTER_AUTHORIZATION_FAILED if version >= 3 else Code.NONE
    assert (answer.error_code, answer.results) == (received, [])


@scenario(topics={"t": 7, "u": 2})
async def test_many_logs_are_looked_at_in_slices(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = await ask(broker)
    monkeypatch.setattr(describe_log_dirs, "SEGMENTS_A_SLICE", 2)
    waiting = broker.client.send("DescribeLogDirs", 5, topics=None)
    await settle(2)
    assert not waiting.done(), "it takes a turn of the loop for every two logs"
    await settle()
    everything = {"t": list(range(7)), "u": [0, 1]}
    assert found(waiting.result().results[0]) == found(whole.results[0]) == everything


@scenario()
async def test_the_volume_is_asked_beside_the_loop(broker: MemoryBroker) -> None:
    broker.jobs.hold("LogManager.volume")
    waiting = broker.client.send("DescribeLogDirs", 5, topics=None)
    await settle()
    assert broker.jobs.held == ["LogManager.volume"]
    assert not waiting.done()
    broker.jobs.release()
    await settle()
    assert waiting.result().results[0].error_code == Code.NONE
