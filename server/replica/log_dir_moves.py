"""Replicas that move from one log directory of this broker to another while they are served.

Each move is a task. It copies the log in threads (`log/future_log_copier.py`), a few moves at a
time and within `replica.alter.log.dirs.io.max.bytes.per.second`. When all but a short tail is
copied and flushed, it copies the tail and promotes the copy, in one go on the loop, between two
requests: the log goes on in it. Then the source directory is deleted. A broker that starts resumes
the copies that it finds; in a cluster, once the controller has it host their replicas.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

from kavka.log import dir_names as names
from kavka.log.errors import CorruptLogError
from kavka.log.file_copying import SourceError, of_source, remove_content, remove_files
from kavka.log.fs import FileSystem, is_fd_exhaustion
from kavka.log.future_log_copier import STEP_BYTES_MAX, CopyStep, FutureLogCopier
from kavka.log.futures import FutureLog
from kavka.seams import Clock, Jobs, Pool, Tasks
from kavka.server.config.live import LiveSettings
from kavka.server.replica.manager import ReplicaManager
from kavka.server.replica.move_rate import MoveRate
from kavka.server.replica.replica import Replica
from kavka.server.runtime.rate_limited_logger import RateLimitedLogger
from kavka.wire.errors import ApiError, ErrorCode

logger = logging.getLogger(__name__)

RETRY_S: Final = 1.0
"""Delay before a move is tried again that has failed for lack of file descriptors."""

PROMOTE_RETRY_S: Final = 0.05
"""Delay before a copy is promoted again whose log has grown by more than is copied on the loop."""

TAIL_STEPS_MAX: Final = 20
"""Steps in which the tail is copied, without an fsync, before the copy is flushed once more."""

Key: TypeAlias = tuple[str, int]


async def _no_checkpoint() -> bool:
    return False


@dataclass(slots=True)
class MoveServices:
    """What all moves share."""

    fs: FileSystem
    replicas: ReplicaManager
    rate: MoveRate
    tasks: Tasks
    jobs: Jobs
    checkpoint: Callable[[], Awaitable[bool]] = _no_checkpoint
    """Saves recovery points, start offsets and high watermarks; whether all are saved."""


class ReplicaMoves:
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
    ) -> None:
        rate = MoveRate(live, clock=clock, tasks=tasks)
        self._services = MoveServices(fs, replicas, rate, tasks, jobs)
        self._replicas = replicas
        self._logs = replicas.logs
        at_once = live.now.num_replica_alter_log_dirs_threads
        self._slots = asyncio.Semaphore(max(1, at_once or len(live.now.log_dirs)))
        self._running: dict[_Move, asyncio.Task[None]] = {}
        """All moves that have not ended, the cancelled ones too."""
        self._moving: dict[Key, _Move] = {}
        """The last move of each replica, until it ends."""
        self.refusals = RateLimitedLogger(logger, logging.INFO, "moves refused", tasks)

    def start(self, checkpoint: Callable[[], Awaitable[bool]], *, is_alone: bool) -> None:
        """Resume the moves that were under way when the broker stopped; in a cluster (not
        `is_alone`) when the controller has asked this broker to host their replicas. `checkpoint`
        saves recovery points, start offsets and high watermarks, and returns whether all are saved.
        """
        self._services.checkpoint = checkpoint
        self._replicas.on_hosted = self._resume_hosted
        waiting = 0
        for copy in self._logs.futures:
            replica = self._replicas.find(*copy.key)
            if replica is not None or is_alone:
                self._resume(copy, replica)
            else:
                waiting += 1
        if waiting:
            logger.info(
                "%d moves to other log directories continue when the controller has asked for "
                "their replicas",
                waiting,
            )

    def _resume_hosted(self, replica: Replica) -> None:
        copy = self._logs.futures.get(replica.key)
        if copy is not None:
            self._resume(copy, replica)

    def _resume(self, copy: FutureLog, replica: Replica | None) -> None:
        if self._is_stray(copy, replica):
            self._discard_stray(copy)
        elif replica is None or replica.offline or self._logs.failed_directories:
            logger.warning(
                "can't resume the move to %s: a log directory is not online; kept it as it is",
                copy.path,
            )
        else:
            self._logs.futures.resume(copy, replica.log)
            self._begin(replica, copy)

    async def stop(self) -> None:
        """End all moves. Copies are left as after a clean shutdown; the next start resumes them."""
        running = dict(self._running)
        for task in running.values():
            task.cancel()
        await asyncio.gather(*running.values(), return_exceptions=True)
        await asyncio.gather(*(move.job for move in running if move.job is not None))
        for copy in self._logs.futures:
            await self._keep_for_restart(copy)
        for key in self._logs.futures.sources:
            try:
                self._logs.futures.delete_source_durably(key)
            except OSError as failure:  # the next start deletes it
                logger.error("can't delete the source of the move of %s-%d: %s", *key, failure)

    async def _keep_for_restart(self, copy: FutureLog) -> None:
        fs, jobs = self._services.fs, self._services.jobs
        try:
            step = None if copy.copier is None else copy.copier.truncate_to_whole_batch()
            if step is not None:
                await jobs.run(Pool.WRITE, step.run)
            elif not copy.is_sound:
                await jobs.run(Pool.WRITE, remove_content, fs, copy.path)
        except (CorruptLogError, SourceError) as failure:
            logger.error("can't keep the copy in %s: %s", copy.path, failure)
            await jobs.run(Pool.WRITE, remove_content, fs, copy.path)
        except OSError as failure:
            self._replicas.failures.directory_failed(copy.directory, failure)

    def _is_stray(self, copy: FutureLog, replica: Replica | None) -> bool:
        """Whether a copy belongs to no move: the topic was deleted while the copy's log directory
        was offline, or the log was lost and made anew, in the copy's own log directory."""
        if replica is None:
            missing = self._replicas.error_of_missing(*copy.key)
            return missing is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if self._logs.directory_of(replica.log) == copy.directory:
            return True
        return copy.topic_id is not None and copy.topic_id != replica.topic_id

    def _discard_stray(self, copy: FutureLog) -> None:
        logger.warning("deleting %s: it is a copy of a log that is gone", copy.path)
        try:
            self._logs.futures.discard(copy.key)
        except OSError as failure:
            self._replicas.failures.directory_failed(copy.directory, failure)

    # --- AlterReplicaLogDirs

    def alter(self, topic: str, index: int, path: str) -> None:
        """Move a replica to the log directory with the absolute path `path`. If it is there
        already, it stays. A move of it to another directory is cancelled. ApiError."""
        key = (topic, index)
        if len(names.future_name(topic, index, "0" * 32)) > names.NAME_BYTES_MAX:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, "the topic's name is too long")
        directory = self._directory(path)
        replica = self._replicas.find(topic, index)
        if replica is not None and replica.offline:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "the replica is offline")
        copy = self._logs.futures.get(key)
        if replica is not None and copy is not None and copy.directory != directory:
            self._cancel(replica, copy)
            copy = None
        if replica is None:
            self._logs.futures.prefer(key, directory)
            missing = self._replicas.error_of_missing(topic, index)
            if missing is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                missing = ErrorCode.REPLICA_NOT_AVAILABLE
            raise ApiError(missing)
        if key in self._moving and copy is not None:
            return
        if self._logs.directory_of(replica.log) == directory:
            return
        if self._logs.failed_directories:  # one of them may have a copy already
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "a log directory has failed")
        try:
            if copy is None:
                copy = self._logs.futures.begin(replica.log, directory)
            else:  # its move ended without it
                self._logs.futures.resume(copy, replica.log)
            self._begin(replica, copy)
        except OSError as failure:
            if not is_fd_exhaustion(failure):
                self._replicas.failures.directory_failed(directory, failure)
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(failure)) from failure

    def _directory(self, path: str) -> str:
        for directory in self._logs.directories:
            if self._logs.absolute(directory) == path:
                if directory in self._logs.failed_directories:
                    raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{path} has failed")
                return directory
        raise ApiError(ErrorCode.LOG_DIR_NOT_FOUND, f"{path} is not in log.dirs")

    def _cancel(self, replica: Replica, copy: FutureLog) -> None:
        """Cancel a move and discard its copy. ApiError when that fails."""
        logger.info("cancelled the move of %s-%d to %s", *replica.key, copy.directory)
        replica.log.compaction.paused = False
        try:
            self._logs.futures.discard(copy.key)
            self._services.tasks.spawn(self._sync_cancelled(copy), name="end of a move")
        except OSError as failure:
            self._replicas.failures.directory_failed(copy.directory, failure)
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(failure)) from failure

    async def _sync_cancelled(self, copy: FutureLog) -> None:
        """Sync the directory: after a power cut the next start would resume the move otherwise."""
        try:
            await self._services.jobs.run(Pool.WRITE, self._services.fs.sync_dir, copy.directory)
        except OSError as failure:
            if not is_fd_exhaustion(failure):
                self._replicas.failures.directory_failed(copy.directory, failure)

    def _begin(self, replica: Replica, copy: FutureLog) -> None:
        assert copy.copier is not None
        logger.info("moving %s-%d to %s", *replica.key, copy.directory)
        replica.log.compaction.pause()
        before = self._moving.get(replica.key)
        move = _Move(self._services, replica, copy, copy.copier)
        run = self._run(move, None if before is None else self._running[before])
        task = self._services.tasks.spawn(run, name="move of {}-{}".format(*replica.key))
        self._running[move] = task
        self._moving[replica.key] = move
        task.add_done_callback(lambda _: self._move_ended(replica.key, move))

    def _move_ended(self, key: Key, move: _Move) -> None:
        del self._running[move]
        if self._moving.get(key) is move:
            del self._moving[key]
            move.replica.log.compaction.paused = False

    async def _run(self, move: _Move, before: asyncio.Task[None] | None) -> None:
        if before is not None:  # it may still delete files where this move copies to
            await asyncio.wait([before])
        async with self._slots:
            while move.is_wanted:
                if await self._try_copy(move):
                    await move.delete_source()
                elif move.is_wanted:
                    await self._services.tasks.sleep(RETRY_S)

    async def _try_copy(self, move: _Move) -> bool:
        """Whether the copy was promoted; if not, try again if the move is still wanted."""
        try:
            return await move.copy()
        except SourceError as error:
            if move.is_wanted and not is_fd_exhaustion(error.failure):
                self._replicas.failures.storage_failed(move.replica, error.failure)
        except OSError as failure:
            if move.is_wanted and not is_fd_exhaustion(failure):
                self._replicas.failures.directory_failed(move.future.directory, failure)
        except CorruptLogError as damage:
            logger.error("can't move %s-%d: %s", *move.replica.key, damage.message)
            if move.is_wanted:
                self._cancel(move.replica, move.future)
        return False


class _Move:
    """The move of one replica, from the first byte to the deletion of the source."""

    def __init__(
        self, services: MoveServices, replica: Replica, future: FutureLog, copier: FutureLogCopier
    ) -> None:
        self._services = services
        self._replicas = services.replicas
        self._logs = services.replicas.logs
        self.replica = replica
        self.future = future
        self._copier = copier
        self._source = self._logs.directory_of(replica.log)
        self.job: asyncio.Task[Exception | None] | None = None
        """The step that a thread works on, possibly after the task has ended."""

    @property
    def is_wanted(self) -> bool:
        """Whether the replica is served here, and the move is not cancelled."""
        return self.replica.is_served and self._logs.futures.get(self.replica.key) is self.future

    async def copy(self) -> bool:
        """Whether the copy was promoted; False: the move is not wanted, or must be tried again.
        SourceError; OSError of the copy; CorruptLogError."""
        copier = self._copier
        while await self._catch_up(is_paced=True):
            await self._run_step(of_source(lambda: copier.complete(moved_file=False)))
            await self._compaction_ended()
            if self.is_wanted and await self._services.checkpoint() and await self._finish():
                return True
            if self.is_wanted:
                await self._services.tasks.sleep(PROMOTE_RETRY_S)
        return False

    async def _compaction_ended(self) -> None:
        """Wait for a compaction that was under way when the move began; no other one begins."""
        compaction = self.replica.log.compaction
        if compaction.running:
            ended = asyncio.Event()
            compaction.when_ended(ended.set)
            await ended.wait()

    async def _catch_up(self, *, is_paced: bool) -> bool:
        """Copy until there is nothing more to copy; False: the move is not wanted."""
        rate = self._services.rate
        while self.is_wanted:
            bytes_max = await rate.portion() if is_paced else STEP_BYTES_MAX
            if not self.is_wanted:
                break
            step = of_source(partial(self._copier.next, bytes_max))
            if step is None:
                return True
            rate.spend(step.size_bytes)
            await self._run_step(step)
        return False

    async def _finish(self) -> bool:
        """Flush the copy while flushes of the log are held back; then copy the tail and promote.
        Whether the copy was promoted."""
        log, copier = self.replica.log, self._copier
        async with self._replicas.flusher.held(self.replica):
            while True:
                while self.is_wanted and of_source(log.producer_manager.write_snapshot_step):
                    await self._services.tasks.sleep(0)
                if not await self._catch_up(is_paced=False):
                    return False
                if not log.producer_manager.is_saving:
                    break
            await self._run_step(of_source(lambda: copier.complete(moved_file=True)))
            for _ in range(TAIL_STEPS_MAX):
                if not self.is_wanted:
                    return False
                if of_source(lambda: copier.is_ready):
                    self._promote()
                    return True
                step = of_source(copier.next)
                if step is None:
                    return False
                await self._run_step(step)
        return False

    def _promote(self) -> None:
        """Have the log use the copy's files from the next request on."""
        self._logs.promote(self.replica.log)
        self.replica.log.compaction.paused = False
        logger.info("moved %s-%d to %s", *self.replica.key, self.future.directory)

    async def delete_source(self) -> None:
        """Delete the source directory, once a power cut can no longer undo the promotion."""
        directory, place = self.future.directory, self.replica.log.directory
        if not await self._retry_shortages(directory, self._services.fs.sync_dir, directory):
            return
        try:
            if self._logs.futures.delete_source(self.replica.key) is None:
                return  # the topic was deleted, or the directory has failed: the mark stays
        except OSError as failure:
            self._replicas.failures.directory_failed(self._source, failure)
            return
        if await self._retry_shortages(self._source, self._services.fs.sync_dir, self._source):
            await self._retry_shortages(directory, _remove_mark, self._services.fs, place)

    async def _retry_shortages(
        self, directory: str, work: Callable[..., object], *args: object
    ) -> bool:
        """Do `work` in a thread, again while file descriptors are short. Whether it succeeded; if
        not, its log directory is offline."""
        while True:
            try:
                await self._services.jobs.run(Pool.WRITE, work, *args)
                return True
            except OSError as failure:
                if not is_fd_exhaustion(failure):
                    self._replicas.failures.directory_failed(directory, failure)
                    return False
            await self._services.tasks.sleep(RETRY_S)

    async def _run_step(self, step: CopyStep) -> None:
        """Run a step in a thread. SourceError; OSError of the copy. `stop` cancels this task and
        waits for the thread by `job`."""

        async def work() -> Exception | None:
            try:
                await self._services.jobs.run(Pool.WRITE, step.run)
            except Exception as failure:
                return failure
            return None

        self.job = self._services.tasks.spawn(
            work(), name="copy of {}-{}".format(*self.replica.key)
        )
        failure = await asyncio.shield(self.job)
        if isinstance(failure, SourceError) and self._copier.is_outdated(step):
            return  # the next step goes on from what the log has now
        if failure is not None:
            raise failure


def _remove_mark(fs: FileSystem, place: str) -> None:
    try:
        remove_files(fs, [f"{place}/{names.MOVED_FILE}"])
        fs.sync_dir(place)
    except FileNotFoundError:
        return  # the topic was deleted meanwhile
