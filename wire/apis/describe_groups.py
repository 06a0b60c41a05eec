"""DescribeGroups (key 15): state and members of groups with the classic protocol.

Versions 0 to 6; 3 adds authorized operations (KIP-430), 4 static members' ids
(KIP-345), 5 is flexible, 6 says GROUP_ID_NOT_FOUND where older ones show a dead group (KIP-1043).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kavka.wire.api import Api
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

if TYPE_CHECKING:
    from kafka.protocol.admin.groups import DescribeGroupsRequest

NOT_FOUND_VERSION: Final = 6
NOT_ASKED: Final = -(2**31)
DEAD: Final = "Dead"


@message
class MemberResponse:
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    member_metadata: bytes
    member_assignment: bytes


@message
class GroupResponse:
    """`authorized_operations`: a bit for each operation, or `NOT_ASKED`."""

    group_id: str
    error_code: int = 0
    error_message: str | None = None
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: Sequence[MemberResponse] = ()
    authorized_operations: int = NOT_ASKED


@message
class DescribeGroupsResponse:
    groups: Sequence[GroupResponse] = ()
    throttle_time_ms: int = 0


def error_response(
    request: DescribeGroupsRequest, code: ErrorCode, version: int
) -> DescribeGroupsResponse:
    """`code` for every group."""
    return DescribeGroupsResponse([GroupResponse(group_id, code) for group_id in request.groups])


API: Final = Api(
    15,
    "DescribeGroups",
    versions=(0, 6),
    first_flexible=5,
    error_response=error_response,
)
