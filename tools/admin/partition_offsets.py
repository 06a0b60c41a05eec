"""Offsets of partitions for a time, asked of their leaders."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol, TypeAlias, TypeVar

from kavka.tools.admin.cluster_client import ClusterClient
from kavka.tools.admin.errors import Failed
from kavka.tools.admin.java_errors import Refused
from kavka.tools.admin.leaders import TopicPartition
from kavka.wire.apis import list_offsets
from kavka.wire.apis.list_offsets import (
    ListOffsetsRequest,
    PartitionResponse,
    RequestedPartition,
    RequestedTopic,
)
from kavka.wire.errors import ErrorCode

CONSUMER: Final = -1
UNCOMMITTED: Final = 0
COMMITTED: Final = 1
"""Isolation levels."""

NO_EPOCH: Final = -1
TIMEOUT_MS: Final = 60_000


class Answer(Protocol):
    """What a leader answers about a partition."""

    error_code: int


T = TypeVar("T", bound=Answer)
AskBroker: TypeAlias = Callable[
    [int, Sequence[TopicPartition]], Awaitable[Mapping[TopicPartition, T]]
]
"""Asks a broker about partitions that it leads."""


async def ask_offsets(
    cluster: ClusterClient,
    leaders: Mapping[TopicPartition, int],
    time: int,
    isolation: int = UNCOMMITTED,
) -> dict[TopicPartition, PartitionResponse]:
    """The answer for each partition, whose leader's id is given. Failed."""
    return await _of_each(
        leaders, lambda leader, partitions: _offsets(cluster, leader, partitions, time, isolation)
    )


async def _of_each(
    leaders: Mapping[TopicPartition, int], ask: AskBroker[T]
) -> dict[TopicPartition, T]:
    """What each leader answers about its partitions. Failed."""
    led_by: defaultdict[int, list[TopicPartition]] = defaultdict(list)
    for topic_partition, leader in leaders.items():
        led_by[leader].append(topic_partition)
    found = await asyncio.gather(
        *(ask(leader, partitions) for leader, partitions in led_by.items())
    )
    return {topic_partition: answer for some in found for topic_partition, answer in some.items()}


async def ask_leaders(
    cluster: ClusterClient,
    partitions: Iterable[TopicPartition],
    within_s: float,
    ask: AskBroker[T],
    take: Callable[[TopicPartition, T], None],
) -> None:
    """Ask the leaders of partitions, again while they change. `take` gets each answer, but for
    errors that pass. Refused if there is no such topic, Failed."""
    left, taken = list(partitions), set[TopicPartition]()
    why = ErrorCode.LEADER_NOT_AVAILABLE
    async for _ in cluster.attempts(within_s):
        leaders = await leaders_of(cluster, (topic for topic, _ in left))
        led = {
            topic_partition: leaders[topic_partition]
            for topic_partition in left
            if leaders.get(topic_partition, -1) >= 0
        }
        for topic_partition, answer in (await _of_each(led, ask)).items():
            code = ErrorCode(answer.error_code)
            if code.retriable:
                why = code
            else:
                take(topic_partition, answer)
                taken.add(topic_partition)
        left = [topic_partition for topic_partition in left if topic_partition not in taken]
        if not left:
            return
    topic, partition = left[0]
    raise Failed(f"no leader of {topic}-{partition} has answered within {within_s:g} s: {why.name}")


async def leaders_of(cluster: ClusterClient, topics: Iterable[str]) -> dict[TopicPartition, int]:
    """The leaders of all partitions of some topics, -1 where there is none. Refused if there is no
    such topic, Failed."""
    found = await cluster.topics_named(topics)
    for topic in found.values():
        if topic.error_code not in (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE):
            raise Refused(topic.error_code)
    return {
        (name, partition.partition_index): partition.leader_id
        for name, topic in found.items()
        for partition in topic.partitions
    }


async def offsets_at(
    cluster: ClusterClient,
    partitions: Iterable[TopicPartition],
    time: int,
    within_s: float,
    isolation: int = UNCOMMITTED,
) -> dict[TopicPartition, int]:
    """The offset of each partition, -1 if it has none for the time; asked again while leaders
    change. Refused, Failed."""
    found: dict[TopicPartition, int] = {}

    def take(topic_partition: TopicPartition, answer: PartitionResponse) -> None:
        if answer.error_code:
            raise Refused(answer.error_code)
        found[topic_partition] = answer.offset

    await ask_leaders(
        cluster,
        partitions,
        within_s,
        lambda leader, led: _offsets(cluster, leader, led, time, isolation),
        take,
    )
    return found


async def _offsets(
    cluster: ClusterClient,
    leader: int,
    partitions: Iterable[TopicPartition],
    time: int,
    isolation: int,
) -> dict[TopicPartition, PartitionResponse]:
    topics: defaultdict[str, list[RequestedPartition]] = defaultdict(list)
    for topic, partition in partitions:
        topics[topic].append(RequestedPartition(partition, NO_EPOCH, time))
    request = ListOffsetsRequest(
        CONSUMER, [RequestedTopic(*item) for item in topics.items()], isolation, TIMEOUT_MS
    )
    response = await cluster.ask_broker(leader, list_offsets.API, request)
    return {
        (topic.name, partition.partition_index): partition
        for topic in response.topics
        for partition in topic.partitions
    }
