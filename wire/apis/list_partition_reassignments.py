"""ListPartitionReassignments (key 46): which partitions are being moved (KIP-455).

Version 0 only, flexible. Null topics: all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kavka.wire.api import Api
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

if TYPE_CHECKING:
    from kafka.protocol.admin.cluster import ListPartitionReassignmentsRequest


@message
class PartitionResponse:
    """`replicas` are all that the partition has meanwhile, those to come and to go included."""

    partition_index: int
    replicas: Sequence[int]
    adding_replicas: Sequence[int]
    removing_replicas: Sequence[int]


@message
class TopicResponse:
    name: str
    partitions: Sequence[PartitionResponse]


@message
class ListPartitionReassignmentsResponse:
    topics: Sequence[TopicResponse]
    error_code: int = 0
    error_message: str | None = None
    throttle_time_ms: int = 0


def error_response(
    request: ListPartitionReassignmentsRequest, code: ErrorCode, version: int
) -> ListPartitionReassignmentsResponse:
    """`code` as the top-level error code."""
    return ListPartitionReassignmentsResponse([], code)


API: Final = Api(
    46,
    "ListPartitionReassignments",
    versions=(0, 0),
    first_flexible=0,
    error_response=error_response,
)
