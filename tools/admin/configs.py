"""`kavka configs`: as Apache Kafka's kafka-configs, option by option."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kavka.tools.admin import client_quotas, config_entities, resource_configs, scram_credentials
from kavka.tools.admin.client_quotas import OF_IPS, OF_USERS_AND_CLIENTS
from kavka.tools.admin.cluster_client import CONTROLLER, ClusterClient
from kavka.tools.admin.command import Tool
from kavka.tools.admin.config_changes import Changes, changes
from kavka.tools.admin.config_entities import (
    CLIENTS,
    DEFAULT,
    IPS,
    USERS,
    Entities,
    entities,
    singular,
)
from kavka.tools.admin.config_reports import Report
from kavka.tools.admin.errors import Misused
from kavka.tools.admin.options import Given, Option
from kavka.tools.admin.scram_credentials import MECHANISMS

OPTIONS: Final = (
    Option("describe", "Print the configs of an entity, or of all of a type."),
    Option("alter", "Change configs of an entity.", text_only=True),
    Option(
        "all",
        "Describe what comes from files and defaults as well, not only what the entity has of its "
        "own.",
    ),
    Option(
        "entity-type",
        f"The type: {', '.join(config_entities.TYPES)}. Users and clients go together.",
        "TYPE",
    ),
    Option("entity-name", "The name of the entity of that type.", "NAME"),
    Option(
        "entity-default",
        "In place of a name: what is in force for all clients, users, brokers or IP addresses "
        "without configs of their own.",
    ),
    Option("topic", "The topic with this name.", "TOPIC"),
    Option("client", "The client with this id.", "ID"),
    Option("client-defaults", "All clients without quotas of their own."),
    Option("user", "The user with this principal's name.", "NAME"),
    Option("user-defaults", "All users without quotas of their own."),
    Option("broker", "The broker with this id.", "ID"),
    Option("broker-defaults", "All brokers without configs of their own."),
    Option("broker-logger", "The loggers of the broker with this id.", "ID"),
    Option("ip", "The clients at this address.", "IP"),
    Option("ip-defaults", "All addresses without quotas of their own."),
    Option("client-metrics", "The subscription to clients' metrics with this name.", "NAME"),
    Option("group", "The group with this id.", "ID"),
    Option(
        "add-config",
        "Configs to set. Values that have commas are put into square brackets: "
        f"k1=v1,k2=[v1,v2]. Users and clients have {', '.join(sorted(OF_USERS_AND_CLIENTS))}; "
        f"addresses {', '.join(OF_IPS)}; users also {' and '.join(MECHANISMS)}, each with "
        "[iterations=8192,password=PASSWORD].",
        "NAME=VALUE,..",
    ),
    Option("add-config-file", "A properties file with configs to set.", "FILE"),
    Option("delete-config", "Names of configs to remove.", "NAME,.."),
    Option(CONTROLLER, "Controllers to connect to first, in place of brokers.", "HOST:PORT,.."),
)


def check(given: Given) -> None:
    """Refuse what does not go together, and what an entity can't have."""
    config_entities.check(given)
    if given.has("alter"):
        _check_changes(entities(given), changes(given))


async def run(cluster: ClusterClient, given: Given) -> int:
    """Describe or change."""
    found = entities(given)
    if given.has("alter"):
        await _alter(cluster, found, changes(given))
        return 0
    report = Report(given.text("output"))
    if found.kind in (USERS, CLIENTS, IPS):
        await client_quotas.describe(cluster, found, report)
        if found.types == [USERS] and DEFAULT not in found.names:
            await scram_credentials.describe(cluster, found, report)
    else:
        with_all = given.has("all")
        await resource_configs.describe(cluster, found, report, with_all=with_all)
    report.end()
    return 0


TOOL: Final = Tool(
    "configs",
    "Describe or change configs of topics, brokers, users and others.",
    OPTIONS,
    check,
    run,
)


async def _alter(cluster: ClusterClient, found: Entities, config_changes: Changes) -> None:
    name = found.name or DEFAULT
    if found.kind not in (USERS, CLIENTS, IPS):
        await resource_configs.alter(cluster, found, config_changes)
    elif not _names(config_changes):
        pass
    elif found.types == [USERS] and OF_USERS_AND_CLIENTS.isdisjoint(_names(config_changes)):
        await scram_credentials.alter(cluster, name, config_changes, cluster.random)
    else:
        await client_quotas.alter(cluster, found, config_changes)
    if name == DEFAULT:
        print(f"Completed updating default config for {found.kind} in the cluster.")
    else:
        print(f"Completed updating config for {singular(found.kind)} {name}.")


def _names(config_changes: Changes) -> list[str]:
    return [*config_changes.added, *config_changes.deleted]


def _check_changes(found: Entities, config_changes: Changes) -> None:
    """Refuse what users, clients and addresses can't have."""
    if len(found.types) > 1 and not _names(config_changes):
        raise Misused("There are no configs to add or to delete")
    if found.kind == IPS:
        _refuse_others(
            _names(config_changes), OF_IPS, f"connection quota configs can be added for '{IPS}'"
        )
    elif CLIENTS in found.types:
        for some, verb in ((config_changes.added, "added"), (config_changes.deleted, "deleted")):
            allowed = f"quota configs can be {verb} for '{CLIENTS}'"
            _refuse_others(some, OF_USERS_AND_CLIENTS, allowed)
    elif found.kind == USERS:
        for some, verb in ((config_changes.added, "added"), (config_changes.deleted, "deleted")):
            allowed = f"quota and SCRAM credential configs can be {verb} for '{USERS}'"
            _refuse_others(some, OF_USERS_AND_CLIENTS | MECHANISMS.keys(), allowed)
        _check_credentials(found, set(_names(config_changes)))


def _refuse_others(names: Iterable[str], allowed: Iterable[str], text: str) -> None:
    unknown = [name for name in names if name not in allowed]
    if unknown:
        raise Misused(
            f"Only {text} using --bootstrap-server. Unexpected config names: {', '.join(unknown)}"
        )


def _check_credentials(found: Entities, names: set[str]) -> None:
    if names.isdisjoint(MECHANISMS):
        return
    if DEFAULT in found.names:
        raise Misused(
            "The use of --entity-default or --user-defaults is not allowed with User SCRAM "
            "Credentials using --bootstrap-server"
        )
    if not names.isdisjoint(OF_USERS_AND_CLIENTS):
        raise Misused(
            "Cannot alter both quota and SCRAM credential configs simultaneously for "
            f"'{USERS}' using --bootstrap-server"
        )
