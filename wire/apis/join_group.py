"""JoinGroup (key 11): join a classic group, and its next generation.

Versions 0 to 9; 1 adds the rebalance timeout (KIP-62), 4 makes a new member rejoin with its id
(KIP-394), 5 adds static members (KIP-345), 6 is flexible, 7 returns the protocol type (KIP-559),
8 gives a reason (KIP-800), 9 lets a static leader keep the assignment (KIP-814).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kavka.wire.api import Api
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

if TYPE_CHECKING:
    from kafka.protocol.consumer.group import JoinGroupRequest

NULL_PROTOCOL_SINCE: Final = 7
"""From this version on a missing protocol is null, before it is ""."""


@message
class JoinedMember:
    """A member in the leader's response, with its `metadata` for the selected protocol."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


@message
class JoinGroupResponse:
    """`members` is set only for the leader. `protocol_name` may be None here: see `for_version`."""

    member_id: str
    error_code: int = 0
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: Sequence[JoinedMember] = ()
    throttle_time_ms: int = 0

    def for_version(self, version: int) -> JoinGroupResponse:
        """Itself, fit for `version`."""
        self.protocol_name = self.protocol_name or ("" if version < NULL_PROTOCOL_SINCE else None)
        return self


def error_response(request: JoinGroupRequest, code: ErrorCode, version: int) -> JoinGroupResponse:
    """`code` as the top-level error code, and no member id."""
    return JoinGroupResponse("", code).for_version(version)


API: Final = Api(
    11,
    "JoinGroup",
    versions=(0, 9),
    first_flexible=6,
    error_response=error_response,
)
