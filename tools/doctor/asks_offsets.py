"""Asks the leaders of partitions for offsets and times."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from kavka.tools.doctor.clocks import Stamp
from kavka.tools.doctor.cluster import Cluster
from kavka.tools.doctor.groups import Ends, TopicPartition
from kavka.wire.apis import list_offsets
from kavka.wire.apis.list_offsets import ListOffsetsRequest, RequestedPartition, RequestedTopic

CONSUMER: Final = -1
NO_EPOCH: Final = -1
UNCOMMITTED: Final = 0
COMMITTED: Final = 1
TIMEOUT_MS: Final = 30_000


class Found(NamedTuple):
    """What a leader answers for a partition."""

    offset: int
    timestamp_ms: int


def leaders(cluster: Cluster) -> dict[TopicPartition, int]:
    """The leader of each partition that has one that can be asked."""
    return {
        (topic.name or "", partition.partition_index): partition.leader_id
        for topic in cluster.metadata.topics
        for partition in topic.partitions
        if partition.leader_id in cluster.ways
    }


async def offsets(
    cluster: Cluster, partitions: Iterable[TopicPartition], time: int, isolation: int = UNCOMMITTED
) -> dict[TopicPartition, Found]:
    """The offset for a time in each of the partitions that have one. Unanswered."""
    led_by: defaultdict[int, list[TopicPartition]] = defaultdict(list)
    led = leaders(cluster)
    for topic_partition in partitions:
        if topic_partition in led:
            led_by[led[topic_partition]].append(topic_partition)
    found: dict[TopicPartition, Found] = {}
    for leader, some in led_by.items():
        topics = [
            RequestedTopic(
                topic, [RequestedPartition(number, NO_EPOCH, time) for number in numbers]
            )
            for topic, numbers in _by_topic(some)
        ]
        request = ListOffsetsRequest(CONSUMER, topics, isolation, TIMEOUT_MS)
        response = await cluster.ask(leader, list_offsets.API, request)
        found |= {
            (topic.name, partition.partition_index): Found(partition.offset, partition.timestamp)
            for topic in response.topics
            for partition in topic.partitions
            if not partition.error_code and partition.offset >= 0
        }
    return found


async def ends(
    cluster: Cluster, partitions: Iterable[TopicPartition]
) -> Mapping[TopicPartition, Ends]:
    """First and last offsets. Unanswered."""
    requested = list(partitions)
    last = await offsets(cluster, requested, list_offsets.LATEST)
    first = await offsets(cluster, last, list_offsets.EARLIEST)
    return {
        topic_partition: Ends(first[topic_partition].offset, last[topic_partition].offset)
        for topic_partition in first
    }


async def held_back(cluster: Cluster) -> list[TopicPartition]:
    """Partitions with records behind the first open transaction. Unanswered."""
    stable = await offsets(cluster, leaders(cluster), list_offsets.LATEST, COMMITTED)
    last = await offsets(cluster, stable, list_offsets.LATEST)
    return [
        topic_partition
        for topic_partition, found in last.items()
        if stable[topic_partition].offset < found.offset
    ]


async def stamps(cluster: Cluster, topics: Iterable[str]) -> list[Stamp]:
    """The newest record of each partition of topics whose records have the broker's time.
    Unanswered."""
    names = set(topics)
    led = leaders(cluster)
    partitions = [topic_partition for topic_partition in led if topic_partition[0] in names]
    found = await offsets(cluster, partitions, list_offsets.MAX_TIMESTAMP)
    return [
        Stamp(f"{topic}-{number}", led[topic, number], newest.timestamp_ms)
        for (topic, number), newest in found.items()
        if newest.timestamp_ms >= 0
    ]


def _by_topic(partitions: Iterable[TopicPartition]) -> Iterator[tuple[str, list[int]]]:
    topics: defaultdict[str, list[int]] = defaultdict(list)
    for topic, number in partitions:
        topics[topic].append(number)
    yield from topics.items()
