"""AlterReplicaLogDirs: the answers of Apache Kafka 4.3.1."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kavka.log.memfs import Fault
from kavka.server.auth.authorizer import Operation
from kavka.wire.apis.alter_replica_log_dirs import API
from kavka.wire.errors import ErrorCode as Code
from support.batches import Written, build
from support.denied import Denied
from support.memory_broker import MemoryBroker, scenario

VERSIONS = range(API.lowest, API.highest + 1)
ONE, TWO, THREE = "/data", "/more", "/other"
DIRECTORIES = f"log.dirs={ONE},{TWO},{THREE}"
"""Partition 0 of the first topic gets to the first, and so on."""

Placed = dict[str, list[tuple[str, int, bool]]]


async def alter(
    broker: MemoryBroker, *wanted: tuple[str, str, Sequence[int]], version: int = 2
) -> dict[tuple[str, int], int]:
    """Ask for (directory, topic, partitions); error codes by partition."""
    dirs = [
        {"path": path, "topics": [{"name": topic, "partitions": list(indexes)}]}
        for path, topic, indexes in wanted
    ]
    answer = await broker.ask("AlterReplicaLogDirs", version, dirs=dirs)
    return {
        (topic.topic_name, one.partition_index): one.error_code
        for topic in answer.results
        for one in topic.partitions
    }


async def placed(broker: MemoryBroker) -> Placed:
    """By directory: topic, partition, and whether it is a copy on its way."""
    answer = await broker.ask("DescribeLogDirs", 5, topics=None)
    return {
        each.log_dir: sorted(
            (topic.name, one.partition_index, one.is_future_key)
            for topic in each.topics
            for one in topic.partitions
        )
        for each in answer.results
    }


@pytest.mark.parametrize("version", VERSIONS)
@scenario(DIRECTORIES, topics={"t": 1})
async def test_a_replica_moves(broker: MemoryBroker, version: int) -> None:
    await broker.produce(build([Written(value=b"1"), Written(value=b"2")]))
    before = await broker.read_all()
    assert await alter(broker, (TWO, "t", [0]), version=version) == {("t", 0): Code.NONE}
    await broker.advance(1)
    assert await placed(broker) == {ONE: [], TWO: [("t", 0, False)], THREE: []}
    assert await broker.read_all() == before
    await broker.produce(build([Written(value=b"3")]))
    assert [one.value for one in await broker.read_all()] == [b"1", b"2", b"3"]


@scenario(DIRECTORIES, topics={"t": 3, "u": 1})
async def test_many_at_once(broker: MemoryBroker) -> None:
    asked = [(THREE, "t", [0, 1]), (TWO, "u", [0, 7]), (ONE, "t", [2, 1])]
    assert await alter(broker, *asked) == {
        ("t", 0): Code.NONE,
        ("t", 1): Code.NONE,
        ("t", 2): Code.NONE,
        ("u", 0): Code.NONE,
        ("u", 7): Code.UNKNOWN_TOPIC_OR_PARTITION,
    }
    await broker.advance(5)
    there = {
        ONE: [("t", 1, False), ("t", 2, False)],
        TWO: [("u", 0, False)],
        THREE: [("t", 0, False)],
    }
    assert await placed(broker) == there, "of a partition that is named twice the last one counts"


@pytest.mark.parametrize("path", ["/no/such", "", "data", f"{TWO}/", "/"])
@scenario(DIRECTORIES, topics={"t": 1})
async def test_a_directory_that_is_not_in_log_dirs(broker: MemoryBroker, path: str) -> None:
    assert await alter(broker, (path, "t", [0])) == {("t", 0): Code.LOG_DIR_NOT_FOUND}


@scenario(DIRECTORIES)
async def test_a_name_that_is_too_long(broker: MemoryBroker) -> None:
    longest = "x" * (255 - len("-0.-future") - 32)
    await broker.create(longest)
    await broker.create(f"{longest}x")
    where = next(path for path, found in (await placed(broker)).items() if not found)
    assert set((await alter(broker, (where, longest, [0]))).values()) == {Code.NONE}
    code = Code.INVALID_TOPIC_EXCEPTION
    assert set((await alter(broker, (where, f"{longest}x", [0]))).values()) == {code}


@scenario(DIRECTORIES)
async def test_a_partition_that_is_not_there_is_made_where_it_was_asked_for(
    broker: MemoryBroker,
) -> None:
    code = Code.UNKNOWN_TOPIC_OR_PARTITION
    assert await alter(broker, (THREE, "t", [0, 2])) == {("t", 0): code, ("t", 2): code}
    await broker.create("t", 3)
    assert ("t", 0, False) in (await placed(broker))[THREE]
    assert ("t", 2, False) in (await placed(broker))[THREE]
    await broker.ask("DeleteTopics", 5, topic_names=["t"], timeout_ms=1000)
    await broker.create("t", 3)
    assert ("t", 0, False) in (await placed(broker))[ONE], "that counts once"


@scenario(DIRECTORIES, topics={"t": 1})
async def test_a_replica_that_is_not_hosted(broker: MemoryBroker) -> None:
    broker.parts.replicas.remove("t", 0)
    assert await alter(broker, (TWO, "t", [0])) == {("t", 0): Code.REPLICA_NOT_AVAILABLE}


@scenario(DIRECTORIES, topics={"t": 3})
async def test_directories_that_have_failed(broker: MemoryBroker) -> None:
    broker.fs.faults = [Fault("pwrite", "/t-2/00000000000000000000.log")]
    assert (await broker.produce(build(), partition=2)).error_code == Code.KAFKA_STORAGE_ERROR
    offline = Code.KAFKA_STORAGE_ERROR
    assert await alter(broker, (THREE, "t", [0])) == {("t", 0): offline}, "the target has"
    assert await alter(broker, (ONE, "t", [2])) == {("t", 2): offline}, "its own has"
    assert await alter(broker, (TWO, "t", [0])) == {("t", 0): offline}, "a third one has"
    assert await alter(broker, (ONE, "t", [0])) == {("t", 0): Code.NONE}, "it is there already"


@pytest.mark.parametrize("version", VERSIONS)
@scenario(DIRECTORIES, topics={"t": 1})
async def test_who_may_not_alter_the_cluster(broker: MemoryBroker, version: int) -> None:
    broker.parts.authorizer = Denied((Operation.ALTER, "kafka-cluster"))
    asked = [(TWO, "t", [0]), ("/no/such", "u", [1])]
    code = Code.CLUSTER_AUTHORIZATION_FAILED
    assert await alter(broker, *asked, version=version) == {("t", 0): code, ("u", 1): code}
    assert (await placed(broker))[ONE] == [("t", 0, False)]


@scenario(DIRECTORIES, topics={"t": 1})
async def test_nothing(broker: MemoryBroker) -> None:
    assert await alter(broker) == {}
    assert await alter(broker, (TWO, "t", [])) == {}
