"""The broker's log cleaner: picks the dirtiest log, has it compacted, and swaps the files in.

A process of its own compacts one log (`kavka.log.compaction.run`); up to `log.cleaner.threads` run
at a time. The segments that it has written replace the old ones group by group, if the log is still
hosted here and has not been truncated; else the process is ended and its files are removed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kavka.log.errors import CorruptLogError
from kavka.log.fs import FileSystem, is_fd_exhaustion
from kavka.log.settings import COMPACT
from kavka.seams import Clock, Jobs, Pool, ProcessLost, Tasks
from kavka.server.config import BrokerSettings
from kavka.server.config.live import LiveSettings
from kavka.server.replica.manager import ReplicaManager
from kavka.server.replica.replica import Replica
from kavka.server.runtime.cooperative import run_rest

if TYPE_CHECKING:  # not imported by a broker that compacts nothing
    from kavka.log.compaction.candidates import Cleanable
    from kavka.log.compaction.order import CompactionOrder, CompactionResult, Progress, Replacement

logger = logging.getLogger(__name__)

LOGS_PER_STEP: Final = 20
"""Compacted logs examined in one step, at some 20 us each."""

MAP_BYTES_MAX: Final = 2**31 - 1
"""The most of `log.cleaner.dedupe.buffer.size` that Apache Kafka uses for one log."""

PROGRESS_S: Final = 10.0
"""Seconds between two lines of progress."""

MODULES: Final = (
    "kavka.log.compaction.candidates",
    "kavka.log.compaction.order",
    "kavka.log.compaction.swap",
    "kavka.log.compaction.cleaned",
    "kavka.log.compaction.filtering",
    "kavka.log.compaction.run",
)
"""Modules that the first compaction imports, each after those that it imports itself: 14 ms."""

_tuning = attrgetter(
    "log_cleaner_backoff_ms",
    "log_cleaner_dedupe_buffer_size",
    "log_cleaner_io_buffer_load_factor",
    "log_cleaner_io_buffer_size",
    "log_cleaner_io_max_bytes_per_second",
    "log_cleaner_threads",
)
"""The settings whose change restarts all compactions."""

_MIB: Final = 1 << 20


class _Candidate(NamedTuple):
    replica: Replica
    cleanable: Cleanable


def examine(replica: Replica, now_ms: int) -> Cleanable:
    """The part of a log that may be compacted. CorruptLogError, OSError."""
    log = replica.log
    return log.compaction.examine(
        log.settings,
        first_dirty=log.compaction.first_dirty(log.start_offset, log.end_offset),
        # a flushed record may not be dropped for a newer one that a power cut would lose
        last_stable=min(replica.last_stable_offset, log.recovery_point),
        now_ms=now_ms,
    )


class LogCleaner:
    """Runs from `start` to `stop`."""

    def __init__(
        self,
        live: LiveSettings,
        *,
        fs: FileSystem,
        replicas: ReplicaManager,
        clock: Clock,
        tasks: Tasks,
        jobs: Jobs,
        checkpoint: Callable[[], Awaitable[object]],
    ) -> None:
        """`checkpoint` saves the cleaner's checkpoints."""
        self._live = live
        self._fs = fs
        self._replicas = replicas
        self._stats = replicas.cleaning
        self._clock = clock
        self._tasks = tasks
        self._jobs = jobs
        self._checkpoint = checkpoint
        self._runners: dict[int, asyncio.Task[Any]] = {}
        self._backoffs: set[asyncio.Future[None]] = set()
        """What runners without work wait for."""
        self._cleanings: set[_Cleaning] = set()
        """The compactions of the other runners."""
        self._busy_directories: dict[str, None] = {}
        """Directories in which a process writes or removes files, possibly for a deleted log of the
        same name: another process there would use the same file names."""

    def start(self) -> None:
        """Begin, if `log.cleaner.enable` is set."""
        self._stats.checked_ms = self._clock.now_ms()
        if self._live.now.log_cleaner_enable:
            self._live.on_change(self._changed)
            self._start_runners(self._live.now)

    def _changed(self, old: BrokerSettings, new: BrokerSettings) -> None:
        """As Apache Kafka, abort everything and start over: a backoff, or a throttled compaction,
        might take days."""
        if _tuning(old) != _tuning(new):
            for cleaning in self._cleanings:
                cleaning.abort()
            for backoff in self._backoffs:
                _wake(backoff)
        self._start_runners(new)

    def _start_runners(self, settings: BrokerSettings) -> None:
        """Start the runners that are missing; those above the number end by themselves."""
        for number in range(settings.log_cleaner_threads):
            if number not in self._runners:
                self._stats.dead.pop(number, None)
                run = self._run(number)
                self._runners[number] = self._tasks.spawn(run, name=f"log cleaner {number}")

    async def stop(self) -> None:
        """End it; compactions under way are discarded."""
        runners = list(self._runners.values())
        for runner in runners:
            runner.cancel()
        await asyncio.gather(*runners, return_exceptions=True)

    async def _run(self, number: int) -> None:
        try:
            while number < self._live.now.log_cleaner_threads:
                tuning = _tuning(self._live.now)
                if not await self.clean_dirtiest(number) and tuning == _tuning(self._live.now):
                    await self._back_off()
        except Exception:
            self._stats.dead[number] = None
            raise
        finally:
            del self._runners[number]

    async def _back_off(self) -> None:
        """Wait for `log.cleaner.backoff.ms`, or until the settings have changed."""
        backoff: asyncio.Future[None] = self._tasks.future()
        self._backoffs.add(backoff)
        backoff_s = self._live.now.log_cleaner_backoff_ms / 1000
        timer = self._tasks.call_later(backoff_s, _wake, backoff)
        try:
            await backoff
        finally:
            timer.cancel()
            self._backoffs.remove(backoff)

    # --- one log

    async def clean_dirtiest(self, number: int = 0) -> bool:
        """Compact the dirtiest of the logs that are due; False if there is none, or it failed."""
        choice = await self._choose()
        if choice is None:
            return False
        replica, cleanable = choice
        compaction = replica.log.compaction
        compaction.started()
        self._busy_directories[replica.log.directory] = None
        try:
            outcome = await self._clean(replica, cleanable)
            if outcome is None:
                await self._remove_cleaned_files(replica)
        finally:
            compaction.ended()
            del self._busy_directories[replica.log.directory]
        if outcome is not None:
            compaction.clean_upto = outcome.end_offset
        # as Apache Kafka's cleaner does after each log: else a log that is compacted all the time
        # would keep what retention should delete
        await replica.delete_old_segments(self._clock.now_ms(), self._tasks)
        if outcome is None:
            return False
        self._stats.last[number] = outcome
        _log_outcome(replica, cleanable, outcome)
        await self._checkpoint()
        return True

    async def _clean(self, replica: Replica, cleanable: Cleanable) -> CompactionResult | None:
        """The outcome; None if the log was not compacted. Failures are logged."""
        cleaning = _Cleaning(self._replicas, replica, self._clock)
        self._cleanings.add(cleaning)
        try:
            order = await self._order(replica, cleanable)
            outcome = await cleaning.run(self._jobs, self._fs, order)
            if outcome is not None:
                # else the checkpoint could survive a power cut that takes the new segments back
                await self._jobs.run(Pool.WRITE, self._fs.sync_dir, replica.log.directory)
            return outcome if cleaning.is_wanted else None
        except ProcessLost as failure:
            logger.error("compaction of %s-%d failed: %s", *replica.key, failure)
        except OSError as failure:
            if is_fd_exhaustion(failure):
                logger.error("can't compact %s-%d now: %s", *replica.key, failure)
            elif replica.is_served:
                self._replicas.failures.storage_failed(replica, failure)
        except Exception as failure:
            self._mark_uncleanable(replica, failure)
        finally:
            self._cleanings.remove(cleaning)
        return None

    def _mark_uncleanable(self, replica: Replica, failure: Exception) -> None:
        """Skip a log that can't be compacted, as Apache Kafka does, so that others are."""
        if isinstance(failure, CorruptLogError):
            logger.error(
                "marked %s-%d uncleanable until restart: %s", *replica.key, failure.message
            )
        else:
            logger.error("marked %s-%d uncleanable until restart", *replica.key, exc_info=failure)
        self._stats.uncleanable[replica] = None

    async def _remove_cleaned_files(self, replica: Replica) -> None:
        """Remove the files of a failed or aborted compaction. Its process may still run: the one
        that is begun here waits for its end."""
        from kavka.log.compaction.run import remove_cleaned

        if not replica.is_served:
            return  # the files are removed with the log, or by the next start
        directory = replica.log.directory
        try:
            await self._jobs.run_process(
                remove_cleaned,
                self._fs,
                directory,
                on_message=_ignore,
                keep=self._fs.lock_descriptors(),
            )
        except (OSError, ProcessLost) as failure:
            if replica.is_served:
                logger.warning(
                    "can't remove files of an abandoned compaction from %s: %s", directory, failure
                )

    async def _choose(self) -> _Candidate | None:
        """The log with the highest dirty ratio, of those that are due."""
        now_ms = self._stats.checked_ms = self._clock.now_ms()
        for replica in list(self._stats.uncleanable):
            if not replica.is_served:
                del self._stats.uncleanable[replica]
        compacted = [r for r in self._replicas if COMPACT in r.log.settings.cleanup_policy]
        found: list[_Candidate] = []
        for count, replica in enumerate(compacted, 1):
            cleanable = self._examine(replica, now_ms)
            if cleanable is not None:
                found.append(_Candidate(replica, cleanable))
            if count % LOGS_PER_STEP == 0:
                await self._tasks.sleep(0)
        self._stats.dirtiest_ratio = max(
            (candidate.cleanable.ratio for candidate in found), default=0.0
        )
        due = [
            candidate
            for candidate in found
            if candidate.cleanable.is_due(candidate.replica.log.settings)
            and self._is_free(candidate.replica)
        ]
        if not due:
            return None
        self._stats.overdue_ms = max(candidate.cleanable.overdue_ms for candidate in due)
        return max(due, key=lambda candidate: candidate.cleanable.ratio)

    def _is_free(self, replica: Replica) -> bool:
        return (
            replica.is_served
            and not replica.log.compaction.running
            and not replica.log.compaction.paused
            and replica not in self._stats.uncleanable
            and replica.log.directory not in self._busy_directories
        )

    def _examine(self, replica: Replica, now_ms: int) -> Cleanable | None:
        """What can be compacted of a log; None if it is busy, paused, uncleanable or failed."""
        if not self._is_free(replica):
            return None
        log = replica.log
        if log.flush_wanted:
            self._replicas.flusher.flush_soon(replica)
        try:
            return examine(replica, now_ms)
        except OSError as failure:
            if not is_fd_exhaustion(failure):  # else the next attempt may succeed
                self._replicas.failures.storage_failed(replica, failure)
        except Exception as failure:
            self._mark_uncleanable(replica, failure)
        return None

    async def _order(self, replica: Replica, cleanable: Cleanable) -> CompactionOrder:
        from kavka.log.compaction.order import CompactionLimits, LastRecords

        settings = self._live.now
        share = max(1, settings.log_cleaner_threads)
        limits = CompactionLimits(
            map_bytes=min(settings.log_cleaner_dedupe_buffer_size // share, MAP_BYTES_MAX),
            load_factor=settings.log_cleaner_io_buffer_load_factor,
            read_bytes=settings.log_cleaner_io_buffer_size // share // 2,
            bytes_per_s=settings.log_cleaner_io_max_bytes_per_second / share,
        )
        log, producers = replica.log, LastRecords.none()
        await run_rest(self._tasks, log.compaction.collect_last_records(producers))
        now_ms = self._clock.now_ms()
        return log.compaction.order(log.settings, cleanable, producers, limits, now_ms)


class _Cleaning:
    """One log while it is compacted."""

    def __init__(self, replicas: ReplicaManager, replica: Replica, clock: Clock) -> None:
        self._replicas = replicas
        self._replica = replica
        self._compaction = replica.log.compaction
        self._serial = self._compaction.serial
        self._clock = clock
        self._began_s = self._logged_s = clock.monotonic_s()
        self._job: asyncio.Future[CompactionResult] | None = None
        self._aborted = False

    async def run(
        self, jobs: Jobs, fs: FileSystem, order: CompactionOrder
    ) -> CompactionResult | None:
        """The outcome; None if the log has changed meanwhile, or is gone. Raises what `compact`
        raises, and ProcessLost."""
        from kavka.log.compaction.run import compact  # imports what only the process needs

        if not self.is_wanted:
            return None
        job = self._job = jobs.run_process(
            compact, fs, order, on_message=self._on_message, keep=fs.lock_descriptors()
        )
        try:
            await asyncio.wait([job])
        finally:
            job.cancel()
        if not self.is_wanted:
            return None
        return job.result()

    @property
    def is_wanted(self) -> bool:
        """Whether the log is hosted, not truncated, and still to be compacted by this run."""
        return (
            not self._aborted
            and self._replica.is_served
            and self._compaction.serial == self._serial
            and COMPACT in self._replica.log.settings.cleanup_policy
        )

    def _on_message(self, message: Progress | Replacement) -> None:
        """Called on the loop with a message of the process."""
        if self.is_wanted and self._apply(message):
            return
        self.abort()

    def abort(self) -> None:
        """End the process; segments that were replaced stay replaced."""
        self._aborted = True
        if self._job is not None:
            self._job.cancel()

    def _apply(self, message: Progress | Replacement) -> bool:
        """Log progress, or swap in new segments. Whether to go on."""
        from kavka.log.compaction.order import Progress

        if isinstance(message, Progress):
            self._log_progress(message)
            return True
        try:
            return self._compaction.replace(self._replica.log.settings, message, self._serial)
        except OSError as failure:
            if is_fd_exhaustion(failure):
                logger.error("can't compact %s-%d now: %s", *self._replica.key, failure)
            else:
                self._replicas.failures.storage_failed(self._replica, failure)
            return False

    def _log_progress(self, message: Progress) -> None:
        now_s = self._clock.monotonic_s()
        if now_s - self._logged_s >= PROGRESS_S:
            self._logged_s = now_s
            logger.info(
                "compacting %s-%d: %s, %d of %d MB read, %.1f MB/s",
                *self._replica.key,
                message.stage,
                message.bytes_done // _MIB,
                message.bytes_in_all // _MIB,
                message.bytes_done / _MIB / (now_s - self._began_s),
            )


def _wake(backoff: asyncio.Future[None]) -> None:
    if not backoff.done():
        backoff.set_result(None)


def _ignore(message: object) -> None:
    """`remove_cleaned` sends no messages."""


def _log_outcome(replica: Replica, cleanable: Cleanable, outcome: CompactionResult) -> None:
    topic, partition = replica.key
    spent_s = max(outcome.total_s, 0.001)
    logger.info(
        "compacted %s-%d from offset %d to %d in %.1f s (%.1f s to index %.1f MB): "
        "%.1f to %.1f MB at %.1f MB/s, %d of %d records kept, map %.1f%% full",
        topic,
        partition,
        cleanable.first_dirty,
        outcome.end_offset,
        outcome.total_s,
        outcome.index_s,
        outcome.bytes_indexed / _MIB,
        outcome.bytes_read / _MIB,
        outcome.bytes_written / _MIB,
        (outcome.bytes_indexed + outcome.bytes_read) / _MIB / spent_s,
        outcome.records_kept,
        outcome.records_read,
        100 * outcome.map_utilization,
    )
    if outcome.records_keyless:
        logger.warning(
            "removed %d records without a key from %s-%d", outcome.records_keyless, topic, partition
        )
    for place in outcome.batches_broken:
        logger.warning("can't decompress the batch in %s; kept it as it is", place)
