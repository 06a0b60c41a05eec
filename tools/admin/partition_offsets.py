"""Offsets of partitions for a time, asked of their leaders."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

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


async def ask_offsets(
    cluster: ClusterClient, leaders: Mapping[Place, int], time: int, isolation: int = UNCOMMITTED
) -> dict[Place, PartitionResponse]:
    """The answer for each partition, whose leader's id is given. Failed."""
    led_by: defaultdict[int, list[Place]] = defaultdict(list)
    for place, leader in leaders.items():
        led_by[leader].append(place)
    found = await asyncio.gather(
        *(_offsets(cluster, leader, places, time, isolation) for leader, places in led_by.items())
    )
    return {place: one for some in found for place, one in some.items()}


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
    left = list(places)
    found: dict[Place, int] = {}
    why = ErrorCode.LEADER_NOT_AVAILABLE
    async for _ in cluster.attempts(within_s):
        leaders = await leaders_of(cluster, (topic for topic, _ in left))
        led = {place: leaders[place] for place in left if leaders.get(place, -1) >= 0}
        for place, one in (await ask_offsets(cluster, led, time, isolation)).items():
            code = ErrorCode(one.error_code)
            if not code:
                found[place] = one.offset
            elif code.retriable:
                why = code
            else:
                raise Refused(code)
        left = [place for place in left if place not in found]
        if not left:
            return found
    topic, partition = left[0]
    raise Failed(f"no leader of {topic}-{partition} has answered within {within_s:g} s: {why.name}")


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
