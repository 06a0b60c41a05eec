"""What the first write after a start does without: it is imported when it is asked for, or some
time after the start, a module at a time so that the loop is not held.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Final

from kavka.log.fs import is_fd_exhaustion
from kavka.seams import Tasks, Timer

BEGIN_AFTER_S: Final = 1.0
PAUSE_S: Final = 0.02

SHORTAGE_RETRY_S: Final = 1.0
"""When a module is tried again that too many open files have kept from being read."""


async def import_in_turns(tasks: Tasks, names: Iterable[str]) -> None:
    """Import modules now, with a turn of the loop for others behind each."""
    for name in names:
        import_module(name)
        await tasks.sleep(0)


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
            if not is_fd_exhaustion(failure):
                raise
            self._timer = self._tasks.call_later(SHORTAGE_RETRY_S, self._next)
            return
        self._name = None
        self._timer = self._tasks.call_later(PAUSE_S, self._next)

    def stop(self) -> None:
        """What is not imported yet is not needed any more."""
        if self._timer is not None:
            self._timer.cancel()
