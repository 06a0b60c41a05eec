"""Tasks and timers on the running asyncio loop: the only module that creates them."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from kavka.seams import Timer

T = TypeVar("T")
logger = logging.getLogger(__name__)


class LoopTasks:
    """`kavka.seams.Tasks` on one asyncio loop.

    Keeps a reference to each running task (the loop itself holds only weak ones), and logs the
    exception of a failed task.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._running: dict[asyncio.Task[Any], None] = {}
        self._killed = False

    def spawn(self, coroutine: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        task = self._loop.create_task(coroutine, name=name)
        self._running[task] = None
        task.add_done_callback(self._ended)
        if self._killed:
            _cancel(task)  # before its first step: none of it runs
        return task

    async def kill(self) -> None:
        """Cancel all tasks, and every task spawned later, while the loop keeps running. Timers and
        callbacks still fire, without effect."""
        self._killed = True
        while running := list(self._running):
            for task in running:
                _cancel(task)
            await asyncio.wait(running)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        del self._running[task]
        if not task.cancelled() and (failure := task.exception()) is not None:
            logger.error("task %s failed", task.get_name(), exc_info=failure)

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        self._loop.call_soon(callback, *args)

    def call_later(self, delay_s: float, callback: Callable[..., object], *args: Any) -> Timer:
        return self._loop.call_later(delay_s, callback, *args)

    def future(self) -> asyncio.Future[Any]:
        return self._loop.create_future()

    async def sleep(self, delay_s: float) -> None:
        await asyncio.sleep(delay_s)


def _cancel(task: asyncio.Task[Any]) -> None:
    """Cancel a task; if it has not begun also the coroutines that it was given: nothing else would
    close them, and Python warns of coroutines that were never awaited."""
    coroutine = task.get_coro()
    if inspect.iscoroutine(coroutine) and coroutine.cr_frame is not None:
        if inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:
            for given in list(coroutine.cr_frame.f_locals.values()):
                if inspect.iscoroutine(given):
                    given.close()
    task.cancel()
