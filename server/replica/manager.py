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
from uuid import UUID

from kavka.log.errors import CorruptLogError, StorageError
from kavka.log.fs import is_fd_exhaustion
from kavka.log.manager import LogManager
from kavka.log.markers import append_marker
from kavka.log.partition_log import Appended, PartitionLog
from kavka.log.retention import SEGMENTS_AT_ONCE_MAX
from kavka.log.settings import LogSettings
from kavka.log.txn_guards import Guard
from kavka.seams import Clock, Jobs, Pool, Tasks
from kavka.server.cluster.metadata_cache import MetadataCache
from kavka.server.replica.cleaning_stats import CleaningStats
from kavka.server.replica.partition_state import PartitionState
from kavka.server.replica.record_rules import ALWAYS, Rules
from kavka.server.replica.topic_traffic import TopicTraffic, Traffic
from kavka.server.runtime.histogram import Histogram
from kavka.server.runtime.purgatory import Purgatory
from kavka.server.runtime.rate_limited_log import LogLimit
from kavka.wire.control_records import Marker
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.records import BatchHeader, set_offset_and_epoch

logger = logging.getLogger(__name__)

ANY_EPOCH: Final = -1
"""What a request says that does not know the leader's epoch (KIP-320)."""

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


class Replica:
    """This broker's copy of one partition. `key` names it in the purgatory."""

    __slots__ = (
        "__weakref__",
        "_manager",
        "flushes_held",
        "flushing",
        "key",
        "log",
        "looks_after_ms",
        "offline",
        "partition",
        "rules",
        "topic_id",
        "traffic",
    )

    def __init__(
        self, manager: ReplicaManager, topic_id: UUID, log: PartitionLog, partition: PartitionState
    ) -> None:
        self._manager = manager
        self.key = (log.topic, log.partition)
        self.topic_id = topic_id
        self.log = log
        self.partition = partition
        self.offline = False
        self.flushing = False
        self.flushes_held = False
        self.traffic = TopicTraffic()
        """The topic's, once the replica is hosted."""
        self._rule(log.settings)

    def _rule(self, settings: LogSettings) -> None:
        self.rules = Rules.of(settings)
        self.looks_after_ms = ALWAYS
        """Batches with newer records than this are looked at more closely before they are
        appended: all, unless the topic only bounds times; then it is moved on as time passes."""

    def append(
        self, batch: memoryview, header: BatchHeader, guard: Guard | None = None
    ) -> Appended:
        """Append one checked batch as leader. ApiError when it is refused, OSError never."""
        manager = self._manager
        log = self.log
        try:
            appended = log.append(
                batch,
                header,
                leader_epoch=self.partition.leader_epoch,
                now_ms=manager.clock.now_ms(),
                guard=guard,
            )
        except OSError as failure:
            if is_fd_exhaustion(failure):
                set_offset_and_epoch(
                    batch, header.base_offset, header.leader_epoch
                )  # it may be tried again
                manager.refusals.line("%s-%d can't be written now: %s", *self.key, failure)
            else:
                manager.storage_failed(self, failure)
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR) from failure
        traffic = self.traffic
        traffic.appends += 1
        traffic.messages_in += header.record_count
        traffic.bytes_in += len(batch)
        if not appended.duplicate:
            if self.partition.appended(log.end_offset):
                manager.purgatory.changed(self.key)
            if log.flush_wanted:
                manager.flush_soon(self)
        return appended

    def append_marker(
        self, producer_id: int, producer_epoch: int, marker: Marker, version: int
    ) -> Appended:
        """End a producer's transaction of protocol `version` here, as leader. ApiError when it is
        refused, OSError never."""
        try:
            return append_marker(
                self.log, producer_id, producer_epoch, marker, self.append, version=version
            )
        except OSError as failure:  # the marker is in the log, and that it aborts can't be noted
            self._manager.storage_failed(self, failure)
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR) from failure

    def configure(self, settings: LogSettings) -> None:
        """Take over other settings; they count from the next batch on."""
        self.log.configure(settings)
        self._rule(settings)
        if self.partition.configure(settings.flush_after):
            self._manager.purgatory.changed(self.key)
        self.flush_if_awaited()

    def flush_if_awaited(self) -> None:
        """Begin an fsync if there are records that count only afterwards."""
        if self.partition.awaits_flush:
            self._manager.flush_soon(self)

    def delete_before(self, offset: int) -> int:
        """Have the log begin at `offset`, if that is later than now; where it begins then.

        ApiError: POLICY_VIOLATION where records go by compaction alone, OFFSET_OUT_OF_RANGE
        below 0 and beyond the high watermark.
        """
        log = self.log
        if log.settings.cleanup_policy == ("compact",):
            raise ApiError(ErrorCode.POLICY_VIOLATION)
        if not 0 <= offset <= self.partition.high_watermark:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if log.advance_start(offset):
            logger.info("DeleteRecords moved log start offset of %s-%d to %d", *self.key, offset)
        return log.start_offset

    def delete_old(self, now_ms: int) -> int:
        """Drop some of the oldest segments if they are to go; how many, as
        `PartitionLog.delete_old` tells. A log that fails goes offline."""
        try:
            count = self.log.delete_old(now_ms, self.partition.high_watermark)
        except OSError as failure:
            if not is_fd_exhaustion(failure):  # else the next look at it may do better
                self._manager.storage_failed(self, failure)
            return 0
        if count:
            begin = self.log.start_offset
            logger.info(
                "moved log start offset of %s-%d to %d: deleted %d old segments",
                *self.key,
                begin,
                count,
            )
        if self.log.producer_manager.is_saving or (count and self.log.flush_wanted):
            self._manager.flush_soon(self)
        return count

    async def delete_all_old(self, now_ms: int) -> None:
        """Drop all segments that are to go; while a compaction is at work, at its end."""
        manager = self._manager
        while manager.hosts(self) and not self.log.compaction.running:
            if self.delete_old(now_ms) < SEGMENTS_AT_ONCE_MAX:
                break
            await manager.tasks.sleep(0)

    def read_failed(self, failure: Exception) -> None:
        """Its log can't be read: so it is with the whole directory, unless only a file is gone
        or damaged, or too many are open."""
        if not isinstance(failure, OSError) or isinstance(failure, FileNotFoundError):
            return
        if not is_fd_exhaustion(failure):
            manager = self._manager
            manager.directory_failed(manager.logs.directory_of(self.log), failure)

    def now_ms(self) -> int:
        """What the clock says."""
        return self._manager.clock.now_ms()

    @property
    def tasks(self) -> Tasks:
        """For work on a batch, in slices."""
        return self._manager.tasks

    @property
    def jobs(self) -> Jobs:
        """For work on a batch, in a thread."""
        return self._manager.jobs

    @property
    def opening(self) -> asyncio.Semaphore:
        """To be held while a batch is open."""
        return self._manager.opening

    @property
    def high_watermark(self) -> int:
        return self.partition.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """Below it every transaction is decided."""
        high_watermark = self.partition.high_watermark
        if self.log.transactions.settled:
            return high_watermark
        return self.log.last_stable_offset(high_watermark)

    def check_epoch(self, current_leader_epoch: int) -> None:
        """Refuse a client whose metadata is older, or newer, than ours (KIP-320)."""
        if current_leader_epoch == ANY_EPOCH:
            return
        if current_leader_epoch < self.partition.leader_epoch:
            raise ApiError(ErrorCode.FENCED_LEADER_EPOCH)
        if current_leader_epoch > self.partition.leader_epoch:
            raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH)


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
            if is_fd_exhaustion(failure):
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
        while self.hosts(replica) and replica.log.producer_manager.write_snapshot_step():
            await self.tasks.sleep(0)
        plan = replica.log.flush_plan(self.clock.now_ms()) if self.hosts(replica) else None
        if plan is None:
            return False
        began_s = self.clock.monotonic_s()
        try:
            await self.jobs.run(Pool.WRITE, plan.run)
        except OSError as failure:
            if is_fd_exhaustion(failure):
                plan.add_back_unsynced()
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
