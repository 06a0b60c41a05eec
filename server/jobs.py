"""Long calls in threads and processes, results handed back to the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from kavka.server.processes import Processes

T = TypeVar("T")

THREADS_MAX: Final = 4
"""Enough to keep a disk busy; what waits for a thread waits in the executor's queue, whose
length is bounded by the callers: one flush a partition, one cold read a waiting fetch."""


class ThreadJobs:
    """`kavka.seams.Jobs` on a small pool of threads, started with the first job, and processes."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._threads = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="kavka-job")
        self._unfinished: dict[Future[Any], None] = {}
        self._processes: Processes | None = None

    def run(self, function: Callable[..., T], *args: Any) -> Awaitable[T]:
        job = self._threads.submit(function, *args)
        self._unfinished[job] = None
        job.add_done_callback(self._finished)
        return asyncio.wrap_future(job, loop=self._loop)

    def _finished(self, job: Future[Any]) -> None:
        """Called in the job's thread."""
        self._unfinished.pop(job, None)

    def run_process(
        self, function: Callable[..., T], *args: Any, told: Callable[[Any], object]
    ) -> asyncio.Future[T]:
        if self._processes is None:
            from kavka.server.processes import Processes

            self._processes = Processes(self._loop)
        return self._processes.run(function, args, told)

    async def close(self, *, drop_waiting: bool = False) -> None:
        """Begin no more jobs, and wait for those that there are.

        With `drop_waiting` only for those that run: the others never begin. The loop is not held
        meanwhile; nobody is left in a thread afterwards, whoever has stopped waiting for it.
        Processes are killed: what they do is worth nothing to a broker that ends.
        """
        if self._processes is not None:
            await self._processes.kill()
        self._threads.shutdown(wait=False, cancel_futures=drop_waiting)
        if unfinished := list(self._unfinished):
            await asyncio.wait([asyncio.wrap_future(job, loop=self._loop) for job in unfinished])
        self._threads.shutdown(wait=True)  # threads without work end at once
