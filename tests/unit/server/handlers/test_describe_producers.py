"""DescribeProducers: the answers of Apache Kafka 4.3.1 to the same requests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kavka.compat_tests.raw.codec.batches import Written, build
from kavka.wire.errors import ErrorCode as Code
from support.memory_broker import MemoryBroker, scenario

NO_TRANSACTION = (-1, -1)

PartitionsByTopic = dict[str, list[int]]


def request(topics: PartitionsByTopic) -> dict[str, Any]:
    return {
        "topics": [{"name": name, "partition_indexes": indexes} for name, indexes in topics.items()]
    }


async def ask(broker: MemoryBroker, topics: PartitionsByTopic) -> Any:
    return await broker.ask("DescribeProducers", 0, **request(topics))


async def producers(broker: MemoryBroker, topic: str = "t", partition: int = 0) -> dict[int, Any]:
    """A partition's producers as described, by id."""
    answer = await ask(broker, {topic: [partition]})
    (found,) = answer.topics[0].partitions
    assert (found.error_code, found.error_message) == (Code.NONE, None)
    received = {}
    for producer in found.active_producers:
        assert (producer.coordinator_epoch, producer.current_txn_start_offset) == NO_TRANSACTION
        received[producer.producer_id] = (
            producer.producer_epoch,
            producer.last_sequence,
            producer.last_timestamp,
        )
    assert len(received) == len(found.active_producers)
    return received


async def write(
    broker: MemoryBroker, producer: tuple[int, int, int], *times_ms: int, partition: int = 0
) -> None:
    """One record for each of `times_ms`, by (id, epoch, first sequence)."""
    batch = build([Written(time_ms=time) for time in times_ms], producer=producer)
    answer = await broker.produce(batch, "t", partition)
    assert answer.error_code == Code.NONE, answer


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
async def test_followers_describe_producers_too(broker: MemoryBroker) -> None:
    await write(broker, (100, 0, 0), 0)
    broker.replica().partition.is_leader = False
    assert list(await producers(broker)) == [100]
    broker.replica().partition.is_leader = True
