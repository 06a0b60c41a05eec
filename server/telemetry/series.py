"""What clients have pushed, as it is shown on `/metrics`: the last number of each series.

Everything is bounded; what is beyond a bound is counted and dropped. A client's series go when it
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
"""Of all clients together; one takes some 500 bytes, and a line of the page."""

SERIES_OF_CLIENT_MAX: Final = 2_000
NAMES_MAX: Final = 2_000
LABELS_OF_NAME_MAX: Final = 16
"""Different labels that the series of one name may have."""

PREFIX: Final = "kafka_client_"
OF_CLIENT: Final = ("client_id", "client_instance_id")
"""The labels that every series has."""

_KAFKA: Final = "org.apache.kafka."
_TOTAL: Final = "_total"
_not_in_names: Final = re.compile(r"[^a-z0-9_]+").sub

Labels = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Family:
    """All series of one name. `labels` are their names, those of each client first."""

    name: str
    is_counter: bool
    pushed_name: str
    """What clients call it."""
    labels: list[str] = field(default_factory=lambda: list(OF_CLIENT))
    series: dict[tuple[UUID, Labels], float] = field(default_factory=dict)


@dataclass(slots=True)
class _Client:
    client_id: str
    """As in its last push."""
    expires_ms: int = 0
    keys: dict[tuple[str, Labels], None] = field(default_factory=dict)


class Series:
    """All of them."""

    def __init__(self) -> None:
        self._families: dict[str, Family] = {}
        self._clients: dict[UUID, _Client] = {}
        self.count = 0
        self.dropped = 0
        """Numbers that found no place."""

    def add(
        self,
        client_instance_id: UUID,
        client_id: str | None,
        points: Iterable[Point],
        expires_ms: int,
    ) -> None:
        """What a client has pushed; its series stay until then."""
        client = self._clients.get(client_instance_id)
        if client is None:
            client = self._clients[client_instance_id] = _Client(client_id or "")
        client.expires_ms = expires_ms
        for point in points:
            if not self._put(client_instance_id, client, point):
                self.dropped += 1

    def expire(self, now_ms: int) -> None:
        """Drop the series of who has not pushed for too long."""
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
        """By name."""
        return sorted(self._families.values(), key=lambda one: one.name)

    def samples(self, family: Family) -> Iterator[tuple[tuple[str, ...], float]]:
        """The values of a family's labels, and the number, of each series that is there now."""
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
        family.series[key] = point.value + (before or 0.0) if point.adds else point.value
        return True

    def _family(self, name: str, point: Point, labels: Labels) -> Family | None:
        """Where a number belongs, made if need be; None where there is no room, or where others
        of its name are of another kind."""
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
    """A name that no label of the client's own has."""
    label = _plain(key)
    if label in OF_CLIENT or not label[:1].isalpha():
        return f"label_{label}"
    return label


def _plain(text: str) -> str:
    return _not_in_names("_", text.lower())


def _values(names: Iterable[str], found: Mapping[str, str]) -> Iterator[str]:
    return (found.get(name, "") for name in names)
