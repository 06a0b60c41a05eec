"""Requests that wait for something to become true of a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.seams import Tasks
from kavka.wire.errors import ApiError

if TYPE_CHECKING:
    import asyncio


class Waiters:
    """Futures by topic. They number as many as there are unanswered requests for topics."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._futures: dict[str, list[asyncio.Future[bool]]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._futures

    def add(self, name: str) -> asyncio.Future[bool]:
        """Becomes True by `done`, False by `give_up`, or raises what `fail` says."""
        future: asyncio.Future[bool] = self._tasks.future()
        self._futures.setdefault(name, []).append(future)
        return future

    def done(self, name: str) -> None:
        """It has come true."""
        for future in self._futures.pop(name, ()):
            if not future.done():
                future.set_result(True)

    def give_up(self, name: str, future: asyncio.Future[bool]) -> None:
        """One of them waits no longer; harmless when it does not wait any more."""
        futures = self._futures.get(name, [])
        if future in futures:
            futures.remove(future)
            if not futures:
                del self._futures[name]
        if not future.done():
            future.set_result(False)

    def fail(self, error: ApiError) -> None:
        """Nothing will come true any more."""
        for futures in self._futures.values():
            for future in futures:
                if not future.done():
                    future.set_exception(error)
        self._futures.clear()
