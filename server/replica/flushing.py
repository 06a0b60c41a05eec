"""Bringing appended records to the disk: fsync in threads, a few logs at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from kavka.log.errors import CorruptLogError, StorageError
from kavka.log.fs import is_fd_exhaustion
from kavka.seams import Clock, Jobs, Pool, Tasks
from kavka.server.replica.log_failures import LogFailures
from kavka.server.replica.replica import Replica
from kavka.server.runtime.histogram import Histogram
from kavka.server.runtime.purgatory import Purgatory
from kavka.server.runtime.rate_limited_logger import RateLimitedLogger

FLUSHES_AT_ONCE_MAX: Final = 8
"""Logs that are flushed, or wait for a thread with their files open: twice the number of threads.
Others wait without open files."""

FLUSH_RETRY_S: Final = 1.0
"""Delay before a flush is tried again that has failed for lack of file descriptors."""


def _nothing(replica: Replica) -> None:
    """The default listener."""


class LogFlusher:
    """Flushes the logs of all replicas. A log that can't be flushed goes offline, unless file
    descriptors are short: then it is tried again."""

    def __init__(
        self,
        failures: LogFailures,
        refusals: RateLimitedLogger,
        *,
        purgatory: Purgatory,
        clock: Clock,
        tasks: Tasks,
        jobs: Jobs,
    ) -> None:
        self._failures = failures
        self._refusals = refusals
        self._purgatory = purgatory
        self._clock = clock
        self._tasks = tasks
        self._jobs = jobs
        self._running: dict[asyncio.Task[None], Replica] = {}
        self._slots = asyncio.Semaphore(FLUSHES_AT_ONCE_MAX)
        self.on_flushed: Callable[[Replica], object] = _nothing
        """Called when a log has been flushed."""
        self.flush_ms = Histogram()
        """How long flushes took, in milliseconds."""

    def flush_soon(self, replica: Replica) -> None:
        """Flush a log in the background, unless a flush of it is under way.

        It ends early if the replica is removed: a new log may by then have the same file names.
        """
        if not replica.flushing and not replica.offline and not replica.flushes_held:
            replica.flushing = True
            task = self._tasks.spawn(self._flush(replica), name=f"flush {replica.key}")
            self._running[task] = replica
            task.add_done_callback(self._running.pop)

    @asynccontextmanager
    async def held(self, replica: Replica) -> AsyncIterator[None]:
        """Hold back flushes of a log, so that its recovery point stays; what is due is flushed
        afterwards."""
        replica.flushes_held = True
        try:
            while running := [
                task for task, flushed in self._running.items() if flushed is replica
            ]:
                await asyncio.wait(running)
            yield
        finally:
            replica.flushes_held = False
            if replica.is_served:
                self.flush_soon(replica)

    async def wait_idle(self) -> None:
        """Wait until no flush is under way."""
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _flush(self, replica: Replica) -> None:
        try:
            is_more = True
            while is_more:
                async with self._slots:
                    is_more = not replica.flushes_held and await self._flush_once(replica)
        except OSError as failure:
            if is_fd_exhaustion(failure):
                self._refusals.line("%s-%d can't be flushed now: %s", *replica.key, failure)
                self._tasks.call_later(FLUSH_RETRY_S, self._retry, replica)
            elif replica.hosted:
                self._failures.storage_failed(replica, failure)
        except (CorruptLogError, StorageError) as damage:
            if replica.is_served:
                self._failures.log_damaged(replica, damage)
        finally:
            replica.flushing = False

    def _retry(self, replica: Replica) -> None:
        if replica.is_served:
            self.flush_soon(replica)

    async def _flush_once(self, replica: Replica) -> bool:
        """Whether there is more to flush. OSError; CorruptLogError and StorageError: damaged."""
        while replica.is_served and replica.log.producer_manager.write_snapshot_step():
            await self._tasks.sleep(0)
        plan = replica.log.flush_plan(self._clock.now_ms()) if replica.is_served else None
        if plan is None:
            return False
        began_s = self._clock.monotonic_s()
        try:
            await self._jobs.run(Pool.WRITE, plan.run)
        except OSError as failure:
            if is_fd_exhaustion(failure):
                plan.add_back_unflushed()
            raise
        ended_s = self._clock.monotonic_s()
        self.flush_ms.add((ended_s - began_s) * 1000, ended_s)
        if replica.offline:
            return False  # another log of its directory has failed meanwhile
        replica.log.flushed(plan)
        replica.partition.flushed(replica.log.recovery_point)
        self._purgatory.changed(replica.key)
        self.on_flushed(replica)
        return replica.log.flush_wanted
