"""What the first write after a start does without: it is imported when it is asked for, or some
time after the start, a module at a time so that the loop is not held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import Any, Final

from kavka.log.fs import is_shortage
from kavka.seams import Tasks, Timer

BEGIN_AFTER_S: Final = 1.0
PAUSE_S: Final = 0.02

SHORTAGE_RETRY_S: Final = 1.0
"""When a module is tried again that too many open files have kept from being read."""

GROUPS: Final = (
    "kavka.wire.fields",
    "kavka.log.journal",
    "kavka.groupcoord.group",
    "kavka.groupcoord.offset_records",
    "kavka.groupcoord.offsets",
    "kavka.groupcoord.expiry",
    "kavka.groupcoord.classic.records",
    "kavka.groupcoord.classic.group",
    "kavka.groupcoord.classic.rebalancing",
    "kavka.groupcoord.classic.joining",
    "kavka.groupcoord.classic.protocol",
    "kavka.groupcoord.consumer.records",
    "kavka.groupcoord.consumer.group",
    "kavka.groupcoord.consumer.book",
    "kavka.groupcoord.consumer.classic_members",
    "kavka.groupcoord.consumer.replay",
    "kavka.groupcoord.consumer.protocol",
    "kavka.groupcoord.shard",
    "kavka.server.journal_loader",
    "kavka.server.turns",
    "kavka.server.journal_port",
    "kavka.server.journal_runner",
)
"""The parts of the group coordinator, each behind those that it imports: 25 ms in one go."""

TRANSACTIONS: Final = (
    "kavka.wire.fields",
    "kavka.log.journal",
    "kavka.txncoord.requests",
    "kavka.txncoord.transaction",
    "kavka.txncoord.records",
    "kavka.txncoord.state",
    "kavka.txncoord.ending",
    "kavka.txncoord.producing",
    "kavka.txncoord.expiry",
    "kavka.txncoord.shard",
    "kavka.server.transaction_calls",
    "kavka.server.verification",
    "kavka.server.transaction_markers",
    "kavka.server.journal_loader",
    "kavka.server.turns",
    "kavka.server.journal_port",
    "kavka.server.journal_runner",
)
"""The parts of the transaction coordinator, likewise."""

COMPACTION: Final = (
    "kavka.log.compaction.candidates",
    "kavka.log.compaction.order",
    "kavka.log.compaction.swap",
    "kavka.log.compaction.cleaned",
    "kavka.log.compaction.filtering",
    "kavka.log.compaction.run",
)
"""What the first compaction needs, likewise: 14 ms."""


async def import_in_turns(tasks: Tasks, names: Iterable[str]) -> None:
    """Import modules now, with a turn of the loop for others behind each."""
    for name in names:
        import_module(name)
        await tasks.sleep(0)


class Later:
    """An API's handler, in a module of `kavka.server.handlers` that may not be imported yet."""

    def __init__(self, name: str) -> None:
        self.__module__ = f"kavka.server.handlers.{name}"
        self._handle: Callable[[Any, Any, Any], Any] | None = None

    def __call__(self, broker: Any, context: Any, request: Any) -> Any:
        handle = self._handle
        if handle is None:
            handle = self._handle = import_module(self.__module__).handle
        return handle(broker, context, request)


class Imports:
    """Imports modules in the background."""

    def __init__(self, tasks: Tasks, names: Iterable[str]) -> None:
        self._tasks = tasks
        self._names: Iterator[str] = iter(names)
        self._name: str | None = None
        self._timer: Timer | None = None

    def begin(self) -> None:
        """Soon after the start."""
        self._timer = self._tasks.call_later(BEGIN_AFTER_S, self._next)

    def _next(self) -> None:
        name = self._name = self._name or next(self._names, None)
        if name is None:
            self._timer = None
            return
        try:
            import_module(name)
        except OSError as failure:
            if not is_shortage(failure):
                raise
            self._timer = self._tasks.call_later(SHORTAGE_RETRY_S, self._next)
            return
        self._name = None
        self._timer = self._tasks.call_later(PAUSE_S, self._next)

    def stop(self) -> None:
        """What is not imported yet is not needed any more."""
        if self._timer is not None:
            self._timer.cancel()
