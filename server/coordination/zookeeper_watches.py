"""The watches of one session with ZooKeeper. They are set with the response to a read, fire once,
and are set again on each new connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from kavka.zktree.api import Watch, WatchEvent, WatchKind

WatchedBy: TypeAlias = Callable[[Any], object]
"""Called with the result of a read that asked for a watch: the watch is set then."""

_Watches: TypeAlias = dict[str, dict[Watch, None]]


class SessionWatches:
    """By path: on the data of nodes that exist, on nodes that do not, and on children."""

    def __init__(self) -> None:
        self._data: Final[_Watches] = {}
        self._missing: Final[_Watches] = {}
        self._children: Final[_Watches] = {}

    def on_data(self, path: str, watch: Watch | None) -> WatchedBy | None:
        """For a read of a node's data; None without a watch."""
        return None if watch is None else lambda _: _add(self._data, path, watch)

    def on_existence(self, path: str, watch: Watch | None) -> WatchedBy | None:
        """For the question whether a node exists, whose result is None if it does not."""
        if watch is None:
            return None

        def add(stat: object) -> None:
            _add(self._missing if stat is None else self._data, path, watch)

        return add

    def on_children(self, path: str, watch: Watch | None) -> WatchedBy | None:
        """For a read of the names of a node's children."""
        return None if watch is None else lambda _: _add(self._children, path, watch)

    def trigger(self, event: WatchEvent) -> list[Watch]:
        """Remove the watches that fire. One on both the data and the children of a node that is
        deleted fires once."""
        fired: dict[Watch, None] = {}
        if event.kind is not WatchKind.CHILDREN_CHANGED:
            fired |= self._data.pop(event.path, {}) | self._missing.pop(event.path, {})
        if event.kind in (WatchKind.CHILDREN_CHANGED, WatchKind.DELETED):
            fired |= self._children.pop(event.path, {})
        return list(fired)

    def paths(self) -> tuple[list[str], list[str], list[str]]:
        """The paths that are watched: data, missing nodes, children."""
        return list(self._data), list(self._missing), list(self._children)


def _add(watches: _Watches, path: str, watch: Watch) -> None:
    watches.setdefault(path, {})[watch] = None
