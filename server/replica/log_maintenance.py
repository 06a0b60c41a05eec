"""What a broker does for its logs at intervals: checkpoints, timed flushes, retention, expiry of
producer ids, and removal of deleted files."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from kavka.log.checkpoint import TopicPartition
from kavka.log.deferred_deletes import remove_paths
from kavka.log.fs import FileSystem, is_fd_exhaustion
from kavka.log.manager import LOGS_PER_STEP, LogManager
from kavka.seams import Clock, Jobs, Pool, Tasks
from kavka.server.config.live import LiveSettings
from kavka.server.replica.manager import ReplicaManager
from kavka.server.runtime.cooperative import run_rest

logger = logging.getLogger(__name__)

DELETE_CHECK_INTERVAL_MS: Final = 1000
"""Files are removed up to twice this interval later than `file.delete.delay.ms` says."""

DELETE_RETRY_MS: Final = 10_000
"""Delay before files are tried again that could not be removed for lack of file descriptors."""

CHECKED_PER_STEP: Final = 20
"""Logs checked in one step, at 2 us each; 50 us where an index must be opened."""

PRODUCERS_PER_STEP: Final = 5000
"""Producers checked in one step, at 0.2 us each."""

NEVER_MS: Final = 2**62
"""Intervals above this mean that nothing is to be done (`log.flush.scheduler.interval.ms`)."""


class LogMaintenance:
    """Runs from `start` to `stop`. A failure is logged, and tried again the next time."""

    def __init__(
        self,
        live: LiveSettings,
        *,
        fs: FileSystem,
        logs: LogManager,
        replicas: ReplicaManager,
        clock: Clock,
        tasks: Tasks,
        jobs: Jobs,
    ) -> None:
        self._live = live
        self._fs = fs
        self._logs = logs
        self._replicas = replicas
        self._clock = clock
        self._tasks = tasks
        self._jobs = jobs
        self._running: list[asyncio.Task[Any]] = []
        self._saved: object = None
        self._checkpointing = asyncio.Lock()

    def start(self) -> None:
        """Begin all tasks, each at its own interval."""
        settings = self._live.now
        checkpoint_ms = min(
            settings.replica_high_watermark_checkpoint_interval_ms,
            settings.log_flush_offset_checkpoint_interval_ms,
            settings.log_flush_start_offset_checkpoint_interval_ms,
        )
        self._every(checkpoint_ms, self.checkpoint, "checkpoints")
        self._every(settings.log_flush_scheduler_interval_ms, self.flush, "flush")
        self._every(
            settings.log_retention_check_interval_ms,
            self.delete_old,
            "retention",
            first_ms=settings.log_initial_task_delay_ms,
        )
        self._every(
            settings.producer_id_expiration_check_interval_ms,
            self.forget_producers,
            "producers' expiry",
        )
        self._every(DELETE_CHECK_INTERVAL_MS, self.delete_due_files, "removal of files")

    async def stop(self) -> None:
        """End all tasks; jobs that are still in threads are waited for by `Jobs`."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def _every(
        self,
        interval_ms: int,
        work: Callable[[], Awaitable[object]],
        name: str,
        *,
        first_ms: int | None = None,
    ) -> None:
        """Do `work` at an interval, the first time after `first_ms` if that is given."""
        if interval_ms < NEVER_MS:
            first_s = (interval_ms if first_ms is None else first_ms) / 1000
            loop = self._loop(first_s, interval_ms / 1000, work, name)
            self._running.append(self._tasks.spawn(loop, name=name))

    async def _loop(
        self, first_s: float, interval_s: float, work: Callable[[], Awaitable[object]], name: str
    ) -> None:
        wait_s = first_s
        while True:
            await self._tasks.sleep(wait_s)
            wait_s = interval_s
            try:
                await work()
            except OSError as failure:
                logger.error("%s: %s", name, failure)
            except Exception:  # perhaps of one log only: the others still need the next run
                logger.exception("%s failed", name)

    async def checkpoint(self) -> bool:
        """Save recovery points, start offsets and high watermarks, if any has changed. Calls run
        one after the other. Whether all are saved, apart from those of directories that have
        failed."""
        async with self._checkpointing:
            return await self._checkpoint()

    async def _checkpoint(self) -> bool:
        watermarks: dict[TopicPartition, int] = {}
        for count, replica in enumerate(self._replicas, 1):
            watermarks[replica.key] = replica.partition.high_watermark
            if count % LOGS_PER_STEP == 0:
                await self._tasks.sleep(0)
        points: list[object] = []
        for count, log in enumerate(self._logs, 1):
            points.append((log.recovery_point, log.start_offset, log.compaction.clean_upto))
            if count % LOGS_PER_STEP == 0:
                await self._tasks.sleep(0)
        copies = [
            (copy.path, copy.copier.flushed_end)
            for copy in self._logs.futures
            if copy.copier is not None
        ]
        state = watermarks, points, copies
        if state != self._saved:
            plan = self._logs.begin_checkpoint()
            await run_rest(self._tasks, self._logs.fill(plan, watermarks))
            await self._jobs.run(Pool.WRITE, plan.run)
            self._saved = None if plan.lacked_descriptors else state
            for directory, failure in plan.failures.items():
                if is_fd_exhaustion(failure):
                    logger.error("can't write checkpoints of %s; retrying: %s", directory, failure)
                else:
                    self._replicas.failures.directory_failed(directory, failure)
            return not plan.lacked_descriptors
        return True

    async def flush(self) -> None:
        """Flush the logs that are due by `flush.ms`."""
        now_ms = self._clock.now_ms()
        for replica in self._replicas:
            if replica.log.flush_needed(now_ms):
                self._replicas.flusher.flush_soon(replica)

    async def delete_old(self) -> None:
        """Delete the segments that retention, or a moved log start offset, has made obsolete."""
        now_ms = self._clock.now_ms()
        for count, replica in enumerate(self._replicas, 1):
            await replica.delete_old_segments(now_ms, self._tasks)
            if count % CHECKED_PER_STEP == 0:
                await self._tasks.sleep(0)

    async def forget_producers(self) -> None:
        """Forget the producers that have not written for `producer.id.expiration.ms`, except those
        with an open transaction."""
        before_ms = self._clock.now_ms() - self._live.now.producer_id_expiration_ms
        for count, replica in enumerate(self._replicas, 1):
            producers = replica.log.producers
            producers.verifications.expire(before_ms)
            done = 0
            for looked_at in producers.expire(before_ms):
                done += looked_at
                if done >= PRODUCERS_PER_STEP:
                    done = 0
                    await self._tasks.sleep(0)
            if count % CHECKED_PER_STEP == 0:
                await self._tasks.sleep(0)

    async def delete_due_files(self) -> None:
        """Remove the files of deleted logs and segments whose time has come."""
        paths = self._logs.deferred_deletes.due(self._clock.monotonic_s())
        if paths:
            left = await self._jobs.run(Pool.WRITE, remove_paths, self._fs, paths)
            self._logs.deferred_deletes.add(left, DELETE_RETRY_MS)
