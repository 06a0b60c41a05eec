"""The metrics that clients have pushed, as `/metrics` exports them: the last value of each series.

Everything is bounded; what exceeds a bound is dropped and counted. A client's series expire when it
has not pushed for some time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kavka.zktree.paths import uuid_text

if TYPE_CHECKING:
    from uuid import UUID

    from kavka.server.telemetry.payload import Point

SERIES_MAX: Final = 50_000
"""Of all clients together; each takes some 500 bytes, and a line of the page."""

SERIES_OF_CLIENT_MAX: Final = 2_000
NAMES_MAX: Final = 2_000
LABELS_OF_NAME_MAX: Final = 16
"""Distinct labels of the series with one name."""

PREFIX: Final = "kafka_client_"
OF_CLIENT: Final = ("client_id", "client_instance_id")
"""The labels of every series."""

_KAFKA: Final = "org.apache.kafka."
_TOTAL: Final = "_total"
_not_in_names: Final = re.compile(r"[^a-z0-9_]+").sub

Labels = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Family:
    """All series of one name. `labels` are their label names, `OF_CLIENT` first."""

    name: str
    is_counter: bool
    pushed_name: str
    """The name that clients use."""
    labels: list[str] = field(default_factory=lambda: list(OF_CLIENT))
    series: dict[tuple[UUID, Labels], float] = field(default_factory=dict)


@dataclass(slots=True)
class _Client:
    client_id: str
    """From its last push."""
    expires_ms: int = 0
    keys: dict[tuple[str, Labels], None] = field(default_factory=dict)


class Series:
    """All series of all clients."""

    def __init__(self) -> None:
        self._families: dict[str, Family] = {}
        self._clients: dict[UUID, _Client] = {}
        self.count = 0
        self.dropped = 0
        """Data points that exceeded a bound."""

    def add(
        self,
        client_instance_id: UUID,
        client_id: str | None,
        points: Iterable[Point],
        expires_ms: int,
    ) -> None:
        """Store what a client has pushed; its series expire at `expires_ms`."""
        client = self._clients.get(client_instance_id)
        if client is None:
            client = self._clients[client_instance_id] = _Client(client_id or "")
        client.expires_ms = expires_ms
        for point in points:
            if not self._put(client_instance_id, client, point):
                self.dropped += 1

    def expire(self, now_ms: int) -> None:
        """Drop the series of clients that have not pushed recently."""
        for client_instance_id, client in list(self._clients.items()):
            if client.expires_ms > now_ms:
                continue
            del self._clients[client_instance_id]
            for name, labels in client.keys:
                family = self._families[name]
                del family.series[client_instance_id, labels]
                if not family.series:
                    del self._families[name]
            self.count -= len(client.keys)

    def families(self) -> list[Family]:
        """The families, sorted by name."""
        return sorted(self._families.values(), key=lambda family: family.name)

    def samples(self, family: Family) -> Iterator[tuple[tuple[str, ...], float]]:
        """The label values and the value of each series of a family."""
        for (client_instance_id, labels), value in list(family.series.items()):
            client = self._clients.get(client_instance_id)
            if client is not None:
                own = {
                    "client_id": client.client_id,
                    "client_instance_id": uuid_text(client_instance_id),
                }
                yield tuple(_values(family.labels, own | dict(labels))), value

    def _put(self, client_instance_id: UUID, client: _Client, point: Point) -> bool:
        name = _prometheus(point)
        labels = tuple(sorted({_label(key): text for key, text in point.labels}.items()))
        family = self._family(name, point, labels)
        if family is None:
            return False
        key = client_instance_id, labels
        before = family.series.get(key)
        if before is None:
            if self.count >= SERIES_MAX or len(client.keys) >= SERIES_OF_CLIENT_MAX:
                if not family.series:
                    del self._families[name]
                return False
            self.count += 1
            client.keys[name, labels] = None
        family.series[key] = point.value + (before or 0.0) if point.is_delta else point.value
        return True

    def _family(self, name: str, point: Point, labels: Labels) -> Family | None:
        """The family of a data point, created if need be. None if a bound is exceeded, or if the
        family is of another type."""
        family = self._families.get(name)
        if family is None:
            if len(self._families) >= NAMES_MAX:
                return None
            family = self._families[name] = Family(name, point.is_counter, point.name)
        new = [label for label, _ in labels if label not in family.labels]
        if len(family.labels) + len(new) > LABELS_OF_NAME_MAX:
            if not family.series:
                del self._families[name]
            return None
        if family.is_counter is not point.is_counter:
            return None
        family.labels += new
        return family


def _prometheus(point: Point) -> str:
    name = PREFIX + _plain(point.name.removeprefix(_KAFKA))
    return f"{name}{_TOTAL}" if point.is_counter and not name.endswith(_TOTAL) else name


def _label(key: str) -> str:
    """A label name that differs from those in `OF_CLIENT`."""
    label = _plain(key)
    if label in OF_CLIENT or not label[:1].isalpha():
        return f"label_{label}"
    return label


def _plain(text: str) -> str:
    return _not_in_names("_", text.lower())


def _values(names: Iterable[str], found: Mapping[str, str]) -> Iterator[str]:
    return (found.get(name, "") for name in names)
