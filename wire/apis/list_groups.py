"""ListGroups (key 16): the groups that this broker coordinates.

Versions 0 to 5; 3 is flexible, 4 returns and filters states (KIP-518), 5 types (KIP-848).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kavka.wire.api import Api
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

if TYPE_CHECKING:
    from kafka.protocol.admin.groups import ListGroupsRequest


@message
class ListedGroup:
    group_id: str
    protocol_type: str
    group_state: str
    group_type: str


@message
class ListGroupsResponse:
    groups: Sequence[ListedGroup] = ()
    error_code: int = 0
    throttle_time_ms: int = 0


def error_response(request: ListGroupsRequest, code: ErrorCode, version: int) -> ListGroupsResponse:
    """`code` for the whole request."""
    return ListGroupsResponse(error_code=code)


API: Final = Api(
    16,
    "ListGroups",
    versions=(0, 5),
    first_flexible=3,
    error_response=error_response,
)
