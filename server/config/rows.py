"""What one row of the settings table is.

The rows stand in `broker_rows` (settings with a meaning of their own here), `unsupported_rows`
(the rest of Kafka's broker settings, so that none is ignored in silence) and `topic_rows`; `table`
finds them.
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from typing import Final, NamedTuple

from kavka.server.config.validators import AtLeast, Between, Check, Items
from kavka.server.config.value_types import LARGEST, Type, Value, parse

KEPT_FROM_CHARACTERS: Final = 1000
KEPT_MAX: Final = 2
"""Values that are kept of texts from that length on, some MB each at most: a change asks some
twenty times for the one before it and the one after it."""

_KINDS: Final = {
    Type.BOOLEAN: "true or false",
    Type.STRING: "a text",
    Type.DOUBLE: "a number",
    Type.LIST: "a list separated by commas",
    Type.CLASS: "the name of a Java class",
    Type.PASSWORD: "a password",
}


class Importance(Enum):
    """How much a setting matters to most users, by Kafka's judgement."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Mode(Enum):
    """Whether a running broker takes a new value, and for whom it can be given."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Scope(Enum):
    """What a setting belongs to."""

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
    """One setting."""

    name: str
    type: Type
    default: Value  # None: null, or none at all
    doc: str
    check: Check | None = None
    importance: Importance = Importance.MEDIUM
    dynamic: Mode = Mode.READ_ONLY
    scope: Scope = Scope.BROKER
    field: str = ""
    """Its field in BrokerSettings (scope broker) or kavka.log.settings.LogSettings (topic)."""
    status: Status = Status.HONOURED
    note: str = ""
    """What is missing, in a few words, where it is not honoured."""
    fallback: tuple[tuple[str, int], ...] = ()
    """Broker keys that a topic setting takes its default from: first one that is set, times n."""
    internal: bool = False
    """Not shown by DescribeConfigs unless set."""

    @property
    def sensitive(self) -> bool:
        """Whether its value is never shown."""
        return self.type is Type.PASSWORD

    @property
    def explanation(self) -> str:
        """What it does, and what Kavka makes of it if that is less."""
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
        """The value of `text`. Raises BadValue if type or range forbid it."""
        if len(text) < KEPT_FROM_CHARACTERS:
            return _parsed(self.name, self.type, self.check, text)
        return _parsed_and_kept(self.name, self.type, self.check, text)


def _parsed(name: str, type_: Type, check: Check | None, text: str) -> Value:
    value = parse(name, type_, text)
    if isinstance(value, tuple) and isinstance(check, Items):
        value = tuple(dict.fromkeys(value))  # what comes again is dropped (KIP-1161)
    if check is not None:
        check.validate(name, value)
    return value


_parsed_and_kept: Final = lru_cache(maxsize=KEPT_MAX)(_parsed)
