"""Loading the logs at the start of a broker, and closing them at its stop, in threads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from kavka.log.closing import DirectoryClosing
from kavka.log.errors import LoadingStopped
from kavka.log.loading import DirectoryLoading
from kavka.log.manager import LogManager
from kavka.log.settings import LogSettings
from kavka.seams import Clock, Jobs, Pool, Tasks
from kavka.server.runtime.cooperative import run_rest

logger = logging.getLogger(__name__)

PROGRESS_INTERVAL_S: Final = 5.0


class LogStartup:
    """Loads all logs, once, and logs the progress; see `LogManager.loadings`."""

    def __init__(
        self,
        logs: LogManager,
        settings_of: Callable[[str], LogSettings],
        *,
        threads: int,
        clock: Clock,
        tasks: Tasks,
        jobs: Jobs,
    ) -> None:
        """`threads`: how many may recover logs of one directory; `Jobs` must have as many."""
        self._logs = logs
        self._loadings = logs.loadings(settings_of)
        self._threads = threads
        self._clock = clock
        self._tasks = tasks
        self._jobs = jobs
        self._began_s = clock.monotonic_s()
        self._running: list[asyncio.Task[Exception | None]] = []
        self._given_up = False
        self.loaded = False
        """Whether `load` has succeeded."""

    async def load(self) -> None:
        """StorageError: a log can't be served safely, or no directory can be used.
        LoadingStopped: `give_up` was called. If cancelled, threads may go on; see `ended`."""
        progress = self._tasks.spawn(self._log_progress_often(), name="progress of loading logs")
        try:
            await self._in_threads([loading.prepare for loading in self._loadings])
            await self._in_threads([loading.load_most for loading in self._loadings])
            await self._in_threads(
                [
                    loading.load_rest
                    for loading in self._loadings
                    for _ in range(min(self._threads, loading.left))
                ]
            )
        finally:
            progress.cancel()
        for loading in self._loadings:
            await run_rest(self._tasks, self._logs.take_over(loading))
            self._log_progress(loading)
        if (plan := self._logs.recovery_checkpoint()) is not None:
            await self._in_threads([plan.run])
            self._logs.recovery_checkpoint_written(plan)
        self._logs.check_usable()
        self.loaded = True

    def give_up(self) -> None:
        """Have `load` raise LoadingStopped soon, even within a log, or before it begins."""
        self._given_up = True
        self._cancel()

    async def ended(self) -> None:
        """Give up, and wait until no thread works any more, even if `load` was cancelled."""
        self.give_up()
        if self._running:
            await asyncio.wait(self._running)

    async def _in_threads(self, steps: Sequence[Callable[[], None]]) -> None:
        """Run steps of loading log directories in parallel; when one fails, all loading is
        cancelled, and the other steps are waited for."""
        if self._given_up:
            raise LoadingStopped
        if not steps:
            return
        self._running = [
            self._tasks.spawn(self._guarded(step), name="loading of logs") for step in steps
        ]
        await asyncio.wait(self._running)  # which leaves them running where it is cancelled
        for task in self._running:
            if (failure := task.result()) is not None:
                raise failure
        if self._given_up:
            raise LoadingStopped
        self._logs.check_loadings(self._loadings)

    async def _guarded(self, step: Callable[[], None]) -> Exception | None:
        """Run one step of loading a log directory, in a thread. Its failure is returned, and
        cancels the loading of all log directories."""
        try:
            await self._jobs.run(Pool.READ, step)
        except Exception as failure:
            self._cancel()
            return failure
        except asyncio.CancelledError:
            self._cancel()
            raise
        return None

    def _cancel(self) -> None:
        for loading in self._loadings:
            loading.cancelled = True

    async def _log_progress_often(self) -> None:
        while True:
            await self._tasks.sleep(PROGRESS_INTERVAL_S)
            for loading in self._loadings:
                self._log_progress(loading)

    def _log_progress(self, loading: DirectoryLoading) -> None:
        if loading.keys:
            logger.info(
                "loaded %d of %d logs in %s, %s, after %.1f s",
                len(loading.loaded),
                len(loading.keys),
                loading.directory.path,
                "cleanly shut down before" if loading.is_clean else "recovering",
                self._clock.monotonic_s() - self._began_s,
            )


async def close_logs(
    logs: LogManager,
    watermarks: Mapping[tuple[str, int], int] | None,
    *,
    threads: int,
    tasks: Tasks,
    jobs: Jobs,
) -> None:
    """Close all logs in order, and then their directories; `threads` at a time for each."""

    async def close(closing: DirectoryClosing) -> None:
        for _ in closing.parts():
            await asyncio.gather(*(jobs.run(Pool.WRITE, closing.sync) for _ in range(threads)))
            closing.finish()
            await tasks.sleep(0)

    await asyncio.gather(*map(close, logs.closings()))
    await jobs.run(Pool.WRITE, logs.close_directories, watermarks)
