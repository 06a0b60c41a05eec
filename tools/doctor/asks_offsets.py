"""Asks the leaders of partitions for offsets and times."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from kavka.tools.doctor.clocks import Stamp
from kavka.tools.doctor.cluster import Cluster
from kavka.tools.doctor.groups import Ends, Place
from kavka.wire.apis import list_offsets
from kavka.wire.apis.list_offsets import AskedPartition, AskedTopic, ListOffsetsRequest

CONSUMER: Final = -1
NO_EPOCH: Final = -1
UNCOMMITTED: Final = 0
COMMITTED: Final = 1
TIMEOUT_MS: Final = 30_000


class Found(NamedTuple):
    """What a leader answers for a partition."""

    offset: int
    timestamp_ms: int


def leaders(cluster: Cluster) -> dict[Place, int]:
    """The leader of each partition that has one that can be asked."""
    return {
        (topic.name or "", one.partition_index): one.leader_id
        for topic in cluster.metadata.topics
        for one in topic.partitions
        if one.leader_id in cluster.ways
    }


async def offsets(
    cluster: Cluster, places: Iterable[Place], time: int, isolation: int = UNCOMMITTED
) -> dict[Place, Found]:
    """The offset for a time in each of the partitions that have one. Unanswered."""
    led_by: defaultdict[int, list[Place]] = defaultdict(list)
    led = leaders(cluster)
    for place in places:
        if place in led:
            led_by[led[place]].append(place)
    found: dict[Place, Found] = {}
    for leader, some in led_by.items():
        topics = [
            AskedTopic(topic, [AskedPartition(number, NO_EPOCH, time) for number in numbers])
            for topic, numbers in _by_topic(some)
        ]
        request = ListOffsetsRequest(CONSUMER, topics, isolation, TIMEOUT_MS)
        response = await cluster.ask(leader, list_offsets.API, request)
        found |= {
            (topic.name, one.partition_index): Found(one.offset, one.timestamp)
            for topic in response.topics
            for one in topic.partitions
            if not one.error_code and one.offset >= 0
        }
    return found


async def ends(cluster: Cluster, places: Iterable[Place]) -> Mapping[Place, Ends]:
    """First and last offsets. Unanswered."""
    wanted = list(places)
    last = await offsets(cluster, wanted, list_offsets.LATEST)
    first = await offsets(cluster, last, list_offsets.EARLIEST)
    return {place: Ends(first[place].offset, last[place].offset) for place in first}


async def held_back(cluster: Cluster) -> list[Place]:
    """Partitions with records behind the first open transaction. Unanswered."""
    stable = await offsets(cluster, leaders(cluster), list_offsets.LATEST, COMMITTED)
    last = await offsets(cluster, stable, list_offsets.LATEST)
    return [place for place, found in last.items() if stable[place].offset < found.offset]


async def stamps(cluster: Cluster, topics: Iterable[str]) -> list[Stamp]:
    """The newest record of each partition of topics whose records have the broker's time.
    Unanswered."""
    wanted = set(topics)
    led = leaders(cluster)
    places = [place for place in led if place[0] in wanted]
    found = await offsets(cluster, places, list_offsets.MAX_TIMESTAMP)
    return [
        Stamp(f"{topic}-{number}", led[topic, number], one.timestamp_ms)
        for (topic, number), one in found.items()
        if one.timestamp_ms >= 0
    ]


def _by_topic(places: Iterable[Place]) -> Iterator[tuple[str, list[int]]]:
    topics: defaultdict[str, list[int]] = defaultdict(list)
    for topic, number in places:
        topics[topic].append(number)
    yield from topics.items()
