"""DescribeQuorum (key 55): the metadata quorum: its leader, and each voter's log end (KIP-595).

Versions 0 to 2, all flexible; 1 adds when voters fetched (KIP-836), 2 messages, the voters'
directories and where they listen (KIP-853).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from uuid import UUID

from kavka.wire.api import Api
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

if TYPE_CHECKING:
    from kafka.protocol.admin.cluster import DescribeQuorumRequest

UNKNOWN_TIMESTAMP: Final = -1


@message
class ReplicaState:
    """`replica_directory_id` is None where the quorum knows its voters by id alone."""

    replica_id: int
    log_end_offset: int
    replica_directory_id: UUID | None = None
    last_fetch_timestamp: int = UNKNOWN_TIMESTAMP
    last_caught_up_timestamp: int = UNKNOWN_TIMESTAMP


@message
class PartitionResponse:
    partition_index: int
    error_code: int = 0
    error_message: str | None = ""
    leader_id: int = 0
    leader_epoch: int = 0
    high_watermark: int = 0
    current_voters: Sequence[ReplicaState] = ()
    observers: Sequence[ReplicaState] = ()


@message
class TopicResponse:
    topic_name: str
    partitions: Sequence[PartitionResponse] = ()


@message
class Listener:
    name: str
    host: str
    port: int


@message
class Node:
    node_id: int
    listeners: Sequence[Listener]


@message
class DescribeQuorumResponse:
    error_code: int = 0
    error_message: str | None = ""
    topics: Sequence[TopicResponse] = ()
    nodes: Sequence[Node] = ()


def error_response(
    request: DescribeQuorumRequest, code: ErrorCode, version: int
) -> DescribeQuorumResponse:
    """`code` as the top-level error code."""
    return DescribeQuorumResponse(code)


API: Final = Api(
    55,
    "DescribeQuorum",
    versions=(0, 2),
    first_flexible=0,
    error_response=error_response,
)
