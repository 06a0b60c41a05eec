"""DescribeTopicPartitions: the answers of Apache Kafka 4.3.1 to the same requests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kavka.wire.errors import ErrorCode as Code
from support.memory_broker import MemoryBroker, scenario

TOPICS = {"b": 3, "a": 2, "z.y": 1}
EVERYTHING = [("a", [0, 1]), ("b", [0, 1, 2]), ("z.y", [0])]

Cursor = tuple[str, int]


def request(*names: str, cursor: Cursor | None = None, **values: Any) -> dict[str, Any]:
    """A request of these topics, or of all, from a cursor on."""
    first = None if cursor is None else {"topic_name": cursor[0], "partition_index": cursor[1]}
    return {"topics": [{"name": name} for name in names], "cursor": first, **values}


async def ask(
    broker: MemoryBroker, *names: str, cursor: Cursor | None = None, **values: Any
) -> Any:
    return await broker.ask(
        "DescribeTopicPartitions", 0, **request(*names, cursor=cursor, **values)
    )


def found(answer: Any) -> list[tuple[str, list[int]]]:
    """Topics without an error, with the numbers of their partitions."""
    return [
        (topic.name, [partition.partition_index for partition in topic.partitions])
        for topic in answer.topics
        if topic.error_code == Code.NONE
    ]


def next_of(answer: Any) -> Cursor | None:
    cursor = answer.next_cursor
    return None if cursor is None else (cursor.topic_name, cursor.partition_index)


# -- pages ----------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", range(1, 7))
@pytest.mark.parametrize("names", [(), ("b", "a", "z.y")])
@scenario(topics=TOPICS)
async def test_the_pages_together_are_everything(
    broker: MemoryBroker, limit: int, names: tuple[str, ...]
) -> None:
    pages: dict[str, list[int]] = {}
    cursor: Cursor | None = None
    for _ in range(10):
        requested = [name for name in names if cursor is None or name >= cursor[0]]
        answer = await ask(broker, *requested, cursor=cursor, response_partition_limit=limit)
        for name, partitions in found(answer):
            pages.setdefault(name, []).extend(partitions)
        cursor = next_of(answer)
        if cursor is None:
            break
    assert list(pages.items()) == EVERYTHING


# -- who may see what -----------------------------------------------------------------------


@scenario(topics={"t": 1})
async def test_leaders_that_cannot_be_reached(broker: MemoryBroker) -> None:
    cache = broker.parts.metadata
    elsewhere = replace(cache.image.brokers[1], endpoints={"OTHER": ("x", 1)})
    for brokers in ({}, {1: elsewhere}):
        cache.image = replace(cache.image, brokers=brokers)
        (topic,) = (await ask(broker, "t")).topics
        (partition,) = topic.partitions
        assert (partition.error_code, partition.leader_id) == (Code.NONE, -1)
        assert partition.replica_nodes == [1]
