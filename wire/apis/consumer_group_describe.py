"""ConsumerGroupDescribe (key 69): consumer groups with their members and assignments (KIP-848).

Versions 0 and 1, flexible; 1 adds the protocol that a member uses (KIP-1099).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from kavka.wire.api import Api
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

if TYPE_CHECKING:
    ConsumerGroupDescribeRequest = Any

OPERATIONS_NOT_REQUESTED: Final = -(2**31)

CLASSIC_MEMBER: Final = 0
CONSUMER_MEMBER: Final = 1


@message
class TopicPartitions:
    topic_id: UUID
    topic_name: str
    partitions: Sequence[int]


@message
class Assignment:
    topic_partitions: Sequence[TopicPartitions] = ()


@message
class Member:
    """`assignment` includes partitions that it must revoke."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_topic_names: Sequence[str]
    subscribed_topic_regex: str | None
    assignment: Assignment
    target_assignment: Assignment
    member_type: int


@message
class DescribedGroup:
    group_id: str
    error_code: int = 0
    error_message: str | None = None
    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor_name: str = ""
    members: Sequence[Member] = ()
    authorized_operations: int = OPERATIONS_NOT_REQUESTED


@message
class ConsumerGroupDescribeResponse:
    groups: Sequence[DescribedGroup] = ()
    throttle_time_ms: int = 0


def error_response(
    request: ConsumerGroupDescribeRequest, code: ErrorCode, version: int
) -> ConsumerGroupDescribeResponse:
    """`code` for every group in the request."""
    return ConsumerGroupDescribeResponse(
        [DescribedGroup(group_id, code) for group_id in request.group_ids]
    )


API: Final = Api(
    69,
    "ConsumerGroupDescribe",
    versions=(0, 1),
    first_flexible=0,
    error_response=error_response,
)
