"""Parses the connection limits of addresses and of single listeners."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from kavka.server.config.value_types import LARGEST, Type

NO_LIMIT: Final = LARGEST[Type.INT]
"""The default of every limit on connections."""

MAX_CONNECTIONS: Final = "max.connections"
CREATION_RATE: Final = "max.connection.creation.rate"
OF_LISTENERS: Final = (MAX_CONNECTIONS, CREATION_RATE)
"""Settings that can be given per listener, as listener.name.<name>.<setting>."""

_HOST_LETTERS: Final = frozenset(string.ascii_letters + string.digits + "-%._:")


class ListenerLimits(NamedTuple):
    """Limits of one listener: open connections, and new ones a second."""

    connections_max: int
    creation_rate_max: int


def listener_key(listener: str, name: str) -> str:
    """The name of one listener's own setting, such as `listener.name.internal.max.connections`. As
    in Kafka, the listener's name is in lower case there."""
    return f"listener.name.{listener.lower()}.{name}"


def parse_overrides(text: str) -> tuple[tuple[str, int], ...]:
    """`HOST:COUNT,...` as hosts and counts; the last count of a host is used. Raises ValueError."""
    found: dict[str, int] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        host, colon, count = (part.strip() for part in item.rpartition(":"))
        is_number = count.isascii() and count.isdecimal() and int(count) <= NO_LIMIT
        if not colon or not host or not is_number or not _HOST_LETTERS.issuperset(host):
            raise ValueError(f"{item} is not of the form HOST:COUNT")
        found[host] = int(count)
    return tuple(found.items())


def limits_of_listeners(
    names: Sequence[str], values: Mapping[str, int], broker: ListenerLimits
) -> tuple[tuple[str, ListenerLimits], ...]:
    """Each listener with its own limits, or else with the broker's (as in Apache Kafka).

    `values` are those that were set, by key.
    """
    return tuple(
        (
            name,
            ListenerLimits(
                values.get(listener_key(name, MAX_CONNECTIONS), broker.connections_max),
                values.get(listener_key(name, CREATION_RATE), broker.creation_rate_max),
            ),
        )
        for name in names
    )
