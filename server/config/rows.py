"""What one row of the settings table is.

The rows stand in `broker_rows` (settings with a meaning of their own here), `known_rows` (the rest
of Kafka's broker settings, so that none is ignored in silence) and `topic_rows`; `table` finds
them.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from kavka.server.config.checks import Check
from kavka.server.config.values import Type, Value, parse


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


class Status(Enum):
    """What Kavka does with a value other than the default."""

    HONOURED = "honoured"
    WARNED = "accepted with a warning, has no effect"
    REFUSED = "refused"


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
    def allowed(self) -> str:
        """Type and range in words."""
        kind = self.type.name.lower()
        return f"{kind}, {self.check}" if self.check else kind

    def parse(self, text: str) -> Value:
        """The value of `text`. Raises BadValue if type or range forbid it."""
        value = parse(self.name, self.type, text)
        if self.check:
            self.check.validate(self.name, value)
        return value
