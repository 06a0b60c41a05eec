"""What a broker does for its logs now and then: checkpoints, timed flushes, removing files."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from kavka.log.fs import FileSystem
from kavka.log.manager import LogManager, remove_garbage
from kavka.seams import Clock, Jobs, Tasks
from kavka.server.config import BrokerSettings
from kavka.server.replica.manager import ReplicaManager

logger = logging.getLogger(__name__)

FILE_DELETE_DELAY_MS: Final = 60_000
"""Apache Kafka's default of `file.delete.delay.ms`: who still reads a removed file can finish."""

NEVER_MS: Final = 2**62
"""Intervals above this mean that nothing is to be done (`log.flush.scheduler.interval.ms`)."""


class Upkeep:
    """Runs from `start` to `stop`. A failure is logged, and tried again the next time."""

    def __init__(
        self,
        settings: BrokerSettings,
        *,
        fs: FileSystem,
        logs: LogManager,
        replicas: ReplicaManager,
        clock: Clock,
        tasks: Tasks,
        jobs: Jobs,
    ) -> None:
        self._settings = settings
        self._fs = fs
        self._logs = logs
        self._replicas = replicas
        self._clock = clock
        self._tasks = tasks
        self._jobs = jobs
        self._running: list[asyncio.Task[Any]] = []
        self._saved: object = None

    def start(self) -> None:
        """Begin all of it, each at its own interval."""
        settings = self._settings
        checkpoint_ms = min(
            settings.replica_high_watermark_checkpoint_interval_ms,
            settings.log_flush_offset_checkpoint_interval_ms,
            settings.log_flush_start_offset_checkpoint_interval_ms,
        )
        self._every(checkpoint_ms, self.checkpoint, "checkpoints")
        self._every(settings.log_flush_scheduler_interval_ms, self.flush, "flush")
        self._every(FILE_DELETE_DELAY_MS, self.remove_garbage, "removal of files")

    async def stop(self) -> None:
        """End it; what a thread is doing for it is waited for by `Jobs`."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def _every(self, interval_ms: int, work: Callable[[], Awaitable[None]], what: str) -> None:
        if interval_ms < NEVER_MS:
            loop = self._loop(interval_ms / 1000, work, what)
            self._running.append(self._tasks.spawn(loop, name=what))

    async def _loop(
        self, interval_s: float, work: Callable[[], Awaitable[None]], what: str
    ) -> None:
        while True:
            await self._tasks.sleep(interval_s)
            try:
                await work()
            except OSError as failure:
                logger.error("%s: %s", what, failure)

    async def checkpoint(self) -> None:
        """Save recovery points, start offsets and high watermarks, if any has changed."""
        watermarks = self._replicas.high_watermarks()
        state = (watermarks, [(log.recovery_point, log.start_offset) for log in self._logs])
        if state != self._saved:
            await self._jobs.run(self._logs.checkpoint(watermarks).run)
            self._saved = state

    async def flush(self) -> None:
        """Bring to the disk what `flush.ms` says should be there by now."""
        now_ms = self._clock.now_ms()
        for replica in self._replicas:
            if replica.log.flush_needed(now_ms):
                self._replicas.flush_soon(replica)

    async def remove_garbage(self) -> None:
        """Remove the files of deleted logs and segments."""
        garbage = self._logs.take_garbage()
        if garbage:
            await self._jobs.run(remove_garbage, self._fs, garbage)
