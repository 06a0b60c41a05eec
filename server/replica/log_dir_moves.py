"""Replicas that move from one log directory of this broker to another while they are served.

Each has a task that has its log copied in threads (`kavka.log.mirror`), waits for its turn and for
`replica.alter.log.dirs.io.max.bytes.per.second`, and when all but a little is copied and on the
disk has the log go on in the copy: in one go on the loop, between two requests. What follows, the
deletion of what the log has left, may take its time. A broker that starts goes on with the copies
that are there.
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
from kavka.log.fs import FileSystem, is_shortage
from kavka.log.futures import FutureLog
from kavka.log.mirror import STEP_BYTES_MAX, LogMirror, Step
from kavka.log.mirror_files import SourceError, of_source, remove_files
from kavka.seams import Clock, Jobs, Pool, Tasks
from kavka.server.config.live import LiveSettings
from kavka.server.replica.manager import ReplicaManager
from kavka.server.replica.move_rate import MoveRate
from kavka.server.replica.replica import Replica
from kavka.server.runtime.rate_limited_log import LogLimit
from kavka.wire.errors import ApiError, ErrorCode

logger = logging.getLogger(__name__)

AGAIN_S: Final = 1.0
"""When a move is tried again that has found no descriptor."""

SOON_S: Final = 0.05
"""When it is tried again to have a log go on in its copy, where more was written meanwhile than is
copied on the loop."""

TAIL_STEPS_MAX: Final = 20
"""How often it is tried to catch up with who writes, without an fsync, before another begins."""

Key: TypeAlias = tuple[str, int]


async def _no_checkpoint() -> bool:
    return False


@dataclass(slots=True)
class Tools:
    """What every move works with."""

    fs: FileSystem
    replicas: ReplicaManager
    rate: MoveRate
    tasks: Tasks
    jobs: Jobs
    checkpoint: Callable[[], Awaitable[bool]] = _no_checkpoint
    """Has recovery points and the like written down; whether they are."""


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
        self._tools = Tools(fs, replicas, rate, tasks, jobs)
        self._replicas = replicas
        self._logs = replicas.logs
        at_once = live.now.num_replica_alter_log_dirs_threads
        self._turns = asyncio.Semaphore(max(1, at_once or len(live.now.log_dirs)))
        self._moving: dict[Key, tuple[_Move, asyncio.Task[None]]] = {}
        self.refusals = LogLimit(logger, logging.INFO, "moves refused", tasks)

    def start(self, checkpoint: Callable[[], Awaitable[bool]]) -> None:
        """Go on with the moves that were under way when the broker stopped. `checkpoint` has
        recovery points and the like written down, and tells whether they are."""
        self._tools.checkpoint = checkpoint
        for copy in self._logs.futures:
            replica = self._replicas.find(*copy.key)
            if replica is None or replica.offline or self._logs.failed_directories:
                logger.warning("%s is left as it is: what it is a copy of is not here", copy.path)
                continue
            self._logs.futures.go_on(copy, replica.log)
            self._begin(replica, copy)

    async def stop(self) -> None:
        """End it. What is copied is left as it is after a clean shutdown, for the next start."""
        moving = list(self._moving.values())
        for _, task in moving:
            task.cancel()
        await asyncio.gather(*(task for _, task in moving), return_exceptions=True)
        await asyncio.gather(*(move.job for move, _ in moving if move.job is not None))
        for copy in self._logs.futures:
            await self._leave(copy)
        for key in self._logs.futures.left:
            try:
                self._logs.futures.settle(key)
            except OSError as failure:  # the next start sees to it
                logger.error("can't delete what %s-%d has left: %s", *key, failure)

    async def _leave(self, copy: FutureLog) -> None:
        fs, jobs = self._tools.fs, self._tools.jobs
        try:
            step = None if copy.mirror is None else copy.mirror.cut()
            if step is not None:
                await jobs.run(Pool.WRITE, step.run)
            elif not copy.is_sound:
                await jobs.run(Pool.WRITE, _empty, fs, copy.path)
        except (CorruptLogError, SourceError) as failure:
            logger.error("%s is not kept: %s", copy.path, failure)
            await jobs.run(Pool.WRITE, _empty, fs, copy.path)
        except OSError as failure:
            self._replicas.failures.directory_failed(copy.directory, failure)

    # --- what is asked for

    def alter(self, topic: str, index: int, path: str) -> None:
        """Have a replica move to the log directory with the absolute path `path`; where it is
        there already, it stays, and a move to another directory is given up. ApiError."""
        key = (topic, index)
        if len(names.future_name(topic, index, "0" * 32)) > names.NAME_BYTES_MAX:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, "the topic's name is too long")
        directory = self._directory(path)
        replica = self._replicas.find(topic, index)
        if replica is not None and replica.offline:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "the replica is offline")
        copy = self._logs.futures.get(key)
        if replica is not None and copy is not None and copy.directory != directory:
            self._give_up(replica, copy)
            copy = None
        if replica is None:
            self._logs.futures.prefer(key, directory)
            missing = self._replicas.why_missing(topic, index)
            if missing is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                missing = ErrorCode.REPLICA_NOT_AVAILABLE
            raise ApiError(missing)
        if key in self._moving and copy is not None:
            return
        if self._logs.directory_of(replica.log) == directory:
            return
        if self._logs.failed_directories:  # in one of them there may be a copy already
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "a log directory has failed")
        try:
            if copy is None:
                copy = self._logs.futures.begin(replica.log, directory)
            else:  # left behind when its replica was not here
                self._logs.futures.go_on(copy, replica.log)
            self._begin(replica, copy)
        except OSError as failure:
            if not is_shortage(failure):
                self._replicas.failures.directory_failed(directory, failure)
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(failure)) from failure

    def _directory(self, path: str) -> str:
        for directory in self._logs.directories:
            if self._logs.absolute(directory) == path:
                if directory in self._logs.failed_directories:
                    raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{path} has failed")
                return directory
        raise ApiError(ErrorCode.LOG_DIR_NOT_FOUND, f"{path} is not in log.dirs")

    def _give_up(self, replica: Replica, copy: FutureLog) -> None:
        """End a move. ApiError when that fails."""
        logger.info("%s-%d does not move to %s any more", *replica.key, copy.directory)
        replica.log.compaction.paused = False
        try:
            self._logs.futures.discard(copy.key)
            self._tools.tasks.spawn(self._make_last(copy), name="end of a move")
        except OSError as failure:
            self._replicas.failures.directory_failed(copy.directory, failure)
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(failure)) from failure

    async def _make_last(self, copy: FutureLog) -> None:
        """A power cut may not bring back a copy that was given up: the move would go on."""
        try:
            await self._tools.jobs.run(Pool.WRITE, self._tools.fs.sync_dir, copy.directory)
        except OSError as failure:
            if not is_shortage(failure):
                self._replicas.failures.directory_failed(copy.directory, failure)

    def _begin(self, replica: Replica, copy: FutureLog) -> None:
        assert copy.mirror is not None
        logger.info("%s-%d moves to %s", *replica.key, copy.directory)
        replica.log.compaction.pause()
        before = self._moving.get(replica.key)
        move = _Move(self._tools, replica, copy, copy.mirror)
        run = self._run(move, None if before is None else before[1])
        task = self._tools.tasks.spawn(run, name="move of {}-{}".format(*replica.key))
        self._moving[replica.key] = move, task
        task.add_done_callback(lambda _: self._ended(replica.key, move))

    def _ended(self, key: Key, move: _Move) -> None:
        if self._moving[key][0] is move:
            del self._moving[key]
            move.replica.log.compaction.paused = False

    async def _run(self, move: _Move, before: asyncio.Task[None] | None) -> None:
        if before is not None:  # it may be deleting what is in the directory that this goes to
            await asyncio.wait([before])
        async with self._turns:
            while move.is_wanted:
                if await self._copied(move):
                    await move.settle()
                elif move.is_wanted:
                    await self._tools.tasks.sleep(AGAIN_S)

    async def _copied(self, move: _Move) -> bool:
        """Whether a move has come to its end; else it is to be tried again, if it is wanted."""
        try:
            return await move.copy()
        except SourceError as error:
            if move.is_wanted and not is_shortage(error.failure):
                self._replicas.failures.storage_failed(move.replica, error.failure)
        except OSError as failure:
            if move.is_wanted and not is_shortage(failure):
                self._replicas.failures.directory_failed(move.future.directory, failure)
        except CorruptLogError as damage:
            logger.error("%s-%d can't be moved: %s", *move.replica.key, damage.message)
            if move.is_wanted:
                self._give_up(move.replica, move.future)
        return False


class _Move:
    """One replica on its way, from the first byte to the deletion of what it has left."""

    def __init__(
        self, tools: Tools, replica: Replica, future: FutureLog, mirror: LogMirror
    ) -> None:
        self._tools = tools
        self._replicas = tools.replicas
        self._logs = tools.replicas.logs
        self.replica = replica
        self.future = future
        self._mirror = mirror
        self._source = self._logs.directory_of(replica.log)
        self.job: asyncio.Task[Exception | None] | None = None
        """What a thread does for it, and may do on after the task has ended."""

    @property
    def is_wanted(self) -> bool:
        """Whether the replica is served here, and still to move there."""
        return self.replica.is_served and self._logs.futures.get(self.replica.key) is self.future

    async def copy(self) -> bool:
        """Whether the log goes on in its copy now; else it is not to, or to be tried again.
        SourceError; OSError of the copy; CorruptLogError."""
        mirror = self._mirror
        while await self._catch_up(is_paced=True):
            await self._do(of_source(lambda: mirror.complete(moved_file=False)))
            await self._compaction_ended()
            if self.is_wanted and await self._tools.checkpoint() and await self._finish():
                return True
            if self.is_wanted:
                await self._tools.tasks.sleep(SOON_S)
        return False

    async def _compaction_ended(self) -> None:
        """Wait for a compaction that was under way when the move began; none begins meanwhile."""
        compaction = self.replica.log.compaction
        if compaction.running:
            ended = asyncio.Event()
            compaction.when_ended(ended.set)
            await ended.wait()

    async def _catch_up(self, *, is_paced: bool) -> bool:
        """Copy until nothing is left that was there a moment ago; False: it is not wanted."""
        rate = self._tools.rate
        while self.is_wanted:
            bytes_max = await rate.portion() if is_paced else STEP_BYTES_MAX
            if not self.is_wanted:
                break
            step = of_source(partial(self._mirror.next, bytes_max))
            if step is None:
                return True
            rate.spend(step.size_bytes)
            await self._do(step)
        return False

    async def _finish(self) -> bool:
        """Bring the copy to the disk while no flush may say that more of the log is there; then
        there is but a little between the two."""
        log, mirror = self.replica.log, self._mirror
        async with self._replicas.flusher.held(self.replica):
            if not await self._catch_up(is_paced=False):
                return False
            while self.is_wanted and of_source(log.history.write_on):
                await self._tools.tasks.sleep(0)
            if not self.is_wanted:
                return False
            await self._do(of_source(lambda: mirror.complete(moved_file=True)))
            for _ in range(TAIL_STEPS_MAX):
                if not self.is_wanted:
                    return False
                if of_source(lambda: mirror.is_ready):
                    self._promote()
                    return True
                step = of_source(mirror.next)
                if step is None:
                    return False
                await self._do(step)
        return False

    def _promote(self) -> None:
        """The log goes on in its copy from the next request on."""
        self._logs.promote(self.replica.log)
        self.replica.log.compaction.paused = False
        logger.info("%s-%d is in %s now", *self.replica.key, self.future.directory)

    async def settle(self) -> None:
        """Delete what the log has left, once a power cut can't take its new place away."""
        directory, place = self.future.directory, self.replica.log.directory
        if not await self._lasting(directory, self._tools.fs.sync_dir, directory):
            return
        try:
            if self._logs.futures.bury_left(self.replica.key) is None:
                return  # the topic is deleted, or the directory has failed: the mark stays
        except OSError as failure:
            self._replicas.failures.directory_failed(self._source, failure)
            return
        if await self._lasting(self._source, self._tools.fs.sync_dir, self._source):
            await self._lasting(directory, _remove_mark, self._tools.fs, place)

    async def _lasting(self, directory: str, work: Callable[..., object], *args: object) -> bool:
        """Whether something was done in a log directory."""
        while True:
            try:
                await self._tools.jobs.run(Pool.WRITE, work, *args)
                return True
            except OSError as failure:
                if not is_shortage(failure):
                    self._replicas.failures.directory_failed(directory, failure)
                    return False
            await self._tools.tasks.sleep(AGAIN_S)

    async def _do(self, step: Step) -> None:
        """Have a thread do it; whoever ends this task waits for that by `job`."""

        async def work() -> Exception | None:
            try:
                await self._tools.jobs.run(Pool.WRITE, step.run)
            except Exception as failure:
                return failure
            return None

        self.job = self._tools.tasks.spawn(work(), name="copy of {}-{}".format(*self.replica.key))
        failure = await asyncio.shield(self.job)
        if failure is not None:
            raise failure


def _remove_mark(fs: FileSystem, place: str) -> None:
    try:
        remove_files(fs, [f"{place}/{names.MOVED_FILE}"])
        fs.sync_dir(place)
    except FileNotFoundError:
        return  # the topic was deleted meanwhile


def _empty(fs: FileSystem, path: str) -> None:
    remove_files(fs, [f"{path}/{name}" for name in fs.list_dir(path)])
