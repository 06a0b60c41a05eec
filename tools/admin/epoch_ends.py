"""Where leader epochs end in the logs of partitions, asked of their leaders (KIP-101)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from kavka.tools.admin.cluster_client import ClusterClient
from kavka.tools.admin.errors import Failed
from kavka.tools.admin.partition_offsets import Place, leaders_of
from kavka.wire.apis import offset_for_leader_epoch
from kavka.wire.apis.offset_for_leader_epoch import PartitionResponse
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

CONSUMER: Final = -1
ANY_EPOCH: Final = -1
"""In the place of the leader's: whichever it leads in."""

UNKNOWN: Final = -1


@message
class AskedPartition:
    partition: int
    current_leader_epoch: int
    leader_epoch: int


@message
class AskedTopic:
    topic: str
    partitions: Sequence[AskedPartition]


@message
class OffsetForLeaderEpochRequest:
    replica_id: int
    topics: Sequence[AskedTopic]


async def epoch_ends(
    cluster: ClusterClient, epochs: Mapping[Place, int], within_s: float
) -> dict[Place, int]:
    """The offset behind the last record of each partition's epoch and of those before it, UNKNOWN
    where the leader knows neither, or does not say; asked again while leaders change. Refused if a
    topic is not there, Failed."""
    left, found = dict(epochs), dict[Place, int]()
    why = ErrorCode.LEADER_NOT_AVAILABLE
    async for _ in cluster.attempts(within_s):
        leaders = await leaders_of(cluster, {topic for topic, _ in left})
        led_by: defaultdict[int, list[Place]] = defaultdict(list)
        for place in left:
            led_by[leaders.get(place, -1)].append(place)
        led_by.pop(-1, None)
        for leader, places in led_by.items():
            for place, one in (await _asked(cluster, leader, places, left)).items():
                code = ErrorCode(one.error_code)
                if code.retriable:
                    why = code
                    continue
                found[place] = UNKNOWN if code else one.end_offset
                del left[place]
        if not left:
            return found
    topic, partition = next(iter(left))
    raise Failed(f"no leader of {topic}-{partition} has answered within {within_s:g} s: {why.name}")


async def _asked(
    cluster: ClusterClient, leader: int, places: Sequence[Place], epochs: Mapping[Place, int]
) -> dict[Place, PartitionResponse]:
    topics: defaultdict[str, list[AskedPartition]] = defaultdict(list)
    for place in places:
        topic, partition = place
        topics[topic].append(AskedPartition(partition, ANY_EPOCH, epochs[place]))
    request = OffsetForLeaderEpochRequest(CONSUMER, [AskedTopic(*one) for one in topics.items()])
    response = await cluster.ask_broker(leader, offset_for_leader_epoch.API, request)
    return {
        (topic.topic, one.partition): one for topic in response.topics for one in topic.partitions
    }
