"""Offsets of partitions for a time, asked of their leaders."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol, TypeAlias, TypeVar

from kavka.tools.admin.cluster_client import ClusterClient
from kavka.tools.admin.errors import Failed
from kavka.tools.admin.java_errors import Refused
from kavka.wire.apis import list_offsets
from kavka.wire.apis.list_offsets import (
    AskedPartition,
    AskedTopic,
    ListOffsetsRequest,
    PartitionResponse,
)
from kavka.wire.errors import ErrorCode

CONSUMER: Final = -1
UNCOMMITTED: Final = 0
COMMITTED: Final = 1
"""Isolation levels."""

NO_EPOCH: Final = -1
TIMEOUT_MS: Final = 60_000

Place = tuple[str, int]
"""Topic and partition."""


class Answer(Protocol):
    """What a leader answers about a partition."""

    error_code: int


T = TypeVar("T", bound=Answer)
AskBroker: TypeAlias = Callable[[int, Sequence[Place]], Awaitable[Mapping[Place, T]]]
"""Asks a broker about partitions that it leads."""


async def ask_offsets(
    cluster: ClusterClient, leaders: Mapping[Place, int], time: int, isolation: int = UNCOMMITTED
) -> dict[Place, PartitionResponse]:
    """The answer for each partition, whose leader's id is given. Failed."""
    return await _of_each(
        leaders, lambda leader, places: _offsets(cluster, leader, places, time, isolation)
    )


async def _of_each(leaders: Mapping[Place, int], ask: AskBroker[T]) -> dict[Place, T]:
    """What each leader answers about its partitions. Failed."""
    led_by: defaultdict[int, list[Place]] = defaultdict(list)
    for place, leader in leaders.items():
        led_by[leader].append(place)
    found = await asyncio.gather(*(ask(leader, places) for leader, places in led_by.items()))
    return {place: one for some in found for place, one in some.items()}


async def ask_leaders(
    cluster: ClusterClient,
    places: Iterable[Place],
    within_s: float,
    ask: AskBroker[T],
    take: Callable[[Place, T], None],
) -> None:
    """Ask the leaders of partitions, again while they change. `take` gets each answer, but for
    errors that pass. Refused if there is no such topic, Failed."""
    left, taken = list(places), set[Place]()
    why = ErrorCode.LEADER_NOT_AVAILABLE
    async for _ in cluster.attempts(within_s):
        leaders = await leaders_of(cluster, (topic for topic, _ in left))
        led = {place: leaders[place] for place in left if leaders.get(place, -1) >= 0}
        for place, one in (await _of_each(led, ask)).items():
            code = ErrorCode(one.error_code)
            if code.retriable:
                why = code
            else:
                take(place, one)
                taken.add(place)
        left = [place for place in left if place not in taken]
        if not left:
            return
    topic, partition = left[0]
    raise Failed(f"no leader of {topic}-{partition} has answered within {within_s:g} s: {why.name}")


async def leaders_of(cluster: ClusterClient, topics: Iterable[str]) -> dict[Place, int]:
    """The leaders of all partitions of some topics, -1 where there is none. Refused if there is no
    such topic, Failed."""
    found = await cluster.topics_named(topics)
    for topic in found.values():
        if topic.error_code not in (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE):
            raise Refused(topic.error_code)
    return {
        (name, one.partition_index): one.leader_id
        for name, topic in found.items()
        for one in topic.partitions
    }


async def offsets_at(
    cluster: ClusterClient,
    places: Iterable[Place],
    time: int,
    within_s: float,
    isolation: int = UNCOMMITTED,
) -> dict[Place, int]:
    """The offset of each partition, -1 if it has none for the time; asked again while leaders
    change. Refused, Failed."""
    found: dict[Place, int] = {}

    def take(place: Place, one: PartitionResponse) -> None:
        if one.error_code:
            raise Refused(one.error_code)
        found[place] = one.offset

    await ask_leaders(
        cluster,
        places,
        within_s,
        lambda leader, led: _offsets(cluster, leader, led, time, isolation),
        take,
    )
    return found


async def _offsets(
    cluster: ClusterClient, leader: int, places: Iterable[Place], time: int, isolation: int
) -> dict[Place, PartitionResponse]:
    topics: defaultdict[str, list[AskedPartition]] = defaultdict(list)
    for topic, partition in places:
        topics[topic].append(AskedPartition(partition, NO_EPOCH, time))
    request = ListOffsetsRequest(
        CONSUMER, [AskedTopic(*one) for one in topics.items()], isolation, TIMEOUT_MS
    )
    response = await cluster.ask_broker(leader, list_offsets.API, request)
    return {
        (topic.name, one.partition_index): one
        for topic in response.topics
        for one in topic.partitions
    }
