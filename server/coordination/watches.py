"""One-shot watches of one session: set by reads, used up by the first change they cover."""

from __future__ import annotations

from collections.abc import Sequence

from kavka.server.coordination.api import Watch, WatchEvent, WatchKind


class Watches:
    """The watches that wait. They number at most one for each path, kind and callable."""

    def __init__(self) -> None:
        self._on_data: dict[str, dict[Watch, None]] = {}
        self._on_children: dict[str, dict[Watch, None]] = {}

    def add_data(self, path: str, watch: Watch) -> None:
        """Wait for the node's creation, deletion or next set."""
        self._on_data.setdefault(path, {})[watch] = None

    def add_children(self, path: str, watch: Watch) -> None:
        """Wait for the node's deletion or for a child that comes or goes."""
        self._on_children.setdefault(path, {})[watch] = None

    def take(self, events: Sequence[WatchEvent]) -> list[tuple[Watch, WatchEvent]]:
        """The calls to make for `events`, in order; their watches are used up.

        A callable that watches both the data and the children of a deleted node is called once.
        """
        calls: list[tuple[Watch, WatchEvent]] = []
        if not self._on_data and not self._on_children:
            return calls
        for event in events:
            watches: dict[Watch, None] = {}
            if event.kind is not WatchKind.CHILDREN_CHANGED:
                watches |= self._on_data.pop(event.path, {})
            if event.kind in (WatchKind.CHILDREN_CHANGED, WatchKind.DELETED):
                watches |= self._on_children.pop(event.path, {})
            calls.extend((watch, event) for watch in watches)
        return calls
