"""What the sessions on a tree in this process have in common: reads, watches, and single writes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from kavka.zktree.api import (
    MultiFailed,
    Op,
    OpResult,
    SessionEvent,
    SingleWrites,
    Stat,
    Watch,
    Znode,
)
from kavka.zktree.tree import Tree, Watches

if TYPE_CHECKING:
    import asyncio


class TreeSession(SingleWrites):
    """A session on `tree`. Subclasses decide when responses are delivered."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._watches = Watches()
        self._listeners: list[Callable[[SessionEvent], object]] = []

    @abstractmethod
    def _respond(self, work: Callable[[], object]) -> asyncio.Future[Any]:
        """Run `work` now; the future becomes its result, or fails with its CoordinationError."""

    @abstractmethod
    def _write_ops(self, ops: Sequence[Op]) -> list[OpResult]:
        """Carry out one transaction. MultiFailed, Overloaded."""

    def multi(self, ops: Sequence[Op]) -> Awaitable[list[OpResult]]:
        return self._respond(lambda: self._write_ops(ops))

    def get(self, path: str, watch: Watch | None = None) -> Awaitable[Znode]:
        def read() -> Znode:
            found = self._tree.get(path)
            if watch is not None:
                self._watches.add_data(path, watch)
            return found

        return self._respond(read)

    def exists(self, path: str, watch: Watch | None = None) -> Awaitable[Stat | None]:
        def read() -> Stat | None:
            if watch is not None:
                self._watches.add_data(path, watch)
            return self._tree.exists(path)

        return self._respond(read)

    def children(self, path: str, watch: Watch | None = None) -> Awaitable[list[str]]:
        def read() -> list[str]:
            found = self._tree.children(path)
            if watch is not None:
                self._watches.add_children(path, watch)
            return found

        return self._respond(read)

    def on_session(self, callback: Callable[[SessionEvent], object]) -> None:
        self._listeners.append(callback)

    def _write(self, op: Op) -> Awaitable[Any]:
        def write() -> OpResult:
            try:
                return self._write_ops([op])[0]
            except MultiFailed as failed:
                cause = failed.cause
            raise cause

        return self._respond(write)
