"""AlterConfigs: replaces all configs of topics, brokers, groups and client metrics subscriptions.

Promises: configs that are not named return to their defaults; `validate_only`; a change is in force
on this broker when the response is sent. Loggers are not supported, as in Apache Kafka.
"""

from __future__ import annotations

from typing import Any

from kavka.server.broker import Broker
from kavka.server.cluster.config_changes import Alteration, AlterOp, ConfigChange
from kavka.server.handlers.common.alter_configs import alter
from kavka.server.request.context import RequestContext
from kavka.wire.apis.alter_configs import AlterConfigsResponse, ResourceResponse


async def handle(broker: Broker, context: RequestContext, request: Any) -> AlterConfigsResponse:
    alterations = [_alteration(resource) for resource in request.resources]
    outcomes = await alter(broker, context, alterations, validate_only=request.validate_only)
    return AlterConfigsResponse(
        [
            ResourceResponse(outcome.code, outcome.message, alteration.kind, alteration.name)
            for alteration, outcome in zip(alterations, outcomes, strict=True)
        ]
    )


def _alteration(resource: Any) -> Alteration:
    return Alteration(
        resource.resource_type,
        resource.resource_name,
        [ConfigChange(config.name, AlterOp.SET, config.value) for config in resource.configs],
        replaces=True,
    )
