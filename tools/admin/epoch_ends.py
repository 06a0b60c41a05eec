"""Where leader epochs end in the logs of partitions, asked of their leaders (KIP-101)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from kavka.tools.admin.cluster_client import ClusterClient
from kavka.tools.admin.leaders import TopicPartition
from kavka.tools.admin.partition_offsets import ask_leaders
from kavka.wire.apis import offset_for_leader_epoch
from kavka.wire.apis.offset_for_leader_epoch import PartitionResponse
from kavka.wire.message import message

CONSUMER: Final = -1
ANY_EPOCH: Final = -1
"""In the place of the leader's: whichever it leads in."""

UNKNOWN: Final = -1


@message
class RequestedPartition:
    partition: int
    current_leader_epoch: int
    leader_epoch: int


@message
class RequestedTopic:
    topic: str
    partitions: Sequence[RequestedPartition]


@message
class OffsetForLeaderEpochRequest:
    replica_id: int
    topics: Sequence[RequestedTopic]


async def epoch_ends(
    cluster: ClusterClient, epochs: Mapping[TopicPartition, int], within_s: float
) -> dict[TopicPartition, int]:
    """The offset behind the last record of each partition's epoch and of those before it, UNKNOWN
    where the leader knows neither, or does not say; asked again while leaders change. Refused if a
    topic is not there, Failed."""
    found: dict[TopicPartition, int] = {}

    def take(topic_partition: TopicPartition, answer: PartitionResponse) -> None:
        found[topic_partition] = UNKNOWN if answer.error_code else answer.end_offset

    await ask_leaders(
        cluster, epochs, within_s, lambda leader, led: _ask(cluster, leader, led, epochs), take
    )
    return found


async def _ask(
    cluster: ClusterClient,
    leader: int,
    partitions: Sequence[TopicPartition],
    epochs: Mapping[TopicPartition, int],
) -> dict[TopicPartition, PartitionResponse]:
    topics: defaultdict[str, list[RequestedPartition]] = defaultdict(list)
    for topic_partition in partitions:
        topic, partition = topic_partition
        topics[topic].append(RequestedPartition(partition, ANY_EPOCH, epochs[topic_partition]))
    request = OffsetForLeaderEpochRequest(
        CONSUMER, [RequestedTopic(*item) for item in topics.items()]
    )
    response = await cluster.ask_broker(leader, offset_for_leader_epoch.API, request)
    return {
        (topic.topic, partition.partition): partition
        for topic in response.topics
        for partition in topic.partitions
    }
