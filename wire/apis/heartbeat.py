"""Heartbeat (key 12): keeps a member of a classic group alive, and signals a rebalance.

Versions 0 to 4; 3 adds static members (KIP-345), 4 is flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kavka.wire.api import Api
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

if TYPE_CHECKING:
    from kafka.protocol.consumer.group import HeartbeatRequest


@message
class HeartbeatResponse:
    error_code: int = 0
    throttle_time_ms: int = 0


def error_response(request: HeartbeatRequest, code: ErrorCode, version: int) -> HeartbeatResponse:
    """`code` as the top-level error code."""
    return HeartbeatResponse(code)


API: Final = Api(
    12,
    "Heartbeat",
    versions=(0, 4),
    first_flexible=4,
    error_response=error_response,
)
