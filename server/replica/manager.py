"""The partitions that this broker hosts, and the services that their replicas share.

Everything here runs on the loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Final
from uuid import UUID

from kavka.log.manager import LogManager
from kavka.log.partition_log import PartitionLog
from kavka.seams import Clock, Jobs, Tasks
from kavka.server.cluster.metadata_cache import MetadataCache
from kavka.server.replica.batch_opening import BatchOpener
from kavka.server.replica.cleaning_stats import CleaningStats
from kavka.server.replica.flushing import LogFlusher
from kavka.server.replica.log_failures import LogFailures
from kavka.server.replica.partition_state import PartitionState, ProposeIsr
from kavka.server.replica.replica import Replica, ReplicaServices
from kavka.server.replica.topic_traffic import Traffic
from kavka.server.runtime.purgatory import Purgatory
from kavka.server.runtime.rate_limited_logger import RateLimitedLogger
from kavka.wire.errors import ApiError, ErrorCode

logger = logging.getLogger(__name__)

CLOSED_PER_STEP: Final = 200
"""Replicas taken out of service in one step, at 5 us each."""


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
        self.tasks = tasks
        self.jobs = jobs
        self.purgatory = purgatory
        self.traffic = Traffic()
        self.cleaning = CleaningStats()
        self.refusals = RateLimitedLogger(logger, logging.INFO, "batches refused", tasks)
        self.opener = BatchOpener(tasks, jobs)
        self._metadata = metadata
        self._missing: dict[tuple[str, int], None] = {}
        self._replicas: dict[tuple[str, int], Replica] = {}
        self._of_topics: dict[str, dict[int, Replica]] = {}
        self.failures = LogFailures(logs, self._replicas, tasks)
        self.flusher = LogFlusher(
            self.failures, self.refusals, purgatory=purgatory, clock=clock, tasks=tasks, jobs=jobs
        )
        self.role_listeners: dict[str, Callable[[Replica], object]] = {}
        """By topic: called when a replica of it may have begun or ceased to lead here."""
        self._services = ReplicaServices(
            clock=clock,
            purgatory=purgatory,
            flush_soon=self.flusher.flush_soon,
            storage_failed=self.failures.storage_failed,
            fail_directory_of=self.failures.fail_directory_of,
            refusals=self.refusals,
            role_listeners=self.role_listeners,
            propose_isr=self._propose_isr,
            role_changed=self._role_changed,
            follower_changed=self._follower_changed,
            logs=logs,
        )
        self.on_isr_proposal: Callable[[Replica, ProposeIsr], object] = _nothing
        """Asks the controller for another ISR."""
        self.on_hosted: Callable[[Replica], object] = _nothing
        """Called when this broker has begun to host a replica."""
        self.on_role: Callable[[Replica], object] = _nothing
        """Called when a replica may have begun or ceased to lead or follow here."""
        self.on_follower_change: Callable[[Replica], object] = _nothing
        """Called when what a follower fetches may have changed, but not by its role or a flush."""

    def _propose_isr(self, replica: Replica, proposal: ProposeIsr) -> None:
        self.on_isr_proposal(replica, proposal)

    def _role_changed(self, replica: Replica) -> None:
        self.on_role(replica)

    def _follower_changed(self, replica: Replica) -> None:
        self.on_follower_change(replica)

    def __iter__(self) -> Iterator[Replica]:
        return iter(list(self._replicas.values()))

    def find(self, topic: str, index: int) -> Replica | None:
        """The replica hosted here, whatever its role."""
        return self._replicas.get((topic, index))

    def of_topic(self, topic: str) -> list[Replica]:
        """The replicas of a topic that are hosted here."""
        return list(self._of_topics.get(topic, {}).values())

    def leader(self, topic: str, index: int) -> Replica:
        """The replica, if this broker leads it; else ApiError, with the code that clients get."""
        replica = self._replicas.get((topic, index))
        if replica is not None and replica.partition.is_leader and not replica.offline:
            return replica
        if replica is not None and replica.offline:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        raise ApiError(self.error_of_missing(topic, index))

    def served(self, topic: str, index: int) -> Replica:
        """The replica, whether this broker leads it or follows another one; else ApiError, with the
        code that clients get."""
        replica = self._replicas.get((topic, index))
        if replica is None or not replica.hosted:
            raise ApiError(self.error_of_missing(topic, index))
        if replica.offline:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        return replica

    def error_of_missing(self, topic: str, index: int) -> ErrorCode:
        """The error for a partition that this broker does not host, or does not lead."""
        if (topic, index) in self._missing:
            return ErrorCode.KAFKA_STORAGE_ERROR
        known = self._metadata.image.topics.get(topic)
        if known is None or known.partition(index) is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def host(self, topic_id: UUID, log: PartitionLog, partition: PartitionState) -> Replica:
        """A new replica of the partition that has this log, to be served from now on."""
        replica = Replica(self._services, topic_id, log, partition)
        self.add(replica)
        self.on_hosted(replica)
        return replica

    def add(self, replica: Replica) -> None:
        """Serve a replica."""
        replica.hosted = True
        self._replicas[replica.key] = replica
        topic, index = replica.key
        self._of_topics.setdefault(topic, {})[index] = replica
        replica.traffic = self.traffic.add_replica(replica.log.topic)

    def remove(self, topic: str, index: int) -> Replica | None:
        """Host it no longer; requests that wait for it are answered at once."""
        replica = self._replicas.pop((topic, index), None)
        if replica is not None:
            replica.hosted = False
            del self._of_topics[topic][index]
            if not self._of_topics[topic]:
                del self._of_topics[topic]
            self.traffic.remove_replica(topic)
            replica.partition.stop()
            self.logs.keep_high_watermark(replica.key, replica.partition.high_watermark)
            replica.role_changed()
        return replica

    async def close(self) -> None:
        """Serve no replica any more, as the logs are to be closed: requests that wait are answered,
        and those under way find that this broker does not lead."""
        for number, replica in enumerate(list(self._replicas.values()), 1):
            replica.hosted = False
            replica.partition.stop()
            replica.role_changed()
            if number % CLOSED_PER_STEP == 0:
                await self.tasks.sleep(0)
        await self.flusher.wait_idle()

    def mark_missing(self, topic: str, index: int) -> None:
        """Note that a partition's log can't be served: it may be in a log directory that is
        offline, so no new one may be made."""
        self._missing[(topic, index)] = None

    def is_missing(self, topic: str, index: int) -> bool:
        """Whether `mark_missing` was called for a partition."""
        return (topic, index) in self._missing

    @property
    def missing_count(self) -> int:
        """How many partitions are marked as missing."""
        return len(self._missing)

    def high_watermarks(self) -> dict[tuple[str, int], int]:
        """The content of `replication-offset-checkpoint`."""
        return {r.key: r.partition.high_watermark for r in self._replicas.values()}


def _nothing(*_: object) -> None:
    """The listener of a standalone broker."""
