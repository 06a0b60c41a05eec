"""LeaveGroup (key 13): members leave a classic group, or are removed by an admin.

Versions 0 to 5; 3 takes several members, static ones by their instance id too (KIP-345), 4 is
flexible, 5 gives reasons (KIP-800).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kavka.wire.api import Api
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

if TYPE_CHECKING:
    from kafka.protocol.consumer.group import LeaveGroupRequest

BATCHED_SINCE: Final = 3
"""From this version on there are several members, each with an error code."""


@message
class LeftMember:
    """A member of the request, with its error code."""

    member_id: str
    group_instance_id: str | None
    error_code: int = 0


@message
class LeaveGroupResponse:
    error_code: int = 0
    members: Sequence[LeftMember] = ()
    throttle_time_ms: int = 0


def error_response(request: LeaveGroupRequest, code: ErrorCode, version: int) -> LeaveGroupResponse:
    """`code` as the top-level error code, and no members."""
    return LeaveGroupResponse(code)


API: Final = Api(
    13,
    "LeaveGroup",
    versions=(0, 5),
    first_flexible=4,
    error_response=error_response,
)
