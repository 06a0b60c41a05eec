"""The partitions that this broker hosts: finding them, writing to them, keeping their logs safe.

Joins the machine of a partition (`partition_state.py`) with its log (`kavka.log`). Everything here
runs on the loop, and from check to apply nothing waits; fsync goes through `Jobs`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from kavka.log.errors import CorruptLogError, StorageError
from kavka.log.fs import is_shortage
from kavka.log.manager import LogManager
from kavka.log.partition_log import PartitionLog
from kavka.seams import Clock, Jobs, Pool, Tasks
from kavka.server.cluster.metadata_cache import MetadataCache
from kavka.server.replica.cleaning_stats import CleaningStats
from kavka.server.replica.replica import Replica
from kavka.server.replica.topic_traffic import Traffic
from kavka.server.runtime.histogram import Histogram
from kavka.server.runtime.purgatory import Purgatory
from kavka.server.runtime.rate_limited_log import LogLimit
from kavka.wire.errors import ApiError, ErrorCode

logger = logging.getLogger(__name__)

OPENED_AT_ONCE_MAX: Final = 4
"""Batches whose records are looked into at once, all partitions together: what they inflate to
is in memory meanwhile (`inflating.INFLATED_BYTES_MAX` each)."""

FLUSHES_AT_ONCE_MAX: Final = 8
"""Logs that are flushed, or wait for a thread with their files open; twice what threads there
are. The others wait without."""

FLUSHED_AGAIN_S: Final = 1.0
"""When a flush is tried again that has found no descriptor."""

RELEASED_PER_TURN: Final = 100
"""Logs of a failed directory whose files are closed before the loop gets a turn."""


class ReplicaManager:
    """All replicas of this broker, by (topic, partition)."""

    def __init__(
        self,
        *,
        logs: LogManager,
        metadata: MetadataCache,
        purgatory: Purgatory,
        clock: Clock,
        tasks: Tasks,
        jobs: Jobs,
    ) -> None:
        self.logs = logs
        self.clock = clock
        self.purgatory = purgatory
        self.traffic = Traffic()
        self.flush_ms = Histogram()
        """How long flushes took, in milliseconds."""
        self.cleaning = CleaningStats()
        self.refusals = LogLimit(logger, logging.INFO, "batches refused", tasks)
        self._metadata = metadata
        self.tasks = tasks
        self.jobs = jobs
        self.opening = asyncio.Semaphore(OPENED_AT_ONCE_MAX)
        self.on_directory_failed: Callable[[], object] = _nothing
        """Called when a log directory has failed, or a log."""
        self.on_role: dict[str, Callable[[Replica], object]] = {}
        """By topic: called when a replica of it may have begun or ceased to lead here."""
        self._missing: dict[tuple[str, int], None] = {}
        self._replicas: dict[tuple[str, int], Replica] = {}
        self._of_topics: dict[str, dict[int, Replica]] = {}
        self._flushes: dict[asyncio.Task[None], Replica] = {}
        self._flush_turns = asyncio.Semaphore(FLUSHES_AT_ONCE_MAX)

    def __iter__(self) -> Iterator[Replica]:
        return iter(list(self._replicas.values()))

    def find(self, topic: str, index: int) -> Replica | None:
        """The replica hosted here, whatever its role."""
        return self._replicas.get((topic, index))

    def of_topic(self, topic: str) -> list[Replica]:
        """The replicas of a topic that are hosted here."""
        return list(self._of_topics.get(topic, {}).values())

    def leader(self, topic: str, index: int) -> Replica:
        """The replica, if this broker leads it; else ApiError with the code that tells the
        client where it went wrong."""
        replica = self._replicas.get((topic, index))
        if replica is not None and replica.partition.is_leader and not replica.offline:
            return replica
        if replica is not None and replica.offline:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        raise ApiError(self.why_missing(topic, index))

    def why_missing(self, topic: str, index: int) -> ErrorCode:
        """What to tell of a partition that this broker does not host, or not as leader."""
        if (topic, index) in self._missing:
            return ErrorCode.KAFKA_STORAGE_ERROR
        known = self._metadata.image.topics.get(topic)
        if known is None or known.partition(index) is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def add(self, replica: Replica) -> None:
        """Host a replica."""
        self._replicas[replica.key] = replica
        topic, index = replica.key
        self._of_topics.setdefault(topic, {})[index] = replica
        replica.traffic = self.traffic.enter(replica.log.topic)

    def remove(self, topic: str, index: int) -> Replica | None:
        """Host it no longer; who waits for it learns that at once."""
        replica = self._replicas.pop((topic, index), None)
        if replica is not None:
            del self._of_topics[topic][index]
            if not self._of_topics[topic]:
                del self._of_topics[topic]
            self.traffic.leave(topic)
            replica.partition.stop()
            self.logs.keep_high_watermark(replica.key, replica.partition.high_watermark)
            self.role_changed(replica)
        return replica

    def role_changed(self, replica: Replica) -> None:
        """A replica leads now, or does not any more, or is served no more: tell who has to know."""
        self.purgatory.changed(replica.key)
        tell = self.on_role.get(replica.log.topic)
        if tell is not None:
            tell(replica)

    # -- the disk -------------------------------------------------------------------------

    def storage_failed(self, replica: Replica, failure: OSError) -> None:
        """A log that can't be written or read takes its whole directory offline."""
        if not replica.offline:
            logger.error("can't write to %s-%d: %s", *replica.key, failure)
            self.directory_failed(self.logs.directory_of(replica.log), failure)

    def directory_failed(self, directory: str, failure: OSError) -> None:
        """The partitions in a log directory are served no more (until a restart)."""
        if directory in self.logs.failed_directories:
            return
        lost = self.logs.fail(directory, failure)
        for log in lost:
            replica = self.find(log.topic, log.partition)
            if replica is not None and replica.log is log:
                replica.offline = True
                self.role_changed(replica)
        self.tasks.spawn(self._release(lost), name="files of a failed log directory")
        self.on_directory_failed()

    async def _release(self, logs: Sequence[PartitionLog]) -> None:
        for number, log in enumerate(logs, 1):
            log.release()
            if number % RELEASED_PER_TURN == 0:
                await self.tasks.sleep(0)

    def miss(self, topic: str, index: int) -> None:
        """The log of a partition must be in a directory that failed before the start."""
        self._missing[(topic, index)] = None

    def misses(self, topic: str, index: int) -> bool:
        """Whether that was said of a partition."""
        return (topic, index) in self._missing

    @property
    def missing_count(self) -> int:
        """Of how many partitions that was said."""
        return len(self._missing)

    def flush_soon(self, replica: Replica) -> None:
        """Bring a log to the disk, one fsync at a time a partition.

        No more of it once the replica is removed: the names of a deleted log's files may by then
        be those of another's.
        """
        if not replica.flushing and not replica.offline and not replica.flushes_held:
            replica.flushing = True
            task = self.tasks.spawn(self._flush(replica), name=f"flush {replica.key}")
            self._flushes[task] = replica
            task.add_done_callback(self._flushes.pop)

    @asynccontextmanager
    async def flushes_held(self, replica: Replica) -> AsyncIterator[None]:
        """Have nothing more of a log said to be on the disk; what is due is flushed afterwards."""
        replica.flushes_held = True
        try:
            while running := [task for task, one in self._flushes.items() if one is replica]:
                await asyncio.wait(running)
            yield
        finally:
            replica.flushes_held = False
            if self.hosts(replica):
                self.flush_soon(replica)

    async def _flush(self, replica: Replica) -> None:
        try:
            is_more = True
            while is_more:
                async with self._flush_turns:
                    is_more = not replica.flushes_held and await self._flush_once(replica)
        except OSError as failure:
            if is_shortage(failure):
                self.refusals.line("%s-%d can't be flushed now: %s", *replica.key, failure)
                self.tasks.call_later(FLUSHED_AGAIN_S, self._flush_again, replica)
            elif self._hosts(replica):
                self.storage_failed(replica, failure)
        except (CorruptLogError, StorageError) as damage:
            if self.hosts(replica):
                self._log_damaged(replica, damage)
        finally:
            replica.flushing = False

    def _flush_again(self, replica: Replica) -> None:
        if self.hosts(replica):
            self.flush_soon(replica)

    def _log_damaged(self, replica: Replica, damage: Exception) -> None:
        """Serve a partition no more (until a restart, which recovers its log) whose files have
        something in them that keeps them from being brought to the disk: what is written from now
        on would be lost. Others in its directory are sound, and go on, other than in Apache Kafka,
        where all that is wrong with a file counts for the whole directory."""
        logger.error("can't flush %s-%d: %s", *replica.key, damage)
        self.logs.leave_unclean(replica.log)
        replica.offline = True
        self.role_changed(replica)
        self.on_directory_failed()

    async def _flush_once(self, replica: Replica) -> bool:
        """Whether there is more to do. OSError; CorruptLogError, StorageError of a damaged log."""
        while self.hosts(replica) and replica.log.history.write_on():
            await self.tasks.sleep(0)
        plan = replica.log.flush_plan(self.clock.now_ms()) if self.hosts(replica) else None
        if plan is None:
            return False
        began_s = self.clock.monotonic_s()
        try:
            await self.jobs.run(Pool.WRITE, plan.run)
        except OSError as failure:
            if is_shortage(failure):
                plan.give_back()
            raise
        ended_s = self.clock.monotonic_s()
        self.flush_ms.add((ended_s - began_s) * 1000, ended_s)
        if replica.offline:
            return False  # another log of its directory has failed meanwhile
        replica.log.flushed(plan)
        replica.partition.flushed(replica.log.recovery_point)
        self.purgatory.changed(replica.key)
        return replica.log.flush_wanted

    def hosts(self, replica: Replica) -> bool:
        """Whether a replica is still the one of its partition here, and not offline."""
        return self._hosts(replica) and not replica.offline

    def _hosts(self, replica: Replica) -> bool:
        return self._replicas.get(replica.key) is replica

    async def flushed(self) -> None:
        """Wait until no flush is under way."""
        await asyncio.gather(*self._flushes, return_exceptions=True)

    def high_watermarks(self) -> dict[tuple[str, int], int]:
        """What `replication-offset-checkpoint` holds."""
        return {r.key: r.partition.high_watermark for r in self._replicas.values()}


def _nothing() -> None:
    """Nobody wants to know."""
