"""DescribeConfigs: settings of topics and of this broker, out of the one table.

Promises: values, sources, synonyms (KIP-226), types and documentation (KIP-569) as Apache Kafka
gives them; only the keys that were asked for. Left out so far: broker loggers, client metrics and
groups, which are answered INVALID_REQUEST.
"""

from __future__ import annotations

import re
from typing import Any, Final

from kavka.server.auth.authorizer import CLUSTER_NAME, Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.config import describe
from kavka.server.context import RequestContext
from kavka.server.controller.new_topics import check_topic_name
from kavka.wire.apis.describe_configs import (
    ConfigResponse,
    ConfigSynonym,
    DescribeConfigsResponse,
    ResourceResponse,
)
from kavka.wire.errors import ApiError, ErrorCode

TOPIC: Final = 2
BROKER: Final = 4

_integer: Final = re.compile("[+-]?[0-9]{1,10}").fullmatch
"""As Java reads one; Python would also take spaces and underscores."""


def handle(broker: Broker, context: RequestContext, request: Any) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        [_resource(broker, context, request, asked) for asked in request.resources]
    )


def _resource(
    broker: Broker, context: RequestContext, request: Any, asked: Any
) -> ResourceResponse:
    kind, name = asked.resource_type, asked.resource_name
    try:
        if kind == TOPIC:
            entries = _topic(broker, context, name, asked.configuration_keys)
        elif kind == BROKER:
            entries = _broker(broker, context, name, asked.configuration_keys)
        else:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {kind}")
    except ApiError as refusal:
        return ResourceResponse(kind, name, refusal.code, refusal.message)
    synonyms = context.version >= 1 and request.include_synonyms
    documentation = context.version >= 3 and request.include_documentation
    return ResourceResponse(
        kind, name, 0, "", [_config(entry, synonyms, documentation) for entry in entries]
    )


def _topic(
    broker: Broker, context: RequestContext, name: str, keys: list[str] | None
) -> list[describe.Entry]:
    if not broker.authorizer.allows(context, Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, name):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    check_topic_name(name)
    if name not in broker.metadata.image.topics:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return describe.topic_entries(broker.settings, broker.topic_configs.get(name), names=keys)


def _broker(
    broker: Broker, context: RequestContext, name: str, keys: list[str] | None
) -> list[describe.Entry]:
    if not broker.authorizer.allows(
        context, Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME
    ):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if not name:
        return describe.broker_default_entries(broker.settings, names=keys)
    if not _integer(name):
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}"
        )
    if int(name) != broker.broker_id:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {broker.broker_id} or empty string, "
            f"but received {name}",
        )
    return describe.broker_entries(broker.settings, names=keys)


def _config(entry: describe.Entry, synonyms: bool, documentation: bool) -> ConfigResponse:
    return ConfigResponse(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_default=entry.source == describe.Source.DEFAULT,
        is_sensitive=entry.is_sensitive,
        synonyms=[ConfigSynonym(s.name, s.value, s.source) for s in entry.synonyms]
        if synonyms
        else (),
        config_type=entry.type,
        documentation=entry.documentation if documentation else None,
    )
