"""IncrementalAlterConfigs: changes single configs of topics, brokers, this broker's loggers, groups
and client metrics subscriptions.

Promises: set, delete, append, subtract and `validate_only` (KIP-339); a change is in force on this
broker when it is answered.
"""

from __future__ import annotations

from typing import Any

from kavka.server.broker import Broker
from kavka.server.cluster.config_changes import Alteration, ConfigChange
from kavka.server.handlers.common.alter_configs import alter
from kavka.server.request.context import RequestContext
from kavka.wire.apis.incremental_alter_configs import (
    IncrementalAlterConfigsResponse,
    ResourceResponse,
)


async def handle(
    broker: Broker, context: RequestContext, request: Any
) -> IncrementalAlterConfigsResponse:
    alterations = [_alteration(resource) for resource in request.resources]
    outcomes = await alter(broker, context, alterations, validate_only=request.validate_only)
    return IncrementalAlterConfigsResponse(
        [
            ResourceResponse(outcome.code, outcome.message, alteration.kind, alteration.name)
            for alteration, outcome in zip(alterations, outcomes, strict=True)
        ]
    )


def _alteration(resource: Any) -> Alteration:
    return Alteration(
        resource.resource_type,
        resource.resource_name,
        [
            ConfigChange(config.name, config.config_operation, config.value)
            for config in resource.configs
        ],
    )
