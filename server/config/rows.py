"""The type of a row of the config table.

The rows are in `broker_rows` (settings with an effect in Kavka), `unsupported_rows` (Kafka's other
broker settings, so that none is ignored silently) and `topic_rows`; `table` looks them up.
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from typing import Final, NamedTuple

from kavka.server.config.validators import AtLeast, Between, Items, Validator
from kavka.server.config.value_types import LARGEST, Type, Value, parse

CACHED_FROM_CHARACTERS: Final = 1000
CACHED_MAX: Final = 2
"""Cached parsed values of texts from that length on, some MB each at most: a change parses the old
and the new value some twenty times."""

_KINDS: Final = {
    Type.BOOLEAN: "true or false",
    Type.STRING: "a text",
    Type.DOUBLE: "a number",
    Type.LIST: "a list separated by commas",
    Type.CLASS: "the name of a Java class",
    Type.PASSWORD: "a password",
}


class Importance(Enum):
    """Kafka's rating of a setting's importance."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Mode(Enum):
    """Kafka's dynamic update mode of a setting."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Scope(Enum):
    """The resource type that a setting belongs to."""

    BROKER = "broker"
    TOPIC = "topic"
    GROUP = "group"
    CLIENT_METRICS = "client metrics subscription"


class Status(Enum):
    """What Kavka does with a value other than the default."""

    HONOURED = "honoured"
    WARNED = "no effect"
    REFUSED = "not supported"


class Config(NamedTuple):
    """The definition of one setting: a row of the config table. Its value is in BrokerSettings or
    LogSettings."""

    name: str
    type: Type
    default: Value  # None: null, or none at all
    doc: str
    check: Validator | None = None
    importance: Importance = Importance.MEDIUM
    dynamic: Mode = Mode.READ_ONLY
    scope: Scope = Scope.BROKER
    field: str = ""
    """Its field in BrokerSettings (scope broker) or kavka.log.settings.LogSettings (topic)."""
    status: Status = Status.HONOURED
    note: str = ""
    """Why it is not honoured, in a few words."""
    fallback: tuple[tuple[str, int], ...] = ()
    """Broker keys with factors: a topic setting's default is the first that is set, times its
    factor."""
    internal: bool = False
    """Not shown by DescribeConfigs unless set."""

    @property
    def sensitive(self) -> bool:
        """Whether its value is never shown."""
        return self.type is Type.PASSWORD

    @property
    def explanation(self) -> str:
        """Its documentation, and Kavka's limitation if it is not honoured."""
        doc = self.doc or "A setting of Apache Kafka."
        if self.status is Status.HONOURED:
            return doc
        return f"{doc} {self.status.value.capitalize()}: {self.note}."

    @property
    def allowed(self) -> str:
        """Type and range in words."""
        largest = LARGEST.get(self.type)
        if largest is None:
            kind = _KINDS[self.type]
            return kind if self.check is None else f"{kind}, {self.check}"
        if isinstance(self.check, AtLeast):
            return f"a whole number from {self.check.least} to {largest}"
        if isinstance(self.check, Between):
            return f"a whole number from {self.check}"
        rest = "" if self.check is None else f", {self.check}"
        return f"a whole number from {-largest - 1} to {largest}{rest}"

    def parse(self, text: str) -> Value:
        """Parse and validate `text`. Raises BadValue."""
        if len(text) < CACHED_FROM_CHARACTERS:
            return _parse(self.name, self.type, self.check, text)
        return _parse_cached(self.name, self.type, self.check, text)


def broker_setting(
    name: str,
    type_: Type,
    default: Value,
    check: Validator | None,
    importance: Importance,
    doc: str,
    *,
    dynamic: Mode = Mode.READ_ONLY,
    field: str | None = None,
    internal: bool = False,
    note: str = "",
) -> Config:
    """A setting of the broker, whose field is named like it by default; one with a note is not
    honoured and has no field. `internal`: Apache Kafka 4 has no such setting, so it is not shown
    unless set.
    """
    if note:
        field = ""
    return Config(
        name,
        type_,
        default,
        doc,
        check,
        importance,
        dynamic,
        field=name.replace(".", "_") if field is None else field,
        status=Status.WARNED if note else Status.HONOURED,
        note=note,
        internal=internal,
    )


def _parse(name: str, type_: Type, check: Validator | None, text: str) -> Value:
    value = parse(name, type_, text)
    if isinstance(value, tuple) and isinstance(check, Items):
        value = tuple(dict.fromkeys(value))  # duplicates are dropped (KIP-1161)
    if check is not None:
        check.validate(name, value)
    return value


_parse_cached: Final = lru_cache(maxsize=CACHED_MAX)(_parse)
