"""Quotas of users, clients and IP addresses: what DescribeClientQuotas and AlterClientQuotas say of
them (KIP-546)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final

from kavka.tools.admin.cluster_client import ClusterClient, check_answer
from kavka.tools.admin.config_changes import Changes
from kavka.tools.admin.config_entities import CLIENTS, DEFAULT, IPS, USERS, Entities
from kavka.tools.admin.config_reports import Config, Report
from kavka.tools.admin.errors import Failed
from kavka.tools.admin.java_order import entity_order, hash_order
from kavka.tools.admin.unserved_apis import (
    ALTER_CLIENT_QUOTAS,
    DESCRIBE_CLIENT_QUOTAS,
    must_serve,
)
from kavka.tools.java_numbers import double_text, parse_double
from kavka.wire.message import message

OF_USERS_AND_CLIENTS: Final = frozenset(
    {
        "producer_byte_rate",
        "consumer_byte_rate",
        "request_percentage",
        "controller_mutation_rate",
    }
)
OF_IPS: Final = frozenset({"connection_creation_rate"})

KINDS: Final = {USERS: "user", CLIENTS: "client-id", IPS: "ip"}
"""The protocol's types of entities."""

SHOWN_KINDS: Final = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}
"""Their names in Apache Kafka's output, in its order."""

TYPES: Final = {kind: name for name, kind in KINDS.items()}

EXACT: Final = 0
DEFAULT_ONLY: Final = 1
ANY: Final = 2

Entity = tuple[tuple[str, str | None], ...]
"""Pairs of kind and name; None is the default's."""


@message
class Component:
    entity_type: str
    match_type: int
    match: str | None


@message
class DescribeClientQuotasRequest:
    components: Sequence[Component]
    strict: bool = True


@message
class NamedEntity:
    entity_type: str
    entity_name: str | None


@message
class Operation:
    key: str
    value: float
    remove: bool = False


@message
class ChangedEntity:
    entity: Sequence[NamedEntity]
    ops: Sequence[Operation]


@message
class AlterClientQuotasRequest:
    entries: Sequence[ChangedEntity]
    validate_only: bool = False


async def describe(cluster: ClusterClient, found: Entities, report: Report) -> None:
    """Report on each entity of these types that has quotas. Failed."""
    for entity, quotas in (await _quotas(cluster, found)).items():
        names = dict(entity)
        shown = [
            f"the default {text}" if names[kind] is None else f"{text} '{names[kind]}'"
            for kind, text in SHOWN_KINDS.items()
            if kind in names
        ]
        report.one_line(
            [(TYPES[kind], names[kind] or DEFAULT) for kind in SHOWN_KINDS if kind in names],
            f"Quota configs for {', '.join(shown)}",
            [Config(key, double_text(value)) for key, value in quotas.items()],
        )


async def alter(cluster: ClusterClient, found: Entities, config_changes: Changes) -> None:
    """Set and remove quotas of one entity, all or none. Failed."""
    before = await _quotas(cluster, found)
    kept = next(iter(before.values())) if before else {}
    unknown = [name for name in config_changes.deleted if name not in kept]
    if unknown:
        raise Failed(f"Invalid config(s): {','.join(unknown)}")
    named = [
        NamedEntity(KINDS[kind], None if name == DEFAULT else name)
        for kind, name in zip(found.types, found.names, strict=True)
    ]
    operations = [
        Operation(key, _number(key, value)) for key, value in config_changes.added.items()
    ]
    operations += [Operation(key, 0.0, remove=True) for key in config_changes.deleted]
    request = AlterClientQuotasRequest([ChangedEntity(named, operations)])
    response = await cluster.ask(ALTER_CLIENT_QUOTAS, request)
    for entry in response.entries:
        check_answer(entry.error_code, entry.error_message)


def _number(key: str, text: str) -> float:
    value = parse_double(text)
    if value is None:
        raise Failed(f"Cannot parse quota configuration value for {key}: {text}")
    return value


async def _quotas(cluster: ClusterClient, found: Entities) -> dict[Entity, Mapping[str, float]]:
    """Those of entities that have just these types, in the order in which Apache Kafka prints
    them."""
    await must_serve(cluster, DESCRIBE_CLIENT_QUOTAS, "client quotas")
    components = [_component(kind, name) for kind, name in zip_longest(found.types, found.names)]
    response = await cluster.ask(DESCRIBE_CLIENT_QUOTAS, DescribeClientQuotasRequest(components))
    check_answer(response.error_code, response.error_message)
    by_entity: dict[Entity, Any] = {
        tuple(
            (component.entity_type, component.entity_name) for component in entry.entity
        ): entry.values
        for entry in response.entries or ()
    }
    return {entity: _values(by_entity[entity]) for entity in entity_order(list(by_entity))}


def _component(kind: str, name: str | None) -> Component:
    if name is None:
        return Component(KINDS[kind], ANY, None)
    if name == DEFAULT:
        return Component(KINDS[kind], DEFAULT_ONLY, None)
    return Component(KINDS[kind], EXACT, name)


def _values(found: Sequence[Any]) -> dict[str, float]:
    by_key = {quota.key: quota.value for quota in found}
    return {key: by_key[key] for key in hash_order(by_key, len(by_key))}
