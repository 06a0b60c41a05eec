"""DescribeConfigs: settings of topics and of this broker, out of the one table, and its loggers.

Promises: values, sources, synonyms (KIP-226), types and documentation (KIP-569) as Apache Kafka
gives them, with what was set while the broker runs; the levels of loggers (KIP-412); only the keys
that were asked for. A kind that is not known spoils the whole request. Groups and client metrics
subscriptions have no configs of their own so far; any of them is described by the defaults.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from kavka.server import slices
from kavka.server.auth.authorizer import Operation
from kavka.server.broker import Broker
from kavka.server.config import describe
from kavka.server.config.other_rows import CLIENT_METRICS, GROUP
from kavka.server.context import RequestContext
from kavka.server.controller.new_topics import check_topic_name
from kavka.server.dynamic import loggers
from kavka.server.dynamic.access import authorize, node_id
from kavka.server.dynamic.changes import Kind
from kavka.server.slices import Slices
from kavka.wire.apis.describe_configs import (
    ConfigResponse,
    ConfigSynonym,
    DescribeConfigsResponse,
    ResourceResponse,
)
from kavka.wire.errors import ApiError, ErrorCode

Keys: TypeAlias = Sequence[str] | None

_KINDS: Final = frozenset(Kind)

_RESOURCES_PER_TURN: Final = 8
"""Resources described before others get their turn; at up to 0.5 ms each."""


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    if any(asked.resource_type not in _KINDS for asked in request.resources):
        raise ApiError(ErrorCode.INVALID_REQUEST)
    return slices.run(broker.tasks, _describe(broker, context, request))


def _describe(
    broker: Broker, context: RequestContext, request: Any
) -> Slices[DescribeConfigsResponse]:
    results: list[ResourceResponse] = []
    for asked in request.resources:
        if results and len(results) % _RESOURCES_PER_TURN == 0:
            yield
        results.append(_resource(broker, context, request, asked))
    return DescribeConfigsResponse(results)


def _resource(
    broker: Broker, context: RequestContext, request: Any, asked: Any
) -> ResourceResponse:
    kind, name = Kind(asked.resource_type), asked.resource_name
    try:
        authorize(broker, context, Operation.DESCRIBE_CONFIGS, kind, name)
        if kind is Kind.BROKER_LOGGER:
            configs = _loggers(broker, name, asked.configuration_keys)
        else:
            synonyms = context.version >= 1 and request.include_synonyms
            documentation = context.version >= 3 and request.include_documentation
            entries = _FIND[kind](broker, name, asked.configuration_keys)
            configs = [_config(entry, synonyms, documentation) for entry in entries]
    except ApiError as refusal:
        return ResourceResponse(kind, name, refusal.code, refusal.message or "")
    return ResourceResponse(kind, name, ErrorCode.NONE, "", configs)


def _topic(broker: Broker, name: str, keys: Keys) -> list[describe.Entry]:
    check_topic_name(name)
    if name not in broker.metadata.image.topics:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return describe.topic_entries(broker.settings, broker.topic_configs.get(name), names=keys)


def _broker(broker: Broker, name: str, keys: Keys) -> list[describe.Entry]:
    if not name:
        return describe.broker_default_entries(broker.settings, names=keys)
    _check_broker(broker, name, " or empty string,")
    return describe.broker_entries(broker.settings, names=keys)


def _loggers(broker: Broker, name: str, keys: Keys) -> list[ConfigResponse]:
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    _check_broker(broker, name, "")
    return [
        ConfigResponse(one, level, config_source=describe.Source.LOGGER, documentation="")
        for one, level in loggers.levels().items()
        if not keys or one in keys
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


def _group(broker: Broker, name: str, keys: Keys) -> list[describe.Entry]:
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
    return describe.default_entries(GROUP, broker.settings, names=keys)


def _subscription(broker: Broker, name: str, keys: Keys) -> list[describe.Entry]:
    if not name:
        reason = "Client metrics subscription name must not be empty"
        raise ApiError(ErrorCode.INVALID_REQUEST, reason)
    return describe.default_entries(CLIENT_METRICS, broker.settings, names=keys)


_FIND: Final = {
    Kind.TOPIC: _topic,
    Kind.BROKER: _broker,
    Kind.GROUP: _group,
    Kind.CLIENT_METRICS: _subscription,
}


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
