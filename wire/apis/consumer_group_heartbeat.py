"""ConsumerGroupHeartbeat (key 68): a member of a consumer group joins, stays, or leaves (KIP-848).

Versions 0 and 1, flexible; with 1 members choose their ids themselves (KIP-1082) and can subscribe
to a regular expression.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from kavka.wire.api import Api
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

if TYPE_CHECKING:
    ConsumerGroupHeartbeatRequest = Any

OWN_ID_SINCE: Final = 1
"""From this version on a member must have an id when it joins."""


@message
class TopicPartitions:
    topic_id: UUID
    partitions: Sequence[int]


@message
class Assignment:
    topic_partitions: Sequence[TopicPartitions]


@message
class ConsumerGroupHeartbeatResponse:
    """`assignment` is None if it is unchanged."""

    error_code: int = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None
    throttle_time_ms: int = 0


def error_response(
    request: ConsumerGroupHeartbeatRequest, code: ErrorCode, version: int
) -> ConsumerGroupHeartbeatResponse:
    """`code` as the top-level error code."""
    return ConsumerGroupHeartbeatResponse(code)


API: Final = Api(
    68,
    "ConsumerGroupHeartbeat",
    versions=(0, 1),
    first_flexible=0,
    error_response=error_response,
)
