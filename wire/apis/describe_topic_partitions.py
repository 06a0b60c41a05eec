"""DescribeTopicPartitions (key 75): topics with their partitions, a page at a time (KIP-966).

Version 0, flexible. A page holds so many partitions; its cursor says where the next one begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from uuid import UUID

from kavka.wire.api import Api
from kavka.wire.apis.metadata import OPERATIONS_NOT_REQUESTED
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

if TYPE_CHECKING:
    from kafka.protocol.admin.topics import DescribeTopicPartitionsRequest


@message
class PartitionResponse:
    """`leader_id` is -1 while there is no leader that the client could reach."""

    partition_index: int
    error_code: int = 0
    leader_id: int = -1
    leader_epoch: int = -1
    replica_nodes: Sequence[int] = ()
    isr_nodes: Sequence[int] = ()
    eligible_leader_replicas: Sequence[int] | None = None
    last_known_elr: Sequence[int] | None = None
    offline_replicas: Sequence[int] = ()


@message
class TopicResponse:
    error_code: int
    name: str | None
    topic_id: UUID | None = None
    is_internal: bool = False
    partitions: Sequence[PartitionResponse] = ()
    topic_authorized_operations: int = OPERATIONS_NOT_REQUESTED


@message
class CursorResponse:
    """Where the next page begins; the topic need not exist."""

    topic_name: str
    partition_index: int


@message
class DescribeTopicPartitionsResponse:
    topics: Sequence[TopicResponse] = ()
    next_cursor: CursorResponse | None = None
    throttle_time_ms: int = 0


def error_response(
    request: DescribeTopicPartitionsRequest, code: ErrorCode, version: int
) -> DescribeTopicPartitionsResponse:
    """`code` for every topic in the request."""
    return DescribeTopicPartitionsResponse(
        [TopicResponse(code, topic.name) for topic in request.topics]
    )


API: Final = Api(
    75,
    "DescribeTopicPartitions",
    versions=(0, 0),
    first_flexible=0,
    error_response=error_response,
)
