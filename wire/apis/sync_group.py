"""SyncGroup (key 14): a classic group's leader sends the assignments, members get theirs.

Versions 0 to 5; 3 adds static members (KIP-345), 4 is flexible, 5 names the protocol, which must
be the group's (KIP-559).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kavka.wire.api import Api
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

if TYPE_CHECKING:
    from kafka.protocol.consumer.group import SyncGroupRequest

PROTOCOL_SINCE: Final = 5
"""From this version on a request must name the protocol and its type."""


@message
class SyncGroupResponse:
    error_code: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""
    throttle_time_ms: int = 0


def error_response(request: SyncGroupRequest, code: ErrorCode, version: int) -> SyncGroupResponse:
    """`code` as the top-level error code, and an empty assignment."""
    return SyncGroupResponse(code)


API: Final = Api(
    14,
    "SyncGroup",
    versions=(0, 5),
    first_flexible=4,
    error_response=error_response,
)
