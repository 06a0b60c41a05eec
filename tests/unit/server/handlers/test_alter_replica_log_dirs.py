"""AlterReplicaLogDirs: the answers of Apache Kafka 4.3.1."""

from __future__ import annotations

from collections.abc import Sequence

from kavka.wire.errors import ErrorCode as Code
from support.memory_broker import MemoryBroker, scenario

ONE, TWO, THREE = "/data", "/more", "/other"
DIRECTORIES = f"log.dirs={ONE},{TWO},{THREE}"
"""Partition 0 of the first topic gets to the first, and so on."""

Placed = dict[str, list[tuple[str, int, bool]]]


async def alter(
    broker: MemoryBroker, *moves: tuple[str, str, Sequence[int]], version: int = 2
) -> dict[tuple[str, int], int]:
    """Ask for (directory, topic, partitions); error codes by partition."""
    dirs = [
        {"path": path, "topics": [{"name": topic, "partitions": list(indexes)}]}
        for path, topic, indexes in moves
    ]
    answer = await broker.ask("AlterReplicaLogDirs", version, dirs=dirs)
    return {
        (topic.topic_name, partition.partition_index): partition.error_code
        for topic in answer.results
        for partition in topic.partitions
    }


async def placed(broker: MemoryBroker) -> Placed:
    """By directory: topic, partition, and whether it is a copy on its way."""
    answer = await broker.ask("DescribeLogDirs", 5, topics=None)
    return {
        directory.log_dir: sorted(
            (topic.name, partition.partition_index, partition.is_future_key)
            for topic in directory.topics
            for partition in topic.partitions
        )
        for directory in answer.results
    }


@scenario(DIRECTORIES)
async def test_a_name_that_is_too_long(broker: MemoryBroker) -> None:
    longest = "x" * (255 - len("-0.-future") - 32)
    await broker.create(longest)
    await broker.create(f"{longest}x")
    where = next(path for path, found in (await placed(broker)).items() if not found)
    assert set((await alter(broker, (where, longest, [0]))).values()) == {Code.NONE}
    code = Code.INVALID_TOPIC_EXCEPTION
    assert set((await alter(broker, (where, f"{longest}x", [0]))).values()) == {code}


@scenario(DIRECTORIES, topics={"t": 1})
async def test_a_replica_that_is_not_hosted(broker: MemoryBroker) -> None:
    broker.parts.replicas.remove("t", 0)
    assert await alter(broker, (TWO, "t", [0])) == {("t", 0): Code.REPLICA_NOT_AVAILABLE}
