"""AlterPartitionReassignments (key 45): move partitions to other brokers, or cancel that.

Versions 0 and 1, both flexible (KIP-455); 1 may forbid to change the number of replicas
(KIP-860).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kavka.wire.api import Api
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

if TYPE_CHECKING:
    from kafka.protocol.admin.cluster import AlterPartitionReassignmentsRequest


@message
class PartitionResponse:
    partition_index: int
    error_code: int = 0
    error_message: str | None = None


@message
class TopicResponse:
    name: str
    partitions: Sequence[PartitionResponse]


@message
class AlterPartitionReassignmentsResponse:
    responses: Sequence[TopicResponse]
    error_code: int = 0
    error_message: str | None = None
    allow_replication_factor_change: bool = True
    throttle_time_ms: int = 0


def error_response(
    request: AlterPartitionReassignmentsRequest, code: ErrorCode, version: int
) -> AlterPartitionReassignmentsResponse:
    """`code` as the top-level error code and for every partition in the request."""
    return AlterPartitionReassignmentsResponse(
        [
            TopicResponse(
                topic.name,
                [
                    PartitionResponse(partition.partition_index, code)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
        code,
    )


API: Final = Api(
    45,
    "AlterPartitionReassignments",
    versions=(0, 1),
    first_flexible=0,
    error_response=error_response,
)
