"""This broker's copy of one partition: its log, and the state machine of its leadership.

Everything here runs on the loop, and there is no pause between a check and the change that depends
on it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from uuid import UUID

from kavka.log.appended import Appended
from kavka.log.follower_append import append_as_follower
from kavka.log.fs import is_fd_exhaustion
from kavka.log.manager import LogManager
from kavka.log.markers import append_marker
from kavka.log.partition_log import PartitionLog
from kavka.log.retention import SEGMENTS_AT_ONCE_MAX
from kavka.log.settings import LogSettings
from kavka.log.txn_guards import Guard
from kavka.seams import Clock, Tasks
from kavka.server.replica.partition_state import LeaderAndIsrState, PartitionState, ProposeIsr
from kavka.server.replica.record_rules import ALWAYS, RecordRules
from kavka.server.replica.topic_traffic import TopicTraffic
from kavka.server.runtime.purgatory import Purgatory
from kavka.server.runtime.rate_limited_logger import RateLimitedLogger
from kavka.wire.control_records import Marker
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.record_batches import BatchHeader, set_offset_and_epoch
from kavka.wire.steps import Steps

logger = logging.getLogger(__name__)

ANY_EPOCH: Final = -1
"""The leader epoch in requests of clients that don't know it (KIP-320)."""


_ALL_REPLICAS: Final = ("*",)

THROTTLED_LISTS_MAX: Final = 2
"""Lists of throttled replicas that are kept parsed: all partitions of a topic have the same two."""

THROTTLED_ENTRY_MAX: Final = 100
"""Characters of an entry that may name a replica."""


@lru_cache(maxsize=THROTTLED_LISTS_MAX)
def throttled_on(broker_id: int, throttled: tuple[str, ...]) -> frozenset[int]:
    """The partitions whose replicas on broker `broker_id` are in a list of `partition:broker`, the
    value of `leader.replication.throttled.replicas`, say. Too long entries are skipped: no
    partition or broker has such a number, and parsing it takes long."""
    replicas = (entry.split(":") for entry in throttled if len(entry) <= THROTTLED_ENTRY_MAX)
    return frozenset(int(index) for index, broker in replicas if int(broker) == broker_id)


@dataclass(frozen=True, slots=True)
class ReplicaServices:
    """What all replicas of a broker use: the time, and where they report what has happened."""

    clock: Clock
    purgatory: Purgatory
    """Its waiters on a replica's key are woken when the replica has changed."""

    flush_soon: Callable[[Replica], None]
    """Brings a log to the disk in the background (`LogFlusher.flush_soon`)."""

    storage_failed: Callable[[Replica, OSError], None]
    """Takes the log directory offline that a replica could not write to."""

    fail_directory_of: Callable[[PartitionLog, OSError], None]
    """Takes the directory of a log offline."""

    refusals: RateLimitedLogger
    """For batches that are refused for lack of file descriptors."""

    role_listeners: dict[str, Callable[[Replica], object]]
    """By topic: called when a replica of it may have begun or ceased to lead here."""

    propose_isr: Callable[[Replica, ProposeIsr], object]
    """Asks the controller for another ISR."""

    role_changed: Callable[[Replica], object]
    """Called when a replica may have begun or ceased to lead or follow here."""

    follower_changed: Callable[[Replica], object]
    """Called when a replica is throttled as follower, or not any more, and when retention has moved
    its log start offset: what it fetches may have changed."""

    logs: LogManager
    """For truncations, which are checkpointed."""


class Replica:
    """This broker's copy of one partition. `key` names it in the purgatory, for changes of its high
    watermark and its role."""

    __slots__ = (
        "__weakref__",
        "_services",
        "clock",
        "end_key",
        "flushes_held",
        "flushing",
        "hosted",
        "inspect_newer_than_ms",
        "key",
        "log",
        "offline",
        "partition",
        "rules",
        "start_key",
        "throttled_as_follower",
        "throttled_as_leader",
        "topic_id",
        "traffic",
    )

    def __init__(
        self,
        services: ReplicaServices,
        topic_id: UUID,
        log: PartitionLog,
        partition: PartitionState,
    ) -> None:
        self._services = services
        self.clock = services.clock
        self.key = (log.topic, log.partition)
        self.end_key = (*self.key, "end")
        """Names it in the purgatory for Fetches of followers, which wait for a change of its
        log."""
        self.start_key = (*self.key, "start")
        """Names it in the purgatory for DeleteRecords, which waits until the logs of its followers
        start later."""
        self.topic_id = topic_id
        self.log = log
        self.partition = partition
        self.hosted = False
        """Whether it is the replica of its partition here (`ReplicaManager.add`)."""
        self.offline = False
        """Whether its log directory, or its log, has failed."""
        self.flushing = False
        self.flushes_held = False
        self.traffic = TopicTraffic()
        """Counts of the topic, once the replica is hosted."""
        self._set_rules(log.settings)

    def _set_rules(self, settings: LogSettings) -> None:
        self.throttled_as_leader = self._is_among(settings.leader_replication_throttled_replicas)
        """Whether followers that are not in sync are sent no more than the quota allows."""
        self.throttled_as_follower = self._is_among(
            settings.follower_replication_throttled_replicas
        )
        """Whether it fetches no more than the quota allows, until it is in sync."""
        self.rules = RecordRules.of(settings)
        self.inspect_newer_than_ms = ALWAYS
        """Batches whose max timestamp is above this (ms) are inspected before they are appended:
        all of them, unless the topic only bounds timestamps; then it advances with the clock."""

    def _is_among(self, throttled: tuple[str, ...]) -> bool:
        """Whether a topic's list of throttled replicas names this one."""
        if not throttled or throttled == _ALL_REPLICAS:
            return bool(throttled)
        return self.log.partition in throttled_on(self.partition.broker_id, throttled)

    def append(
        self, batch: memoryview, header: BatchHeader, guard: Guard | None = None
    ) -> Appended:
        """Append one checked batch as leader. ApiError when it is refused, OSError never."""
        log = self.log
        partition = self.partition
        try:
            appended = log.append(
                batch,
                header,
                leader_epoch=partition.leader_epoch,
                now_ms=self.clock.now_ms(),
                guard=guard,
            )
        except OSError as failure:
            if is_fd_exhaustion(failure):
                # as it was, for another attempt
                set_offset_and_epoch(batch, header.base_offset, header.leader_epoch)
                text = "%s-%d can't be written now: %s"
                self._services.refusals.line(text, *self.key, failure)
            else:
                self._services.storage_failed(self, failure)
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR) from failure
        traffic = self.traffic
        traffic.appends += 1
        traffic.messages_in += header.record_count
        traffic.bytes_in += len(batch)
        if not appended.duplicate:
            if partition.appended(log.end_offset):
                self._services.purgatory.changed(self.key)
            if partition.followers:
                self._services.purgatory.changed(self.end_key)
            if log.flush_wanted:
                self._services.flush_soon(self)
        return appended

    def append_fetched(
        self, records: memoryview, leader_high_watermark: int, leader_log_start: int
    ) -> None:
        """Append, as follower, what was fetched from the leader in the present epoch; and take over
        its high watermark and log start offset. ApiError, UnexpectedOffsetError: nothing was
        appended."""
        log, partition = self.log, self.partition
        try:
            append_as_follower(
                log, records, leader_epoch=partition.leader_epoch, now_ms=self.clock.now_ms()
            )
        except OSError as failure:
            if not is_fd_exhaustion(failure):
                self._services.storage_failed(self, failure)
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR) from failure
        finally:
            if partition.replicated(log.end_offset, leader_high_watermark):
                self._services.purgatory.changed(self.key)
        log.advance_start(min(leader_log_start, partition.high_watermark))
        if log.flush_wanted:
            self._services.flush_soon(self)

    def truncate(self, offset: int) -> Steps[None]:
        """Truncate the log, as follower; the first step does so. OSError, StorageError."""
        yield from self._with_end(self._services.logs.truncate_in_steps(self.log, offset))

    def truncate_fully_and_start_at(self, offset: int) -> Steps[None]:
        """Remove all records, as follower; the log then starts at `offset`. As `truncate`."""
        yield from self._with_end(self._services.logs.truncate_fully_and_start_at(self.log, offset))

    def _with_end(self, steps: Steps[None]) -> Steps[None]:
        try:
            for _ in steps:
                self.partition.truncated(self.log.end_offset)
                yield None
        finally:
            self.partition.truncated(self.log.end_offset)
            self.flush_if_awaited()

    def append_marker(
        self, producer_id: int, producer_epoch: int, marker: Marker, version: int
    ) -> Appended:
        """End a producer's transaction of protocol `version` here, as leader. ApiError when it is
        refused, OSError never."""
        try:
            return append_marker(
                self.log,
                producer_id,
                producer_epoch,
                marker,
                self.append,
                version=version,
                append_time=self.rules.append_time,
            )
        except OSError as failure:
            # the marker is in the log, but the aborted transaction is not in the log's index
            self._services.storage_failed(self, failure)
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR) from failure

    def fetched_by(self, follower: int, offset: int, log_start: int) -> None:
        """A follower, one of the partition's replicas, has fetched from `offset`; its log starts at
        `log_start`."""
        partition = self.partition
        if partition.starts_at(follower, log_start):
            self._services.purgatory.changed(self.start_key)
        before = partition.high_watermark
        proposal = partition.fetched(follower, offset, self._monotonic_ms())
        if partition.high_watermark != before:
            self._services.purgatory.changed(self.key)
        if proposal is not None:
            self._services.propose_isr(self, proposal)

    def shrink_isr(self) -> None:
        """Have followers that lag removed from the ISR."""
        proposal = self.partition.shrink(self._monotonic_ms())
        if proposal is not None:
            self._services.propose_isr(self, proposal)

    def brokers_gone(self) -> None:
        """Some brokers are no longer live, among them perhaps those of followers."""
        if self.partition.brokers_gone():
            self._services.purgatory.changed(self.key)

    def isr_decided(self, leader_epoch: int, isr: tuple[int, ...], partition_epoch: int) -> None:
        """The controller has answered a proposal with the present ISR."""
        if self.partition.isr_decided(leader_epoch, isr, partition_epoch):
            self._services.purgatory.changed(self.key)

    def isr_refused(self, proposal: ProposeIsr) -> None:
        """The controller has refused a proposal because of the replicas in it."""
        if self.partition.isr_refused(proposal):
            self._services.purgatory.changed(self.key)

    def _monotonic_ms(self) -> int:
        return int(self.clock.monotonic_s() * 1000)

    def lead(self, leader_and_isr: LeaderAndIsrState) -> None:
        """Become the leader, or stay leader with another ISR. OSError."""
        for command in self.partition.lead(leader_and_isr, self._monotonic_ms()):
            self.log.assign_epoch(command.epoch, command.start_offset)
        self.flush_if_awaited()  # records that an earlier process wrote

    def configure(self, settings: LogSettings) -> None:
        """Use other settings of the topic, from the next batch on."""
        self.log.configure(settings)
        throttled = (self.throttled_as_leader, self.throttled_as_follower)
        self._set_rules(settings)
        if (self.throttled_as_leader, self.throttled_as_follower) != throttled:
            self._services.follower_changed(self)
            self._services.purgatory.changed(self.end_key)
        if self.partition.configure(settings.flush_after, settings.min_insync_replicas):
            self._services.purgatory.changed(self.key)
        self.flush_if_awaited()

    def flush_if_awaited(self) -> None:
        """Begin an fsync if records above the high watermark wait for it."""
        if self.partition.awaits_flush:
            self._services.flush_soon(self)

    def delete_before(self, offset: int) -> int:
        """Move the log start offset up to `offset`; the log start offset afterwards.

        ApiError: POLICY_VIOLATION if the cleanup policy is compact alone, OFFSET_OUT_OF_RANGE
        below 0 and above the high watermark.
        """
        log = self.log
        if log.settings.cleanup_policy == ("compact",):
            raise ApiError(ErrorCode.POLICY_VIOLATION)
        if not 0 <= offset <= self.partition.high_watermark:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if log.advance_start(offset):
            logger.info("DeleteRecords moved log start offset of %s-%d to %d", *self.key, offset)
            if self.partition.followers:
                self._services.purgatory.changed(self.end_key)
        return log.start_offset

    def delete_old(self, now_ms: int) -> int:
        """Delete some of the oldest segments, as retention asks; how many (see
        `PartitionLog.delete_old`). A log that fails goes offline."""
        try:
            count = self.log.delete_old(now_ms, self.partition.high_watermark)
        except OSError as failure:
            if not is_fd_exhaustion(failure):  # else the next attempt may succeed
                self._services.storage_failed(self, failure)
            return 0
        if count:
            begin = self.log.start_offset
            logger.info(
                "moved log start offset of %s-%d to %d: deleted %d old segments",
                *self.key,
                begin,
                count,
            )
            self._services.follower_changed(self)
        if self.log.producer_manager.is_saving or (count and self.log.flush_wanted):
            self._services.flush_soon(self)
        return count

    async def delete_old_segments(self, now_ms: int, tasks: Tasks) -> None:
        """Delete all segments that are obsolete by retention or below the log start offset, a few
        at a time; not during a compaction, which does it at its end."""
        while self.is_served and not self.log.compaction.running:
            if self.delete_old(now_ms) < SEGMENTS_AT_ONCE_MAX:
                break
            await tasks.sleep(0)

    def read_failed(self, failure: Exception) -> None:
        """Its log can't be read: the whole directory goes offline, unless only a file is missing
        or damaged, or file descriptors are short."""
        if not isinstance(failure, OSError) or isinstance(failure, FileNotFoundError):
            return
        if not is_fd_exhaustion(failure):
            self._services.fail_directory_of(self.log, failure)

    def role_changed(self) -> None:
        """It leads now, or does not lead any more, or is no longer served: wake the requests that
        wait for it, and call its topic's listener."""
        self._services.purgatory.changed(self.key)
        self._services.purgatory.changed(self.end_key)
        self._services.role_changed(self)
        listener = self._services.role_listeners.get(self.log.topic)
        if listener is not None:
            listener(self)

    @property
    def is_served(self) -> bool:
        """Whether it is still the replica of its partition here, and not offline."""
        return self.hosted and not self.offline

    @property
    def high_watermark(self) -> int:
        return self.partition.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """Every transaction below it is committed or aborted."""
        high_watermark = self.partition.high_watermark
        if self.log.transactions.all_decided:
            return high_watermark
        return self.log.last_stable_offset(high_watermark)

    def check_epoch(self, current_leader_epoch: int) -> None:
        """ApiError if a client's metadata is older, or newer, than this broker's (KIP-320)."""
        if current_leader_epoch == ANY_EPOCH:
            return
        if current_leader_epoch < self.partition.leader_epoch:
            raise ApiError(ErrorCode.FENCED_LEADER_EPOCH)
        if current_leader_epoch > self.partition.leader_epoch:
            raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH)
