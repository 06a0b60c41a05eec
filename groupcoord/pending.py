"""Offsets committed in transactions that are still open. Pure.

When a transaction is committed, the offsets count, but for those of partitions that something
later in the log has committed: what was written last holds, whichever transaction ends last.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

_Place: TypeAlias = tuple[str, str, int]
"""Group, topic, partition."""


class Ended(NamedTuple):
    """An offset that counts from now on."""

    group_id: str
    topic: str
    partition: int
    value: bytes


class Pending:
    """By place, the producers that have an offset there, the latest last; None in place of a
    value that something later has overtaken."""

    __slots__ = ("_groups", "_places", "_producers")

    def __init__(self) -> None:
        self._places: Final[dict[_Place, dict[int, bytes | None]]] = {}
        self._producers: Final[dict[int, dict[_Place, None]]] = {}
        self._groups: Final[dict[str, int]] = {}
        """How many places of a group there are."""

    def __bool__(self) -> bool:
        return bool(self._places)

    def has_any(self, group_id: str) -> bool:
        """Whether the group takes part in an open transaction."""
        return group_id in self._groups

    def has(self, group_id: str, topic: str, partition: int) -> bool:
        return (group_id, topic, partition) in self._places

    def of_group(self, group_id: str) -> list[tuple[str, int]]:
        """Topics and partitions of a group that have such an offset."""
        if group_id not in self._groups:
            return []
        return [(topic, partition) for group, topic, partition in self._places if group == group_id]

    def places(self) -> list[tuple[str, str, int]]:
        """Group, topic and partition of all."""
        return list(self._places)

    def put(
        self, producer_id: int, group_id: str, topic: str, partition: int, value: bytes
    ) -> None:
        place = (group_id, topic, partition)
        values = self._places.get(place)
        if values is None:
            values = self._places[place] = {}
            self._groups[group_id] = self._groups.get(group_id, 0) + 1
        values.pop(producer_id, None)  # the order is that of the log
        values[producer_id] = value
        self._producers.setdefault(producer_id, {})[place] = None

    def supersede(self, group_id: str, topic: str, partition: int) -> None:
        """An offset has been committed without a transaction."""
        values = self._places.get((group_id, topic, partition))
        for producer_id in values or ():
            values[producer_id] = None  # type: ignore[index]

    def drop(self, group_id: str, topic: str, partition: int) -> None:
        """A tombstone has come: nothing of what was before is left."""
        place = (group_id, topic, partition)
        for producer_id in self._places.get(place, {}):
            places = self._producers[producer_id]
            del places[place]
            if not places:
                del self._producers[producer_id]
        if place in self._places:
            self._forget(place)

    def end(self, producer_id: int, committed: bool) -> list[Ended]:
        """A transaction is over: what counts now."""
        ended = []
        for place in self._producers.pop(producer_id, {}):
            values = self._places[place]
            value = values[producer_id]
            if committed and value is not None:
                ended.append(Ended(*place, value))
                for earlier in values:
                    if earlier == producer_id:
                        break
                    values[earlier] = None
            del values[producer_id]
            if not values:
                self._forget(place)
        return ended

    def _forget(self, place: _Place) -> None:
        del self._places[place]
        group_id = place[0]
        self._groups[group_id] -= 1
        if not self._groups[group_id]:
            del self._groups[group_id]
