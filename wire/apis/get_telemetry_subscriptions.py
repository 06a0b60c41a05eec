"""GetTelemetrySubscriptions (key 71): which metrics a client is to push, and how often (KIP-714).

Version 0, flexible.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from kavka.wire.api import Api
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

if TYPE_CHECKING:
    GetTelemetrySubscriptionsRequest = Any


@message
class GetTelemetrySubscriptionsResponse:
    """`push_interval_ms` is a time in ms, `telemetry_max_bytes` counts compressed bytes."""

    error_code: int = 0
    client_instance_id: UUID | None = None
    subscription_id: int = 0
    accepted_compression_types: Sequence[int] = ()
    push_interval_ms: int = 0
    telemetry_max_bytes: int = 0
    delta_temporality: bool = False
    requested_metrics: Sequence[str] = ()
    throttle_time_ms: int = 0


def error_response(
    request: GetTelemetrySubscriptionsRequest, code: ErrorCode, version: int
) -> GetTelemetrySubscriptionsResponse:
    """`code` as the top-level error code."""
    return GetTelemetrySubscriptionsResponse(code)


API: Final = Api(
    71,
    "GetTelemetrySubscriptions",
    versions=(0, 0),
    first_flexible=0,
    error_response=error_response,
)
