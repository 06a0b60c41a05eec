"""The transaction coordinator: finds the state machine of a transactional id, and runs operations
on it.

An id belongs to one partition of `__transaction_state`, by its hash. The markers of a transaction
that ends are written elsewhere (`on_markers`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kavka.server.cluster.internal_topics import InternalTopics
from kavka.server.cluster.metadata_cache import TRANSACTION_TOPIC, MetadataCache
from kavka.server.config.live import LiveSettings
from kavka.server.config.transaction_rows import REPLICATION_FACTOR
from kavka.server.controller.topic_validation import NewTopic, TopicCreator
from kavka.server.coordinators.base import Coordinator
from kavka.server.coordinators.producer_id_allocator import ProducerIdAllocator
from kavka.server.replica.manager import ReplicaManager
from kavka.server.replica.replica import Replica
from kavka.server.runtime.histogram import Histogram
from kavka.wire.compression import Codec
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.record_batches import NO_SEQUENCE

if TYPE_CHECKING:
    from kavka.log.journal import DecisionOrSteps, ReplyFuture
    from kavka.server.coordinators.journal_runner import JournalRunner, RunnerResources
    from kavka.server.replication.transaction_peers import TransactionPeers
    from kavka.txncoord.shard import TransactionShard
    from kavka.txncoord.transaction_requests import AddPartitions, WriteMarkers

    Runner = JournalRunner[TransactionShard]

Codes: TypeAlias = Sequence[ErrorCode]
"""One for each requested partition, in order."""

MODULES: Final = (
    "kavka.wire.fields",
    "kavka.log.journal",
    "kavka.txncoord.transaction_requests",
    "kavka.txncoord.transaction",
    "kavka.txncoord.transaction_records",
    "kavka.txncoord.state",
    "kavka.txncoord.ending",
    "kavka.txncoord.transactional_producers",
    "kavka.txncoord.expiry",
    "kavka.txncoord.shard",
    "kavka.server.handlers.common.transaction_calls",
    "kavka.server.handlers.common.transaction_verification",
    "kavka.server.coordinators.marker_writer",
    "kavka.server.coordinators.journal_loader",
    "kavka.server.coordinators.serial_queue",
    "kavka.server.coordinators.journal_port",
    "kavka.server.coordinators.journal_runner",
)
"""The transaction coordinator's modules, each after those that it imports."""


def _discard(markers: WriteMarkers, coordinator_epoch: int) -> None:
    """The default of `on_markers`, until the broker is assembled."""


def _ignore(partition: int) -> None:
    """The default of `on_resigned`."""


class TransactionCoordinator(Coordinator["TransactionShard"]):
    """All transactional ids of which this broker is the coordinator."""

    topic = TRANSACTION_TOPIC
    entities = "transactions"
    modules = MODULES
    factor_setting = REPLICATION_FACTOR

    def __init__(
        self,
        live: LiveSettings,
        replicas: ReplicaManager,
        metadata: MetadataCache,
        internal_topics: InternalTopics,
        creator: TopicCreator,
        producer_ids: ProducerIdAllocator,
    ) -> None:
        super().__init__(live, replicas, metadata, internal_topics, creator)
        self._producer_ids = producer_ids
        self.on_markers: Callable[[WriteMarkers, int], object] = _discard
        """Writes the markers of a transaction, with its coordinator epoch, and then calls
        `TransactionShard.markers_written`."""
        self.on_resigned: Callable[[int], object] = _ignore
        """Called when this broker is no longer the coordinator of a partition."""

        self.peers: TransactionPeers | None = None
        """The other brokers; None for a standalone broker."""

        self.unverified = 0
        """Partitions that `verify` has rejected since the start."""

        self.verification_ms = Histogram()
        """How long verifications took."""

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[tuple[str, int]],
        *,
        add: bool,
    ) -> Codes | Awaitable[Codes]:
        """Verify that partitions (topic and index) belong to a producer's transaction; with `add`,
        add them to it instead, as a broker may do for the producer (KIP-890)."""
        asked_s = self._replicas.clock.monotonic_s()
        codes = self._verify(transactional_id, producer_id, producer_epoch, partitions, add=add)
        if isinstance(codes, Awaitable):
            return self._count_when_done(codes, asked_s)
        return self._count_verification(codes, asked_s)

    def has_added(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partition: tuple[str, int],
    ) -> bool:
        """Whether a partition is known at once to belong to a producer's transaction; if not, call
        `verify`."""
        asked_s = self._replicas.clock.monotonic_s()
        added = self.try_read(
            transactional_id,
            lambda shard, now_ms: shard.has_added(
                transactional_id, producer_id, producer_epoch, partition
            ),
        )
        if not added:
            return False
        self._count_verification((), asked_s)
        return True

    def _verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[tuple[str, int]],
        *,
        add: bool,
    ) -> Codes | Awaitable[Codes]:
        from kavka.txncoord.transaction_requests import EPOCH_BUMPED_SINCE, AddPartitions

        if not transactional_id:
            return [ErrorCode.INVALID_REQUEST] * len(partitions)
        if self.peers is not None and self.runner_for(transactional_id) is None:
            coordinator = self.coordinator_of(transactional_id)
            if coordinator is not None and coordinator.broker_id != self._live.now.broker_id:
                producer = transactional_id, producer_id, producer_epoch
                return self.peers.verify(coordinator.broker_id, producer, partitions, add=add)
        request = AddPartitions(
            transactional_id, producer_id, producer_epoch, partitions, EPOCH_BUMPED_SINCE
        )
        try:
            if add:
                result = self.call(transactional_id, add_partitions_operation(request))
            else:
                result = self.read(transactional_id, lambda shard, now_ms: shard.verify(request))
        except ApiError as error:
            return [error.code] * len(partitions)
        if asyncio.isfuture(result):
            return _codes_when_done(result, len(partitions))
        return _codes(result, len(partitions))

    async def _count_when_done(self, codes: Awaitable[Codes], asked_s: float) -> Codes:
        return self._count_verification(await codes, asked_s)

    def _count_verification(self, codes: Codes, asked_s: float) -> Codes:
        """Count a verification in the metrics; returns its codes."""
        now_s = self._replicas.clock.monotonic_s()
        self.verification_ms.add((now_s - asked_s) * 1000, now_s)
        self.unverified += sum(map(bool, codes))
        return codes

    def _new_topic(self) -> NewTopic:
        settings = self._live.now
        return NewTopic(
            TRANSACTION_TOPIC,
            settings.transaction_state_log_num_partitions,
            self._replication_factor(
                REPLICATION_FACTOR, settings.transaction_state_log_replication_factor
            ),
            configs={
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": str(settings.transaction_state_log_min_isr),
                "segment.bytes": str(settings.transaction_state_log_segment_bytes),
                "unclean.leader.election.enable": "false",
            },
        )

    def _runner(self, replica: Replica, resources: RunnerResources) -> Runner:
        # imported when there are transactions: see `kavka.server.runtime.lazy_imports`
        from kavka.server.coordinators.journal_runner import JournalRunner, Settings
        from kavka.txncoord.shard import TransactionShard
        from kavka.txncoord.state import TransactionsState

        now = self._live.now
        state = TransactionsState(lambda: self._live.now, self._producer_ids.try_next)
        settings = Settings(
            commit_timeout_ms=now.request_timeout_ms,
            codec=Codec.NONE,
            load_bytes=now.transaction_state_log_load_buffer_size,
            base_sequence=NO_SEQUENCE,
        )
        return JournalRunner(
            replica,
            TransactionShard(state),
            settings,
            resources,
            on_loaded=self._loaded,
            perform=partial(self._perform, replica.partition.leader_epoch),
        )

    def _perform(self, coordinator_epoch: int, command: Hashable) -> None:
        from kavka.txncoord.transaction_requests import WriteMarkers

        if isinstance(command, WriteMarkers):
            self.on_markers(command, coordinator_epoch)
        else:  # ReserveProducerIds
            self._producer_ids.begin_reserve()

    def _on_resignation(self, partition: int) -> None:
        self.on_resigned(partition)


def add_partitions_operation(
    request: AddPartitions,
) -> Callable[[TransactionShard, ReplyFuture, int], DecisionOrSteps]:
    """The operation that adds partitions to a transaction; its result is None."""
    return lambda shard, future, now_ms: shard.add_partitions(request, future, now_ms)


async def _codes_when_done(result: Awaitable[Any], count: int) -> Codes:
    try:
        return _codes(await result, count)
    except ApiError as error:
        return [error.code] * count


def _codes(result: Codes | None, count: int) -> Codes:
    """A code for each of `count` partitions. `result` is None if all of them were added."""
    return [ErrorCode.NONE] * count if result is None else result
