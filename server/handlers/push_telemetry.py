"""PushTelemetry: receives a client's metrics, which `/metrics` then exports (KIP-714).

Promises: Apache Kafka 4.3's checks in its order: INVALID_REQUEST for a reserved instance id and
after a client's terminating push, THROTTLING_QUOTA_EXCEEDED within the interval (except for the
terminating push), UNKNOWN_SUBSCRIPTION_ID, UNSUPPORTED_COMPRESSION_TYPE, TELEMETRY_TOO_LARGE beyond
`telemetry.max.bytes`; INVALID_RECORD for malformed metrics. The response is sent when the metrics
have been parsed.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from kavka.server.broker import Broker
from kavka.server.request.context import RequestContext
from kavka.server.telemetry.clients import ClientInstance
from kavka.wire.apis.push_telemetry import PushTelemetryResponse
from kavka.wire.errors import ApiError


def handle(
    broker: Broker, context: RequestContext, request: Any
) -> PushTelemetryResponse | Awaitable[PushTelemetryResponse]:
    assert broker.telemetry is not None, "else the API is not served"
    instance = broker.telemetry.push(context, request, broker.settings.telemetry_max_bytes)
    if not request.metrics:
        return PushTelemetryResponse()
    # the request's bytes are a view, which does not outlive this call
    return _receive(broker, context, instance, request.compression_type, bytes(request.metrics))


async def _receive(
    broker: Broker, context: RequestContext, instance: ClientInstance, codec: int, data: bytes
) -> PushTelemetryResponse:
    assert broker.telemetry is not None
    try:
        await broker.telemetry.ingest(instance, context.client_id, codec, data)
    except ApiError as error:
        return PushTelemetryResponse(error.code)
    return PushTelemetryResponse()
