"""Blocking or long calls in threads and processes, with the results returned to the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kavka.seams import Pool

if TYPE_CHECKING:
    from kavka.server.runtime.processes import Processes

T = TypeVar("T")

THREADS_MAX: Final[Mapping[Pool, int]] = {
    Pool.WRITE: 10,
    Pool.READ: 4,
    Pool.COMPUTE: 2,
}
"""Threads of each pool.

WRITE: as many as concurrent flushes (`FLUSHES_AT_ONCE_MAX`), one for the coordination log and one
for checkpoints and deletions, so that none waits for another's fsync. READ: enough to keep a disk
busy. COMPUTE: few, as these threads compete with the loop for the interpreter.
Jobs wait in their pool's queue, whose length the callers bound: one flush a partition, one cold
read a waiting fetch, one batch to decompress a connection."""


class ThreadJobs:
    """`kavka.seams.Jobs` on small pools of threads, each started with its first job, and
    processes."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._pools = {
            pool: ThreadPoolExecutor(threads, thread_name_prefix=f"kavka-{pool.value}")
            for pool, threads in THREADS_MAX.items()
        }
        self._unfinished: dict[Future[Any], None] = {}
        self._processes: Processes | None = None

    def run(self, pool: Pool, function: Callable[..., T], *args: Any) -> Awaitable[T]:
        job = self._pools[pool].submit(function, *args)
        self._unfinished[job] = None
        job.add_done_callback(self._finished)
        return asyncio.wrap_future(job, loop=self._loop)

    def _finished(self, job: Future[Any]) -> None:
        """Called in the job's thread."""
        self._unfinished.pop(job, None)

    def run_process(
        self,
        function: Callable[..., T],
        *args: Any,
        on_message: Callable[[Any], object],
        keep: Sequence[int] = (),
    ) -> asyncio.Future[T]:
        if self._processes is None:
            from kavka.server.runtime.processes import Processes

            self._processes = Processes(self._loop)
        return self._processes.run(function, args, on_message, keep)

    async def close(self, *, drop_waiting: bool = False) -> None:
        """Accept no more jobs, and wait for the queued and running ones.

        With `drop_waiting` queued jobs are dropped. The loop is not blocked meanwhile; no thread
        is left afterwards, even of jobs whose callers were cancelled. Processes are killed, as
        their results are useless to a stopped broker.
        """
        if self._processes is not None:
            await self._processes.kill()
        for threads in self._pools.values():
            threads.shutdown(wait=False, cancel_futures=drop_waiting)
        if unfinished := list(self._unfinished):
            await asyncio.wait([asyncio.wrap_future(job, loop=self._loop) for job in unfinished])
        for threads in self._pools.values():
            threads.shutdown(wait=True)  # threads without work end at once
