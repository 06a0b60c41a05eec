"""Looks up the row of a setting."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

from kavka.server.config.broker_rows import BROKER_ROWS
from kavka.server.config.rows import Config
from kavka.server.config.topic_rows import TOPIC_ROWS

BROKER: Final[Mapping[str, Config]] = {row.name: row for row in BROKER_ROWS}
TOPIC: Final[Mapping[str, Config]] = {row.name: row for row in TOPIC_ROWS}

_LISTENER_PREFIX: Final = "listener.name."
_OF_MECHANISM: Final = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
)
_SYNONYMS: Final = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
"""Names of one setting in several units."""


@cache
def _known() -> dict[str, Config]:
    # Lazy import: a start without a settings file does not need these rows.
    from kavka.server.config.unsupported_rows import KNOWN_ROWS

    return {row.name: row for row in KNOWN_ROWS}


def broker_row(name: str) -> Config | None:
    """The row of broker setting `name`; None if Kafka has no such setting."""
    return BROKER.get(name) or _known().get(name)


@cache
def broker_rows() -> tuple[Config, ...]:
    """All rows of broker settings, by name."""
    return tuple(sorted([*BROKER.values(), *_known().values()], key=lambda row: row.name))


def base_name(name: str) -> str:
    """`ssl.key.password` for `listener.name.internal.ssl.key.password`; else `name` itself."""
    if not name.startswith(_LISTENER_PREFIX):
        return name
    _, dot, base = name.removeprefix(_LISTENER_PREFIX).partition(".")
    # SASL settings may have the mechanism before their own name: plain.sasl.jaas.config.
    return next((own for own in _OF_MECHANISM if base.endswith(own)), base) if dot else name


def broker_synonyms(name: str) -> tuple[str, ...]:
    """Synonyms of `name`, itself included, in decreasing precedence."""
    if name == "log.flush.interval.ms":
        return (name, "log.flush.scheduler.interval.ms")
    for names in _SYNONYMS:
        if name in names:
            return names
    base = base_name(name)
    return (name,) if base == name else (name, base)
