"""PushTelemetry (key 72): a client's metrics, in OpenTelemetry's form (KIP-714).

Version 0, flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kavka.wire.api import Api
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

if TYPE_CHECKING:
    PushTelemetryRequest = Any


@message
class PushTelemetryResponse:
    error_code: int = 0
    throttle_time_ms: int = 0


def error_response(
    request: PushTelemetryRequest, code: ErrorCode, version: int
) -> PushTelemetryResponse:
    """`code` as the top-level error code."""
    return PushTelemetryResponse(code)


API: Final = Api(
    72,
    "PushTelemetry",
    versions=(0, 0),
    first_flexible=0,
    error_response=error_response,
)
