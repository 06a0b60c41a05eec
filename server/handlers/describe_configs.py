"""DescribeConfigs: configs of topics, this broker, groups and client metrics subscriptions, from
the config table, and the levels of this broker's loggers (KIP-412).

Promises: values, sources, synonyms (KIP-226), types and documentation (KIP-569) as in Apache Kafka,
including dynamic configs; only the requested keys. An unknown resource type fails the whole
request. A group or client metrics subscription without configs is described with the defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from kavka.server.auth.authorizer import Operation
from kavka.server.broker import Broker
from kavka.server.cluster.config_changes import ConfigResourceType
from kavka.server.config import describe
from kavka.server.controller.topic_validation import check_topic_name
from kavka.server.handlers.common.config_rights import authorize, node_id
from kavka.server.request.context import RequestContext
from kavka.server.runtime import cooperative
from kavka.wire.apis.describe_configs import (
    ConfigResponse,
    ConfigSynonym,
    DescribeConfigsResponse,
    ResourceResponse,
)
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import Steps

Keys: TypeAlias = Sequence[str] | None

_KINDS: Final = frozenset(ConfigResourceType)

_TOO_MANY: Final = "Excessively large number of configs per request."

CONFIGS_PER_STEP: Final = 60
"""Configs and resources described in one slice, at about 40 us each."""

CONFIGS_PER_REQUEST_MAX: Final = 400_000
"""After so many configs, further resources are refused: a small request can name a broker over and
over, and one config takes up to a kilobyte until the response is sent."""

_Find: TypeAlias = Callable[[Broker, str, Keys], Iterable[describe.ConfigEntry | ConfigResponse]]


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    if any(resource.resource_type not in _KINDS for resource in request.resources):
        raise ApiError(ErrorCode.INVALID_REQUEST)
    return cooperative.run(broker.tasks, _describe(broker, context, request), context)


def _describe(
    broker: Broker, context: RequestContext, request: Any
) -> Steps[DescribeConfigsResponse]:
    results: list[ResourceResponse] = []
    since_pause = total = 0
    for resource in request.resources:
        kind, name = ConfigResourceType(resource.resource_type), resource.resource_name
        result = ResourceResponse(kind, name, ErrorCode.NONE, "")
        configs: list[ConfigResponse] = []
        results.append(result)
        since_pause += 1
        try:
            authorize(broker, context, Operation.DESCRIBE_CONFIGS, kind, name)
            if total >= CONFIGS_PER_REQUEST_MAX:
                raise ApiError(ErrorCode.POLICY_VIOLATION, _TOO_MANY)
            for config in _FIND[kind](broker, name, resource.configuration_keys):
                configs.append(_as_requested(config, context, request))
                since_pause += 1
                if since_pause >= CONFIGS_PER_STEP:
                    yield None
                    since_pause = 0
            result.configs = configs
            total += len(configs)
        except ApiError as error:
            result.error_code, result.error_message = error.code, error.message or ""
        if since_pause >= CONFIGS_PER_STEP:
            yield None
            since_pause = 0
    return DescribeConfigsResponse(results)


def _as_requested(
    config: describe.ConfigEntry | ConfigResponse, context: RequestContext, request: Any
) -> ConfigResponse:
    if isinstance(config, ConfigResponse):
        return config
    synonyms = context.version >= 1 and request.include_synonyms
    documentation = context.version >= 3 and request.include_documentation
    return _config(config, synonyms, documentation)


def _topic(broker: Broker, name: str, keys: Keys) -> Iterable[describe.ConfigEntry]:
    check_topic_name(name)
    if name not in broker.metadata.image.topics:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return describe.topic_entries(broker.settings, broker.topic_configs.get(name), names=keys)


def _broker(broker: Broker, name: str, keys: Keys) -> Iterable[describe.ConfigEntry]:
    if not name:
        return describe.broker_default_entries(broker.settings, names=keys)
    _check_broker(broker, name, " or empty string,")
    return describe.broker_entries(broker.settings, names=keys)


def _loggers(broker: Broker, name: str, keys: Keys) -> Iterable[ConfigResponse]:
    requested = frozenset(keys or ())
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    _check_broker(broker, name, "")
    return [
        ConfigResponse(logger_name, level, config_source=describe.Source.LOGGER, documentation="")
        for logger_name, level in broker.logger_levels.describe().items()
        if not requested or logger_name in requested
    ]


def _check_broker(broker: Broker, name: str, also: str) -> None:
    named = node_id(name)
    if named is None:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}"
        )
    if named != broker.broker_id:
        expected = f"Unexpected broker id, expected {broker.broker_id}{also}"
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{expected} but received {name}")


def _group(broker: Broker, name: str, keys: Keys) -> Iterable[describe.ConfigEntry]:
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
    return describe.group_entries(broker.settings, broker.topic_configs.group(name), names=keys)


def _subscription(broker: Broker, name: str, keys: Keys) -> Iterable[describe.ConfigEntry]:
    if not name:
        reason = "Client metrics subscription name must not be empty"
        raise ApiError(ErrorCode.INVALID_REQUEST, reason)
    configs = broker.topic_configs.subscription(name)
    return describe.subscription_entries(broker.settings, configs, names=keys)


_FIND: Final[Mapping[ConfigResourceType, _Find]] = {
    ConfigResourceType.TOPIC: _topic,
    ConfigResourceType.BROKER: _broker,
    ConfigResourceType.BROKER_LOGGER: _loggers,
    ConfigResourceType.GROUP: _group,
    ConfigResourceType.CLIENT_METRICS: _subscription,
}


def _config(entry: describe.ConfigEntry, synonyms: bool, documentation: bool) -> ConfigResponse:
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
