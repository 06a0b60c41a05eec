"""Whose configs a command line of `kavka configs` is about, and which command lines make sense."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Final, NamedTuple

from kavka.tools.admin.cluster_client import CONTROLLER, SERVER
from kavka.tools.admin.errors import Misused
from kavka.tools.admin.options import Given
from kavka.tools.java_numbers import parse_int

TOPICS: Final = "topics"
CLIENTS: Final = "clients"
USERS: Final = "users"
BROKERS: Final = "brokers"
IPS: Final = "ips"
CLIENT_METRICS: Final = "client-metrics"
GROUPS: Final = "groups"
BROKER_LOGGERS: Final = "broker-loggers"

TYPES: Final = (TOPICS, CLIENTS, USERS, BROKERS, IPS, CLIENT_METRICS, GROUPS, BROKER_LOGGERS)

DEFAULT: Final = ""
"""The name of what is in force for all entities of a type that have nothing of their own."""

FLAGS: Final = {
    "topic": TOPICS,
    "client": CLIENTS,
    "user": USERS,
    "broker": BROKERS,
    "broker-logger": BROKER_LOGGERS,
    "ip": IPS,
    "client-metrics": CLIENT_METRICS,
    "group": GROUPS,
}
"""An option with a name as its value -> the type of what it names."""

DEFAULTS_FLAGS: Final = {
    "client-defaults": CLIENTS,
    "user-defaults": USERS,
    "broker-defaults": BROKERS,
    "ip-defaults": IPS,
}
HAVE_DEFAULTS: Final = frozenset(DEFAULTS_FLAGS.values())


class Entities(NamedTuple):
    """Types, and the name of each that has one: of the first, or of both."""

    types: Sequence[str]
    names: Sequence[str]

    @property
    def kind(self) -> str:
        """The type, the first one of two."""
        return self.types[0]

    @property
    def name(self) -> str | None:
        """The first one's name; None without one."""
        return self.names[0] if self.names else None


def singular(kind: str) -> str:
    """A type as Apache Kafka names one entity of it: topic, client-metric."""
    return kind[:-1]


def entities(given: Given) -> Entities:
    """Those that the options name, in Apache Kafka's order. Misused."""
    types = list(given.texts("entity-type"))
    names = [text for name, text in given.in_order if name in ("entity-name", "entity-default")]
    for option, kind in FLAGS.items():
        if (name := given.text(option)) is not None:
            types.append(kind)
            names.append(name)
    for option, kind in DEFAULTS_FLAGS.items():
        if given.has(option):
            types.append(kind)
            names.append(DEFAULT)
    return Entities(types, names)


def check(given: Given) -> None:
    """Refuse what does not go together, with Apache Kafka's words."""
    if given.has("alter") == given.has("describe"):
        raise Misused("Command must include exactly one action: --describe, --alter")
    given.excludes("describe", ("add-config", "delete-config"))
    found = entities(given)
    _check_types(given, found)
    if given.has(SERVER) and given.has(CONTROLLER):
        raise Misused(f"Only one of --{SERVER} or --{CONTROLLER} can be specified")
    _check_names(given, found)
    if given.has(CONTROLLER):
        _check_controllers(given, found)
    if given.has("describe"):
        _check_describe(given, found)
    else:
        _check_alter(given, found)


def _check_types(given: Given, found: Entities) -> None:
    types = found.types
    twice = [kind for at, kind in enumerate(types) if kind in types[:at]]
    if twice:
        raise Misused(f"Duplicate entity type(s) specified: {','.join(twice)}")
    if not given.has(SERVER) and not given.has(CONTROLLER):
        raise Misused(f"Either --{SERVER} or --{CONTROLLER} must be specified")
    for kind in types:
        if kind not in TYPES:
            raise Misused(
                f"Invalid entity type {kind}, the entity type must be one of {', '.join(TYPES)} "
                f"with a --{SERVER} or --{CONTROLLER} argument"
            )
    if not types:
        raise Misused("At least one entity type must be specified")
    if len(types) > 1 and sorted(types) != [CLIENTS, USERS]:
        raise Misused(f"Only '{USERS}' and '{CLIENTS}' entity types may be specified together")
    if any(map(given.has, ("entity-name", "entity-type", "entity-default"))) and any(
        map(given.has, (*FLAGS, *DEFAULTS_FLAGS))
    ):
        raise Misused(
            "--entity-{type,name,default} should not be used in conjunction with specific entity "
            "flags"
        )


def _check_names(given: Given, found: Entities) -> None:
    if not any(found.names):
        return
    if BROKERS in found.types or BROKER_LOGGERS in found.types:
        for option in ("entity-name", "broker", "broker-logger"):
            name = given.text(option)
            if name is not None and parse_int(name) is None:
                raise Misused(
                    f"The entity name for {found.kind} must be a valid integer broker id, but it "
                    f"is: {name}"
                )
    if IPS in found.types:
        for option in ("entity-name", "ip"):
            name = given.text(option)
            if name is not None and not _has_address(name):
                raise Misused(
                    f"The entity name for {found.kind} must be a valid IP or resolvable host, but "
                    f"it is: {name}"
                )


def _has_address(host: str) -> bool:
    try:
        socket.getaddrinfo(host, None)
    except (OSError, UnicodeError):
        return False
    return True


def _check_controllers(given: Given, found: Entities) -> None:
    """Refuse what Apache Kafka's tool does not ask controllers."""
    brokers = (BROKERS, BROKER_LOGGERS)
    if given.has("describe") and found.kind in brokers:
        return
    if given.has("alter") and found.kind in (*brokers, TOPICS, CLIENT_METRICS, GROUPS):
        return
    action = "describe" if given.has("describe") else "alter"
    raise Misused(f"--{action} of {','.join(found.types)} asks brokers: give it --{SERVER}")


def _check_describe(given: Given, found: Entities) -> None:
    types = ",".join(found.types)
    if given.has("entity-default") and HAVE_DEFAULTS.isdisjoint(found.types):
        raise Misused(f"--entity-default must not be specified with --describe of {types}")
    if BROKER_LOGGERS in found.types and not any(found.names):
        raise Misused(f"An entity name must be specified with --describe of {types}")
    if len(found.names) > len(found.types) and found.kind in (USERS, CLIENTS, IPS):
        raise Misused("More entity names specified than entity types")


def _check_alter(given: Given, found: Entities) -> None:
    if not HAVE_DEFAULTS.isdisjoint(found.types):
        if not found.names:
            raise Misused(
                "An entity-name or default entity must be specified with --alter of users, "
                "clients, brokers or ips"
            )
    elif not any(found.names):
        raise Misused(f"An entity name must be specified with --alter of {','.join(found.types)}")
    if given.has("add-config") and given.has("add-config-file"):
        raise Misused("Only one of --add-config or --add-config-file must be specified")
    if not any(map(given.has, ("add-config", "add-config-file", "delete-config"))):
        raise Misused(
            "At least one of --add-config, --add-config-file, or --delete-config must be "
            "specified with --alter"
        )
    if len(found.types) != len(found.names):
        raise Misused("An entity name must be specified for every entity type")
