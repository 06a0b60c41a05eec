"""DescribeProducers: the answers of Apache Kafka 4.3.1 to the same requests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kavka.log.memfs import Fault
from kavka.server.auth.authorizer import Operation
from kavka.server.handlers import describe_producers
from kavka.wire.errors import ErrorCode as Code
from support.batches import BASE_TIMESTAMP_MS, Written, build
from support.denied import Denied
from support.memory_broker import MemoryBroker, scenario
from support.virtual import settle

NOT_HERE = "This server does not host this topic-partition."
NO_TRANSACTION = (-1, -1)

Asked = dict[str, list[int]]


def request(topics: Asked) -> dict[str, Any]:
    return {
        "topics": [{"name": name, "partition_indexes": indexes} for name, indexes in topics.items()]
    }


async def ask(broker: MemoryBroker, topics: Asked) -> Any:
    return await broker.ask("DescribeProducers", 0, **request(topics))


async def producers(broker: MemoryBroker, topic: str = "t", partition: int = 0) -> dict[int, Any]:
    """What is told of a partition's producers, by id."""
    answer = await ask(broker, {topic: [partition]})
    (found,) = answer.topics[0].partitions
    assert (found.error_code, found.error_message) == (Code.NONE, None)
    received = {}
    for one in found.active_producers:
        assert (one.coordinator_epoch, one.current_txn_start_offset) == NO_TRANSACTION
        received[one.producer_id] = (one.producer_epoch, one.last_sequence, one.last_timestamp)
    assert len(received) == len(found.active_producers)
    return received


async def write(
    broker: MemoryBroker, producer: tuple[int, int, int], *times_ms: int, partition: int = 0
) -> None:
    """One record for each of `times_ms`, by (id, epoch, first sequence)."""
    batch = build([Written(time_ms=time) for time in times_ms], producer=producer)
    answer = await broker.produce(batch, "t", partition)
    assert answer.error_code == Code.NONE, answer


@scenario(topics={"t": 2})
async def test_the_newest_batch_of_each_producer(broker: MemoryBroker) -> None:
    assert await producers(broker) == {}
    await write(broker, (-1, -1, -1), 0)
    assert await producers(broker) == {}, "who has no id is not remembered"
    await write(broker, (100, 0, 0), 5, 9, 7)
    await write(broker, (100, 0, 3), 4)
    await write(broker, (50, 3, 7), 0, 1)
    expected = {100: (0, 3, BASE_TIMESTAMP_MS + 4), 50: (3, 8, BASE_TIMESTAMP_MS + 1)}
    assert await producers(broker) == expected
    assert await producers(broker, partition=1) == {}
    await broker.kill()
    assert await producers(broker) == expected


@scenario(topics={"t": 1})
async def test_a_new_epoch_and_the_end_of_the_sequences(broker: MemoryBroker) -> None:
    await write(broker, (100, 0, 0), 0)
    await write(broker, (100, 1, 0), 0, 0, 0)
    await write(broker, (101, 0, 2**31 - 2), 0, 0, 0)
    assert await producers(broker) == {
        100: (1, 2, BASE_TIMESTAMP_MS),
        101: (0, 0, BASE_TIMESTAMP_MS),
    }


@scenario(topics={"t": 2})
async def test_what_cannot_be_told(broker: MemoryBroker) -> None:
    bad = {
        "": "the empty string is not allowed",
        ".": "'.' is not allowed",
        "a b": "'a b' contains one or more characters other than ASCII alphanumerics, "
        "'.', '_' and '-'",
        "x" * 250: f"the length of '{'x' * 250}' is longer than the max allowed length 249",
    }
    answer = await ask(broker, {"t": [0, 5, -1, 0], "gone": [0, 1]} | {name: [1] for name in bad})
    received = {
        topic.name: [(p.partition_index, p.error_code, p.error_message) for p in topic.partitions]
        for topic in answer.topics
    }
    unknown = Code.UNKNOWN_TOPIC_OR_PARTITION
    assert received == {
        "t": [(0, Code.NONE, None), (5, unknown, None), (-1, unknown, None), (0, Code.NONE, None)],
        "gone": [(0, unknown, NOT_HERE), (1, unknown, NOT_HERE)],
    } | {
        name: [(1, Code.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")]
        for name, reason in bad.items()
    }


@scenario(topics={"t": 1})
async def test_topics_without_partitions(broker: MemoryBroker) -> None:
    assert (await ask(broker, {})).topics == []
    (topic,) = (await ask(broker, {"t": []})).topics
    assert (topic.name, topic.partitions) == ("t", [])


@scenario(topics={"open": 1, "secret": 1})
async def test_who_may_not_read(broker: MemoryBroker) -> None:
    broker.parts.authorizer = Denied((Operation.READ, "secret"), (Operation.READ, "gone"))
    answer = await ask(broker, {"secret": [0, 7], "open": [0], "gone": [0]})
    codes = {t.name: {p.error_code for p in t.partitions} for t in answer.topics}
    refused = {Code.TOPIC_AUTHORIZATION_FAILED}
    assert codes == {"secret": refused, "open": {Code.NONE}, "gone": refused}
    assert answer.topics[0].partitions[0].error_message == "Topic authorization failed."


@scenario(topics={"t": 1})
async def test_a_partition_that_lies_elsewhere(broker: MemoryBroker) -> None:
    cache = broker.parts.metadata
    topic = cache.image.topics["t"]
    second = replace(topic.partitions[0], partition=1, leader=2, replicas=(2,), isr=(2,))
    shared = replace(topic, partitions=(*topic.partitions, second))
    cache.image = replace(cache.image, topics={"t": shared})
    answer = await ask(broker, {"t": [1]})
    (partition,) = answer.topics[0].partitions
    assert (partition.error_code, partition.error_message) == (Code.NOT_LEADER_OR_FOLLOWER, None)


@scenario(topics={"t": 1})
async def test_followers_tell_too(broker: MemoryBroker) -> None:
    await write(broker, (100, 0, 0), 0)
    broker.replica().partition.is_leader = False
    assert list(await producers(broker)) == [100]
    broker.replica().partition.is_leader = True


@scenario(topics={"t": 1})
async def test_a_log_that_failed(broker: MemoryBroker) -> None:
    broker.fs.faults = [Fault("pwrite", ".log")]
    assert (await broker.produce(build())).error_code == Code.KAFKA_STORAGE_ERROR
    (partition,) = (await ask(broker, {"t": [0]})).topics[0].partitions
    assert partition.error_code == Code.KAFKA_STORAGE_ERROR
    assert partition.active_producers == []


@scenario(topics={"t": 3})
async def test_many_producers_are_told_in_slices(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    for producer in range(9):
        await write(broker, (producer, 0, 0), 0)
    whole = await producers(broker)
    assert list(whole) == list(range(9))
    monkeypatch.setattr(describe_producers, "PRODUCERS_A_SLICE", 2)
    waiting = broker.client.send("DescribeProducers", 0, **request({"t": [0, 1, 2]}))
    await settle(3)
    assert not waiting.done(), "it takes a turn of the loop for every two of them"
    await settle()
    first, *others = waiting.result().topics[0].partitions
    assert [one.producer_id for one in first.active_producers] == list(range(9))
    assert [one.active_producers for one in others] == [[], []]


@scenario(topics={"t": 2})
async def test_one_request_is_not_told_without_end(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    for producer in range(3):
        await write(broker, (producer, 0, 0), 0)
    monkeypatch.setattr(describe_producers, "PRODUCERS_PER_REQUEST_MAX", 4)
    answer = await ask(broker, {"t": [0, 0, 0, 1]})
    received = [(one.error_code, len(one.active_producers)) for one in answer.topics[0].partitions]
    assert received == [(0, 3), (0, 3), (Code.POLICY_VIOLATION, 0), (Code.POLICY_VIOLATION, 0)]
