"""This broker's copy of one partition: its log, and the machine that knows who leads it.

Everything here runs on the loop, and from check to apply nothing waits.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final
from uuid import UUID

from kavka.log.fs import is_shortage
from kavka.log.markers import append_marker
from kavka.log.partition_log import Appended, PartitionLog
from kavka.log.retention import SEGMENTS_AT_ONCE_MAX
from kavka.log.settings import LogSettings
from kavka.log.txn_guards import Guard
from kavka.seams import Jobs, Tasks
from kavka.server.replica.partition_state import PartitionState
from kavka.server.replica.record_rules import ALWAYS, Rules
from kavka.server.replica.topic_traffic import TopicTraffic
from kavka.wire.control_records import Marker
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.records import BatchHeader, stamp

if TYPE_CHECKING:
    from kavka.server.replica.manager import ReplicaManager

logger = logging.getLogger(__name__)

ANY_EPOCH: Final = -1
"""What a request says that does not know the leader's epoch (KIP-320)."""


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
            if is_shortage(failure):
                stamp(batch, header.base_offset, header.leader_epoch)  # it may be tried again
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
            if not is_shortage(failure):  # else the next look at it may do better
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
        if self.log.history.is_saving or (count and self.log.flush_wanted):
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
        if not is_shortage(failure):
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
