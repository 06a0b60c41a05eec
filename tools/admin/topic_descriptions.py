"""What a cluster says of topics, from several APIs."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from kavka.tools.admin.cluster_client import ClusterClient
from kavka.tools.admin.errors import Failed
from kavka.tools.admin.java_order import copied_order, hash_order
from kavka.tools.admin.requests import DescribeConfigsRequest, RequestedResource
from kavka.wire.apis import (
    describe_configs,
    describe_topic_partitions,
    list_partition_reassignments,
    metadata,
)
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

PARTITIONS_PER_RESPONSE: Final = 2000
RESOURCE_TOPIC: Final = 2
SOURCE_DEFAULT: Final = 5
NO_ID: Final = UUID(int=0)
TIMEOUT_MS: Final = 60_000


class Partition(NamedTuple):
    """A partition's state."""

    number: int
    leader: int | None
    replicas: Sequence[int]
    isr: Sequence[int]
    elr: Sequence[int] | None
    """Eligible leader replicas (KIP-966); None where the cluster knows none."""
    last_known_elr: Sequence[int] | None
    adding: Sequence[int] | None
    """Of a reassignment; None without one."""
    removing: Sequence[int] | None


class Topic(NamedTuple):
    """A topic's state."""

    name: str
    topic_id: UUID
    partitions: Sequence[Partition]
    configs: Mapping[str, str | None]
    """Those that differ from the defaults of the brokers."""
    least_isr: int

    @property
    def replication_factor(self) -> int:
        """Of the first partition; a reassignment that goes on does not count."""
        return self.factor_of(self.partitions[0])

    @staticmethod
    def factor_of(partition: Partition) -> int:
        """How many replicas a partition has without those that are only being added."""
        changing = {*(partition.adding or ()), *(partition.removing or ())}
        if changing.isdisjoint(partition.replicas):
            return len(partition.replicas)
        return len(partition.replicas) - len(partition.adding or ())


@message
class RequestedName:
    name: str


@message
class Cursor:
    topic_name: str
    partition_index: int


@message
class DescribeTopicPartitionsRequest:
    topics: Sequence[RequestedName]
    response_partition_limit: int
    cursor: Cursor | None


@message
class RequestedReassignments:
    name: str
    partition_indexes: Sequence[int]


@message
class ListPartitionReassignmentsRequest:
    topics: Sequence[RequestedReassignments] | None
    timeout_ms: int = TIMEOUT_MS


def parse_id(text: str | None) -> UUID | None:
    """A topic id in Kafka's form, 22 letters of base64; None for none, and for all zeros. Failed
    if it is none."""
    if text is None:
        return None
    try:
        found = UUID(bytes=base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (binascii.Error, ValueError) as error:
        raise Failed(f"--topic-id: {text!r} is no topic id") from error
    return None if found == NO_ID else found


def id_text(topic_id: UUID) -> str:
    """As Kafka writes it."""
    return base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


async def describe(
    cluster: ClusterClient, topics: Sequence[metadata.TopicResponse], limit: int | None
) -> list[Topic]:
    """All that the cluster knows of topics, in the order in which Apache Kafka prints them.
    `limit`: partitions a response."""
    if not topics:
        return []
    names = copied_order(topic.name or "" for topic in topics)
    partitions = await _partitions(cluster, names, limit or PARTITIONS_PER_RESPONSE)
    if partitions is None:
        partitions = {topic.name or "": topic.partitions for topic in topics}
    configs = await _configs(cluster, names)
    reassignments = await _reassignments(cluster, partitions)
    ids = {topic.name: topic.topic_id or NO_ID for topic in topics}
    return [
        _topic(name, ids[name], partitions[name], configs[name], reassignments)
        for name in names
        if name in partitions
    ]


def _topic(
    name: str,
    topic_id: UUID,
    partitions: Sequence[Any],
    configs: Sequence[describe_configs.ConfigResponse],
    reassignments: Mapping[tuple[str, int], Any],
) -> Topic:
    found = []
    for response in sorted(partitions, key=lambda partition: partition.partition_index):
        moving = reassignments.get((name, response.partition_index))
        found.append(
            Partition(
                response.partition_index,
                None if response.leader_id < 0 else response.leader_id,
                response.replica_nodes,
                response.isr_nodes,
                getattr(response, "eligible_leader_replicas", None),
                getattr(response, "last_known_elr", None),
                None if moving is None else moving.adding_replicas,
                None if moving is None else moving.removing_replicas,
            )
        )
    by_name = {config.name: config for config in configs}
    own = {
        key: by_name[key].value
        for key in hash_order(by_name)
        if by_name[key].config_source != SOURCE_DEFAULT and not by_name[key].is_default
    }
    least = by_name.get("min.insync.replicas")
    return Topic(name, topic_id, found, own, int((least and least.value) or 1))


async def _partitions(
    cluster: ClusterClient, names: Sequence[str], limit: int
) -> dict[str, Sequence[Any]] | None:
    """Page by page; None if the brokers are too old for that."""
    api = describe_topic_partitions.API
    if not await cluster.serves(api):
        return None
    found: dict[str, list[Any]] = {}
    cursor: Cursor | None = None
    while True:
        request = DescribeTopicPartitionsRequest(
            [RequestedName(name) for name in sorted(names)], limit, cursor
        )
        response = await cluster.ask(api, request)
        for topic in response.topics:
            if topic.error_code == ErrorCode.NONE:
                found.setdefault(topic.name, []).extend(topic.partitions)
        if response.next_cursor is None:
            return dict(found)
        end = response.next_cursor
        cursor = Cursor(end.topic_name, end.partition_index)


async def _configs(
    cluster: ClusterClient, names: Sequence[str]
) -> dict[str, Sequence[describe_configs.ConfigResponse]]:
    request = DescribeConfigsRequest([RequestedResource(RESOURCE_TOPIC, name) for name in names])
    response = await cluster.ask(describe_configs.API, request)
    return {result.resource_name: result.configs for result in response.results}


async def _reassignments(
    cluster: ClusterClient, partitions: Mapping[str, Sequence[Any]]
) -> dict[tuple[str, int], Any]:
    api = list_partition_reassignments.API
    if not await cluster.serves(api):
        return {}
    requested = [
        RequestedReassignments(name, [partition.partition_index for partition in found])
        for name, found in partitions.items()
    ]
    response = await cluster.ask_controller(
        api, ListPartitionReassignmentsRequest(requested), lambda it: [it.error_code]
    )
    return {
        (topic.name, partition.partition_index): partition
        for topic in response.topics
        for partition in topic.partitions
    }
