"""DescribeTopicPartitions: the answers of Apache Kafka 4.3.1 to the same requests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kavka.server.auth.authorizer import Operation
from kavka.server.handlers import describe_topic_partitions
from kavka.wire.errors import ErrorCode as Code
from support.denied import Denied
from support.memory_broker import MemoryBroker, scenario
from support.virtual import settle

OPERATIONS = sum(1 << operation for operation in (3, 4, 5, 6, 7, 8, 10, 11))
NOT_ASKED = -(2**31)
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
        (topic.name, [one.partition_index for one in topic.partitions])
        for topic in answer.topics
        if topic.error_code == Code.NONE
    ]


def codes(answer: Any) -> dict[str, Code]:
    return {topic.name: Code(topic.error_code) for topic in answer.topics}


def next_of(answer: Any) -> Cursor | None:
    cursor = answer.next_cursor
    return None if cursor is None else (cursor.topic_name, cursor.partition_index)


@scenario()
async def test_what_is_told_of_a_topic(broker: MemoryBroker) -> None:
    topic_id = await broker.create("t", 2)
    answer = await ask(broker, "t")
    (topic,) = answer.topics
    assert (topic.name, topic.topic_id, topic.error_code) == ("t", topic_id, Code.NONE)
    assert not topic.is_internal
    assert topic.topic_authorized_operations == OPERATIONS
    for index, partition in enumerate(topic.partitions):
        assert (partition.partition_index, partition.error_code) == (index, Code.NONE)
        assert (partition.leader_id, partition.leader_epoch) == (1, 0)
        assert partition.replica_nodes == partition.isr_nodes == [1]
        assert partition.eligible_leader_replicas == partition.last_known_elr == []
        assert partition.offline_replicas == []
    assert answer.next_cursor is None


@scenario(topics=TOPICS)
async def test_topics_come_by_name(broker: MemoryBroker) -> None:
    assert found(await ask(broker)) == EVERYTHING
    assert found(await ask(broker, "z.y", "a", "b", "a")) == EVERYTHING


@scenario(topics=TOPICS)
async def test_missing_topics_and_bad_names(broker: MemoryBroker) -> None:
    bad = ["a b", ".", "..", "x" * 250, "ä"]
    answer = await ask(broker, "gone", "b", "__consumer_offsets", *bad)
    assert codes(answer) == {
        "b": Code.NONE,
        "gone": Code.UNKNOWN_TOPIC_OR_PARTITION,
        "__consumer_offsets": Code.UNKNOWN_TOPIC_OR_PARTITION,
    } | dict.fromkeys(bad, Code.INVALID_TOPIC_EXCEPTION)
    assert [topic.name for topic in answer.topics] == sorted(topic.name for topic in answer.topics)
    for topic in answer.topics:
        assert topic.is_internal == topic.name.startswith("__")
        assert topic.topic_authorized_operations == OPERATIONS
        assert (topic.topic_id is None) == (topic.partitions == []) == (topic.name != "b")


# -- pages ----------------------------------------------------------------------------------

PAGES = [
    (1, ("a", 1)),
    (2, ("b", 0)),
    (3, ("b", 1)),
    (4, ("b", 2)),
    (5, ("z.y", 0)),
    (6, None),
    (2000, None),
]


@pytest.mark.parametrize(("limit", "next_cursor"), [(0, ("a", 1)), (-5, ("a", 1)), *PAGES])
@scenario(topics=TOPICS)
async def test_a_page_ends_at_its_limit(
    broker: MemoryBroker, limit: int, next_cursor: Cursor | None
) -> None:
    answer = await ask(broker, response_partition_limit=limit)
    assert next_of(answer) == next_cursor
    described = sum(len(topic.partitions) for topic in answer.topics)
    assert described == min(max(limit, 1), 6)


@pytest.mark.parametrize("limit", range(1, 7))
@pytest.mark.parametrize("names", [(), ("b", "a", "z.y")])
@scenario(topics=TOPICS)
async def test_the_pages_together_are_everything(
    broker: MemoryBroker, limit: int, names: tuple[str, ...]
) -> None:
    pages: dict[str, list[int]] = {}
    cursor: Cursor | None = None
    for _ in range(10):
        asked = [name for name in names if cursor is None or name >= cursor[0]]
        answer = await ask(broker, *asked, cursor=cursor, response_partition_limit=limit)
        for name, partitions in found(answer):
            pages.setdefault(name, []).extend(partitions)
        cursor = next_of(answer)
        if cursor is None:
            break
    assert list(pages.items()) == EVERYTHING


@scenario("max.request.partition.size.limit=2", topics=TOPICS)
async def test_the_brokers_limit(broker: MemoryBroker) -> None:
    for limit in (2, 3, 2000):
        answer = await ask(broker, response_partition_limit=limit)
        assert found(answer) == [("a", [0, 1])]
        assert next_of(answer) == ("b", 0)
    assert next_of(await ask(broker, response_partition_limit=1)) == ("a", 1)


@scenario(topics=TOPICS)
async def test_unknown_topics_count_nothing_but_may_be_the_next(broker: MemoryBroker) -> None:
    answer = await ask(broker, "a", "aa", "b", "x", response_partition_limit=5)
    assert list(codes(answer)) == ["a", "aa", "b"]
    assert next_of(answer) == ("x", 0)
    rest = await ask(broker, "x", cursor=("x", 0))
    assert codes(rest) == {"x": Code.UNKNOWN_TOPIC_OR_PARTITION}
    assert rest.next_cursor is None


# -- cursors --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cursor", "expected"),
    [
        (("a", 0), EVERYTHING),
        (("a", 1), [("a", [1]), *EVERYTHING[1:]]),
        (("a", 2), [("a", []), *EVERYTHING[1:]]),
        (("a", 7), [("a", []), *EVERYTHING[1:]]),
        (("b", 1), [("b", [1, 2]), ("z.y", [0])]),
        (("aa", 0), EVERYTHING[1:]),
        (("aa", 3), EVERYTHING[1:]),
        (("zz", 0), []),
        (("", 0), EVERYTHING),
        (("a", 2**31 - 1), [("a", []), *EVERYTHING[1:]]),
    ],
)
@scenario(topics=TOPICS)
async def test_where_a_cursor_begins(
    broker: MemoryBroker, cursor: Cursor, expected: list[tuple[str, list[int]]]
) -> None:
    answer = await ask(broker, cursor=cursor)
    assert found(answer) == expected
    assert answer.next_cursor is None


@scenario(topics=TOPICS)
async def test_a_cursor_passes_over_topics_before_it(broker: MemoryBroker) -> None:
    answer = await ask(broker, "nobody", "a", "b", "aa", cursor=("b", 1))
    assert codes(answer) == {"b": Code.NONE, "nobody": Code.UNKNOWN_TOPIC_OR_PARTITION}
    assert found(answer) == [("b", [1, 2])]


@pytest.mark.parametrize("cursor", [("aa", 0), ("", 0), ("zz", 1), ("a", -1)])
@scenario(topics=TOPICS)
async def test_bad_cursors(broker: MemoryBroker, cursor: Cursor) -> None:
    answer = await ask(broker, "b", "a", "nope", cursor=cursor)
    assert [topic.name for topic in answer.topics] == ["b", "a", "nope"], "as they were asked for"
    for topic in answer.topics:
        assert (topic.error_code, topic.partitions) == (Code.INVALID_REQUEST, [])
        assert topic.topic_authorized_operations == NOT_ASKED
    everything = await ask(broker, cursor=(cursor[0], -1))
    assert everything.topics == [], "there is no place for the code"


# -- who may see what -----------------------------------------------------------------------


@scenario(topics={"open": 1, "secret": 1, "yours": 1})
async def test_topics_that_may_not_be_described(broker: MemoryBroker) -> None:
    broker.parts.authorizer = Denied((Operation.DESCRIBE, "secret"), (Operation.DESCRIBE, "gone"))
    assert codes(await ask(broker)) == {"open": Code.NONE, "yours": Code.NONE}, "not even named"
    answer = await ask(broker, "secret", "open", "gone", "yours")
    assert codes(answer) == {
        "open": Code.NONE,
        "yours": Code.NONE,
        "secret": Code.TOPIC_AUTHORIZATION_FAILED,
        "gone": Code.TOPIC_AUTHORIZATION_FAILED,
    }
    for topic in answer.topics[2:]:
        assert (topic.topic_id, topic.partitions) == (None, []), "refused topics come last"
        assert topic.topic_authorized_operations == NOT_ASKED


@scenario(topics={"t": 1})
async def test_operations_are_those_that_are_allowed(broker: MemoryBroker) -> None:
    broker.parts.authorizer = Denied(Operation.WRITE)
    (topic,) = (await ask(broker, "t")).topics
    assert topic.topic_authorized_operations == OPERATIONS & ~(1 << Operation.WRITE)


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


# -- many -----------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [(), ("b", "a", "none", "z.y")])
@scenario(topics=TOPICS)
async def test_much_is_done_in_slices(
    broker: MemoryBroker, names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = await ask(broker, *names)
    monkeypatch.setattr(describe_topic_partitions, "ROWS_A_SLICE", 1)
    monkeypatch.setattr(describe_topic_partitions, "NAMES_A_SLICE", 2)
    waiting = broker.client.send("DescribeTopicPartitions", 0, **request(*names))
    await settle(3)
    assert not waiting.done(), "it takes a turn of the loop for every row"
    await settle()
    assert codes(waiting.result()) == codes(whole)
    assert found(waiting.result()) == found(whole) == EVERYTHING
