"""Configs of topics, brokers, their loggers, client metrics and groups: what DescribeConfigs and
IncrementalAlterConfigs say of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from kavka.tools.admin.cluster_client import ClusterClient, MetadataRequest, check_answer
from kavka.tools.admin.config_changes import Changes
from kavka.tools.admin.config_entities import (
    BROKER_LOGGERS,
    BROKERS,
    CLIENT_METRICS,
    DEFAULT,
    GROUPS,
    TOPICS,
    Entities,
    singular,
)
from kavka.tools.admin.config_reports import Config, Report, Synonym
from kavka.tools.admin.errors import Failed
from kavka.tools.admin.java_order import hash_order, number_order, set_order
from kavka.tools.admin.requests import (
    ChangedConfig,
    ChangedResource,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    ListGroupsRequest,
    RequestedResource,
)
from kavka.tools.admin.topic_names import check_topic_name
from kavka.wire.api import Api
from kavka.wire.apis import (
    describe_configs,
    incremental_alter_configs,
    list_config_resources,
    list_groups,
    metadata,
)
from kavka.wire.message import message


class Resource(NamedTuple):
    """A kind of resource in the protocol."""

    number: int
    source: int | None
    """Of the configs that it has of its own; all are its own if None."""


RESOURCES: Final = {
    TOPICS: Resource(2, 1),
    BROKERS: Resource(4, 2),
    BROKER_LOGGERS: Resource(8, None),
    CLIENT_METRICS: Resource(16, 7),
    GROUPS: Resource(32, 8),
}
SOURCE_OF_ALL_BROKERS: Final = 3
SOURCES: Final = (
    "UNKNOWN",
    "DYNAMIC_TOPIC_CONFIG",
    "DYNAMIC_BROKER_CONFIG",
    "DYNAMIC_DEFAULT_BROKER_CONFIG",
    "STATIC_BROKER_CONFIG",
    "DEFAULT_CONFIG",
    "DYNAMIC_BROKER_LOGGER_CONFIG",
    "DYNAMIC_CLIENT_METRICS_CONFIG",
    "DYNAMIC_GROUP_CONFIG",
)
"""By their numbers."""

LISTS_TYPES_SINCE: Final = 1
"""The version of ListConfigResources that lists other types than client metrics."""

SET: Final = 0
DELETE: Final = 1


@message
class ListConfigResourcesRequest:
    resource_types: Sequence[int]


async def describe(
    cluster: ClusterClient, found: Entities, report: Report, *, with_all: bool
) -> None:
    """Report on one entity, or on all of its type. `with_all`: what they do not have of their own
    as well. Failed."""
    kind = found.kind
    if found.name is not None and not await _is_there(cluster, kind, found.name):
        report.missing(
            f"The {singular(kind)} '{found.name}' doesn't exist and doesn't have dynamic config."
        )
        return
    names = await _names(cluster, kind) if found.name is None else [found.name]
    which = "All" if with_all else "Dynamic"
    for name in names:
        if name == DEFAULT:
            report.title(f"Default configs for {kind} in the cluster are:")
        else:
            report.title(f"{which} configs for {singular(kind)} {name} are:")
        configs = await _configs(cluster, kind, name)
        own = _own_source(kind, name)
        shown = [
            config for config in configs if with_all or own is None or config.config_source == own
        ]
        report.resource([(kind, name)], [_config(config) for config in shown])


async def alter(cluster: ClusterClient, found: Entities, config_changes: Changes) -> None:
    """Make the changes, all or none. Failed."""
    kind, name = found.kind, found.name or DEFAULT
    if kind == BROKER_LOGGERS:
        known = {config.name for config in await _configs(cluster, kind, name)}
        unknown = [
            logger
            for logger in (*config_changes.deleted, *config_changes.added)
            if logger not in known
        ]
        if unknown:
            raise Failed(f"Invalid broker logger(s): {','.join(unknown)}")
    changed = [ChangedConfig(key, SET, value) for key, value in config_changes.added.items()]
    changed += [ChangedConfig(key, DELETE, "") for key in config_changes.deleted]
    resource = ChangedResource(RESOURCES[kind].number, name, changed)
    api = incremental_alter_configs.API
    request = IncrementalAlterConfigsRequest([resource])
    response = await _ask(cluster, kind, name, api, request)
    for result in response.responses:
        check_answer(result.error_code, result.error_message)


async def _is_there(cluster: ClusterClient, kind: str, name: str) -> bool:
    if kind == TOPICS:
        check_topic_name(name)
        return name in await _topics(cluster)
    if kind in (BROKERS, BROKER_LOGGERS):
        return name == DEFAULT or name in await _brokers(cluster)
    if kind == CLIENT_METRICS:
        return name in await _listed(cluster, kind)
    if name in await _groups(cluster):
        return True
    return not await _lists_groups(cluster) or name in await _listed(cluster, kind)


async def _names(cluster: ClusterClient, kind: str) -> list[str]:
    """All of a type that have configs, in the order in which Apache Kafka prints them."""
    if kind == TOPICS:
        return await _topics(cluster)
    if kind in (BROKERS, BROKER_LOGGERS):
        return [*await _brokers(cluster), DEFAULT]
    if kind == CLIENT_METRICS:
        return await _listed(cluster, kind)
    listed = await _listed(cluster, kind) if await _lists_groups(cluster) else []
    return set_order([*await _groups(cluster), *listed])


async def _topics(cluster: ClusterClient) -> list[str]:
    response = await cluster.ask(metadata.API, MetadataRequest(None))
    return hash_order(topic.name for topic in response.topics)


async def _brokers(cluster: ClusterClient) -> list[str]:
    return [
        str(broker_id) for broker_id in number_order(broker.node_id for broker in cluster.brokers)
    ]


async def _groups(cluster: ClusterClient) -> list[str]:
    found: list[str] = []
    for broker in cluster.brokers:
        response = await cluster.ask_broker(broker.node_id, list_groups.API, ListGroupsRequest())
        check_answer(response.error_code)
        found += (group.group_id for group in response.groups)
    return hash_order(found)


async def _lists_groups(cluster: ClusterClient) -> bool:
    """Whether the brokers list groups that have configs but are not there yet (KIP-1142)."""
    return await cluster.serves(list_config_resources.API, since=LISTS_TYPES_SINCE)


async def _listed(cluster: ClusterClient, kind: str) -> list[str]:
    """The names of the resources of a type that have configs."""
    number = RESOURCES[kind].number
    request = ListConfigResourcesRequest([number])
    response = await cluster.ask(list_config_resources.API, request)
    check_answer(response.error_code)
    found = response.config_resources
    return [resource.resource_name for resource in found if resource.resource_type == number]


async def _configs(
    cluster: ClusterClient, kind: str, name: str
) -> list[describe_configs.ConfigResponse]:
    """By name."""
    request = DescribeConfigsRequest(
        [RequestedResource(RESOURCES[kind].number, name)], include_synonyms=True
    )
    response = await _ask(cluster, kind, name, describe_configs.API, request)
    (result,) = response.results
    check_answer(result.error_code, result.error_message)
    return sorted(result.configs, key=lambda config: config.name)


async def _ask(cluster: ClusterClient, kind: str, name: str, api: Api, request: Any) -> Any:
    """A broker answers for itself; for all else any does."""
    if kind in (BROKERS, BROKER_LOGGERS) and name != DEFAULT:
        return await cluster.ask_broker(int(name), api, request)
    return await cluster.ask(api, request)


def _own_source(kind: str, name: str) -> int | None:
    if kind == BROKERS and name == DEFAULT:
        return SOURCE_OF_ALL_BROKERS
    return RESOURCES[kind].source


def _config(found: describe_configs.ConfigResponse) -> Config:
    synonyms = [
        Synonym(_source(synonym.source), synonym.name, synonym.value) for synonym in found.synonyms
    ]
    source = _source(found.config_source)
    return Config(found.name, found.value, source, found.is_sensitive, synonyms)


def _source(number: int) -> str:
    return SOURCES[number] if 0 <= number < len(SOURCES) else SOURCES[0]
