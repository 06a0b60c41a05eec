"""Metadata (key 3): the cluster's brokers, and topics with their partitions and leaders.

Versions 0 to 13; 1 adds racks, the controller and internal topics (and null for "all topics"), 2
the cluster id (KIP-78), 4 lets the client forbid auto-creation (KAFKA-5291), 5 adds offline
replicas (KIP-112), 7 leader epochs (KIP-320), 8 authorized operations (KIP-430), 9 is flexible,
10 adds topic ids (KIP-516), 11 leaves the cluster's authorized operations to DescribeCluster
(KIP-700), 12 asks by topic id (KIP-516), 13 has an error code at the top (KIP-1102).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from uuid import UUID

from kavka.wire.api import Api
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

if TYPE_CHECKING:
    from kafka.protocol.metadata.metadata import MetadataRequest

OPERATIONS_NOT_REQUESTED: Final = -(2**31)
"""What a bit field of authorized operations holds when the client did not ask for it."""


@message
class BrokerResponse:
    node_id: int
    host: str
    port: int
    rack: str | None = None


@message
class PartitionResponse:
    """`leader_id` is -1 while there is no leader."""

    partition_index: int
    error_code: int = 0
    leader_id: int = -1
    leader_epoch: int = -1
    replica_nodes: Sequence[int] = ()
    isr_nodes: Sequence[int] = ()
    offline_replicas: Sequence[int] = ()


@message
class TopicResponse:
    """`name` is null only for an unknown id, from version 12 on."""

    name: str | None
    topic_id: UUID | None = None
    error_code: int = 0
    is_internal: bool = False
    partitions: Sequence[PartitionResponse] = ()
    topic_authorized_operations: int = OPERATIONS_NOT_REQUESTED


@message
class MetadataResponse:
    brokers: Sequence[BrokerResponse] = ()
    cluster_id: str | None = None
    controller_id: int = -1
    topics: Sequence[TopicResponse] = ()
    throttle_time_ms: int = 0
    cluster_authorized_operations: int = OPERATIONS_NOT_REQUESTED
    error_code: int = 0


def error_response(request: MetadataRequest, code: ErrorCode, version: int) -> MetadataResponse:
    """`code` for every topic in the request, and as the top-level error code from version 13 on."""
    topics = [
        TopicResponse(topic.name or "", topic.topic_id, code) for topic in request.topics or ()
    ]
    return MetadataResponse(topics=topics, error_code=code)


API: Final = Api(
    3,
    "Metadata",
    versions=(0, 13),
    first_flexible=9,
    error_response=error_response,
)
