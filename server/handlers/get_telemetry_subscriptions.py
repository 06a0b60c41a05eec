"""GetTelemetrySubscriptions: the metrics that a client is to push, by the subscriptions that match
it (KIP-714).

Promises: an instance id for a client without one; the union of all matching subscriptions, with the
shortest interval; a subscription id as Apache Kafka computes it; THROTTLING_QUOTA_EXCEEDED for a
request within the interval, unless the subscriptions have changed. Like PushTelemetry it is served,
and listed by ApiVersions, only if there is a receiver of the metrics: see
`kavka.server.telemetry.receiver`. No permission is needed, as in Apache Kafka.
"""

from __future__ import annotations

from typing import Any

from kavka.server.broker import Broker
from kavka.server.request.context import RequestContext
from kavka.server.telemetry.clients import COMPRESSION_TYPES
from kavka.wire.apis.get_telemetry_subscriptions import GetTelemetrySubscriptionsResponse


def handle(
    broker: Broker, context: RequestContext, request: Any
) -> GetTelemetrySubscriptionsResponse:
    assert broker.telemetry is not None, "it is served"
    instance = broker.telemetry.get_subscription(context, request.client_instance_id)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance.client_instance_id,
        subscription_id=instance.subscription_id,
        accepted_compression_types=COMPRESSION_TYPES,
        push_interval_ms=instance.interval_ms,
        telemetry_max_bytes=broker.settings.telemetry_max_bytes,
        delta_temporality=True,
        requested_metrics=instance.metrics,
    )
