"""Appends the commit or abort marker of a transaction to each of its partitions (KIP-98).

The transaction coordinator sends a transaction that it has decided to commit or abort; when every
marker is below its partition's high watermark, the coordinator is notified. A marker that can't be
appended is retried when its partition changes: when it gets a leader, say, or enough in-sync
replicas. It is skipped only if the partition was deleted according to the coordination tree; this
broker's metadata may be behind. Other brokers are asked for what they lead (`TransactionPeers`),
again and again until they have written it.

This state is in memory only: a coordinator that loads its partition again sends all transactions
that are decided but not completed. There is no separate limit: every transaction here is one that
the coordinator holds, with each marker once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Container, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from kavka.log.appended import Appended
from kavka.seams import Clock, Tasks, Timer
from kavka.server.cluster.metadata_cache import GROUP_TOPIC
from kavka.server.coordinators.group_coordinator import GroupCoordinator
from kavka.server.coordinators.serial_queue import SerialQueue
from kavka.server.coordinators.transaction_coordinator import TransactionCoordinator
from kavka.server.replica.batch_admission import check_in_sync
from kavka.server.replica.manager import ReplicaManager
from kavka.server.replica.replica import Replica
from kavka.server.runtime.purgatory import Purgatory, Wait
from kavka.server.runtime.rate_limited_logger import RateLimitedLogger
from kavka.wire.control_records import Marker
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import Steps, each
from kavka.zktree import paths
from kavka.zktree.api import Coordination, CoordinationError, NoNode, WatchEvent

if TYPE_CHECKING:
    from kavka.txncoord.transaction_requests import WriteMarkers

logger = logging.getLogger(__name__)

PARTITIONS_PER_STEP: Final = 50
"""Partitions retried between two checks of the slice's time."""

RETRY_S: Final = 1.0
"""When to retry after an error whose end causes no event: too many open files, say."""

REMOTE_RETRY_S: Final = 0.1
"""When another broker is asked again that could not write a marker: it may lead since then."""

PartitionKey: TypeAlias = tuple[str, int]
"""Topic and partition."""


class AppendedMarker(NamedTuple):
    """A marker that was appended to a log."""

    replica: Replica
    leader_epoch: int
    last_offset: int

    @property
    def is_committed(self) -> bool:
        """Whether it is below the high watermark, so no failover can truncate it."""
        return self.replica.partition.high_watermark > self.last_offset

    @property
    def is_lost(self) -> bool:
        """Whether it may have been truncated: the leader epoch has changed since."""
        partition = self.replica.partition
        leads = partition.is_leader and partition.leader_epoch == self.leader_epoch
        return self.replica.offline or not leads


def write_marker(
    replicas: ReplicaManager,
    groups: GroupCoordinator,
    key: PartitionKey,
    producer: tuple[int, int],
    marker: Marker,
    version: int,
) -> AppendedMarker:
    """Append the marker of a producer's transaction (id and epoch) to a partition that this broker
    leads. `version`: that of the transaction protocol. ApiError."""
    replica = replicas.leader(*key)
    check_in_sync(replica)
    appended: Appended = replica.append_marker(*producer, marker, version)
    topic, index = key
    if topic == GROUP_TOPIC:
        groups.marker_appended(index, *producer, marker.committed)
    return AppendedMarker(replica, replica.partition.leader_epoch, appended.last_offset)


class _CoordinatedPartition:
    """A partition of `__transaction_state`, while this broker coordinates its transactions. If it
    resigns, and coordinates them again later, that is another one."""

    __slots__ = ("txns", "is_resigned")

    def __init__(self) -> None:
        self.txns: dict[str, _PendingTxn] = {}
        """By transactional id."""
        self.is_resigned = False


class _PendingTxn:
    """A transaction whose markers are being written."""

    __slots__ = (
        "_is_dropped",
        "coordinator_epoch",
        "remaining",
        "markers",
        "coordinated",
        "appended",
        "sent",
    )

    def __init__(
        self, markers: WriteMarkers, coordinator_epoch: int, coordinated: _CoordinatedPartition
    ) -> None:
        self.markers = markers
        self.coordinator_epoch = coordinator_epoch
        self.coordinated = coordinated
        self.remaining: Final = dict.fromkeys(markers.partitions)
        """The partitions without a committed marker."""
        self.appended: dict[PartitionKey, AppendedMarker] = {}
        """Appended markers that are not committed yet."""
        self.sent: Final[dict[PartitionKey, None]] = {}
        """Partitions whose leaders, on other brokers, are being asked to write a marker."""
        self._is_dropped = False

    @property
    def is_dropped(self) -> bool:
        """Whether its markers are no longer to be written."""
        return self._is_dropped or self.coordinated.is_resigned

    def drop(self) -> None:
        self._is_dropped = True
        self.forget()

    def forget(self) -> None:
        """Remove it: it is complete, or dropped."""
        del self.coordinated.txns[self.markers.transactional_id]


class MarkerWriter:
    """All transactions being completed whose coordinator is this broker."""

    def __init__(
        self,
        replicas: ReplicaManager,
        groups: GroupCoordinator,
        transactions: TransactionCoordinator,
        coordination: Coordination,
    ) -> None:
        self._replicas: Final = replicas
        self._groups: Final = groups
        self._transactions: Final = transactions
        self._coordination: Final = coordination
        self._clock: Final[Clock] = replicas.clock
        self._tasks: Final[Tasks] = replicas.tasks
        self._purgatory: Final[Purgatory] = replicas.purgatory
        self._coordinated: Final[dict[int, _CoordinatedPartition]] = {}
        """By partition of `__transaction_state`."""
        self._queue: Final = SerialQueue(self._tasks, self._clock, "writing transaction markers")
        self._waiting: Final[dict[PartitionKey, dict[_PendingTxn, None]]] = {}
        self.waiting = 0
        """Markers that can't be appended yet, or are not committed yet."""
        self._watches: Final[dict[PartitionKey, Wait]] = {}
        self._topic_reads: Final[dict[str, None]] = {}
        self._retries: dict[PartitionKey, None] = {}
        self._timer: Timer | None = None
        self._delays: Final = RateLimitedLogger(
            logger, logging.INFO, "waiting transaction markers", self._tasks
        )

    def send(self, markers: WriteMarkers, coordinator_epoch: int) -> None:
        """Write markers, from the next iteration of the event loop on, and notify the coordinator
        when all are committed. This replaces pending markers of the same transactional id."""
        name = markers.transactional_id
        partition = self._transactions.partition_of(name)
        coordinated = self._coordinated.get(partition)
        if coordinated is None:
            coordinated = self._coordinated[partition] = _CoordinatedPartition()
        if (before := coordinated.txns.get(name)) is not None:
            self._drop(before)
        txn = coordinated.txns[name] = _PendingTxn(markers, coordinator_epoch, coordinated)
        self._queue.enqueue(self._write(txn))

    def resigned(self, partition: int) -> None:
        """This broker no longer coordinates this partition: drop its transactions' markers."""
        coordinated = self._coordinated.pop(partition, None)
        if coordinated is not None:
            coordinated.is_resigned = True
            self._queue.enqueue(self._unregister(coordinated.txns.values()))

    def _drop(self, txn: _PendingTxn) -> None:
        txn.drop()
        self._queue.enqueue(self._unregister([txn]))

    def _unregister(self, txns: Iterable[_PendingTxn]) -> Steps[None]:
        """Remove dropped transactions from the waiting partitions."""
        for txn in txns:
            for key in txn.markers.partitions:
                waiting = self._waiting.get(key)
                if waiting is not None and txn in waiting:
                    del waiting[txn]
                    self.waiting -= 1
                    if not waiting:
                        self._unwatch(key)
                yield None

    # -- writing --------------------------------------------------------------------------

    def _write(self, txn: _PendingTxn) -> Steps[None]:
        if not txn.remaining:
            self._complete(txn)
        for key in txn.markers.partitions:
            if txn.is_dropped:
                return
            self._process(txn, key)
            if txn.remaining:
                yield None

    def _process(self, txn: _PendingTxn, key: PartitionKey) -> None:
        """Append a marker, or check whether it is committed. Retried after any failure until the
        transaction is complete in this partition."""
        try:
            self._append_or_check(txn, key)
        except Exception:
            name = txn.markers.transactional_id
            logger.exception("processing the marker of %r for %s-%d failed; retrying", name, *key)
            self._tasks.call_later(RETRY_S, self._queue.enqueue, self._process_each(key, [txn]))

    def _append_or_check(self, txn: _PendingTxn, key: PartitionKey) -> None:
        if key not in txn.remaining or key in txn.sent or self._send_elsewhere(txn, key):
            return
        appended = txn.appended.pop(key, None)
        if appended is None or appended.is_lost:
            markers = txn.markers
            producer = markers.producer_id, markers.producer_epoch
            marker = Marker(markers.committed, txn.coordinator_epoch, self._clock.now_ms())
            try:
                appended = write_marker(
                    self._replicas, self._groups, key, producer, marker, markers.version
                )
            except Exception as failure:
                self._append_failed(txn, key, as_api_error(failure, key))
                return
        if appended.is_committed:
            self._partition_done(txn, key)
        else:
            txn.appended[key] = appended
            self._wait_for(txn, key)

    def _send_elsewhere(self, txn: _PendingTxn, key: PartitionKey) -> bool:
        """Have the leader of a partition write the marker, if that is another broker."""
        peers = self._transactions.peers
        leader = None if peers is None else peers.leader_elsewhere(key)
        if peers is None or leader is None:
            return False
        from kavka.server.replication.transaction_peers import RemoteMarker, TransactionEnd

        markers = txn.markers
        end = TransactionEnd(
            markers.producer_id,
            markers.producer_epoch,
            markers.committed,
            txn.coordinator_epoch,
            markers.version,
        )
        txn.appended.pop(key, None)
        txn.sent[key] = None
        peers.send(leader, RemoteMarker(end, key, partial(self._responded, txn, key)))
        return True

    def _responded(self, txn: _PendingTxn, key: PartitionKey, code: ErrorCode) -> None:
        """Another broker has written a marker, or could not."""
        del txn.sent[key]
        if txn.is_dropped:
            return
        if code == ErrorCode.NONE:
            self._partition_done(txn, key)
        elif code.retriable and code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            name = txn.markers.transactional_id
            self._delays.line(
                "marker of transaction %r is not written to %s-%d; retrying: %s",
                name,
                *key,
                code.name,
            )
            again = self._process_each(key, [txn])
            self._tasks.call_later(REMOTE_RETRY_S, self._queue.enqueue, again)
        else:
            self._append_failed(txn, key, ApiError(code))

    def _append_failed(self, txn: _PendingTxn, key: PartitionKey, error: ApiError) -> None:
        name = txn.markers.transactional_id
        if error.code == ErrorCode.TRANSACTION_COORDINATOR_FENCED:
            logger.error("marker of transaction %r is fenced in %s-%d: %s", name, *key, error)
            self._drop(txn)
            return
        if error.code == ErrorCode.INVALID_PRODUCER_EPOCH:
            # its producer has a newer epoch there: nothing of this transaction is open
            logger.warning("transaction %r needs no marker in %s-%d: %s", name, *key, error)
            self._partition_done(txn, key)
            return
        self._delays.line(
            "can't write marker of transaction %r to %s-%d; retrying: %s", name, *key, error
        )
        self._wait_for(txn, key)
        if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self._check_topic(key[0])
        elif self._leads(key):
            self._schedule_retry(key)
        if self._transactions.peers is not None:
            self._schedule_retry(key)  # its leader may be another broker by then

    def _leads(self, key: PartitionKey) -> bool:
        """Whether this broker leads the partition, so that the reason is another one."""
        replica = self._replicas.find(*key)
        return replica is not None and replica.partition.is_leader and not replica.offline

    def _partition_done(self, txn: _PendingTxn, key: PartitionKey) -> None:
        if key in txn.remaining:
            del txn.remaining[key]
            if not txn.remaining:
                self._complete(txn)

    def _complete(self, txn: _PendingTxn) -> None:
        """Notify the coordinator that all markers are committed."""
        markers = txn.markers
        if txn.is_dropped:
            return
        try:
            result = self._transactions.call(
                markers.transactional_id,
                lambda shard, future, now_ms: shard.markers_written(markers, future, now_ms),
            )
        except Exception as failure:
            self._completion_done(txn, failure)
        else:
            if asyncio.isfuture(result):
                result.add_done_callback(lambda _: self._completion_done(txn, result.exception()))
            else:
                self._completion_done(txn, None)

    def _completion_done(self, txn: _PendingTxn, failure: BaseException | None) -> None:
        """The coordinator has recorded the completion, or will (see `kavka.txncoord.ending`). If
        it could not be notified, retry."""
        if txn.is_dropped:
            return
        name = txn.markers.transactional_id
        if failure is None:
            txn.forget()
            return
        logger.warning(
            "can't write completion of transaction %r; retrying: %s",
            name,
            failure,
            exc_info=None if isinstance(failure, ApiError) else failure,
        )
        self._tasks.call_later(RETRY_S, self._complete, txn)

    # -- waiting --------------------------------------------------------------------------

    def _wait_for(self, txn: _PendingTxn, key: PartitionKey) -> None:
        waiting = self._waiting.setdefault(key, {})
        if txn not in waiting:
            waiting[txn] = None
            self.waiting += 1
        if key not in self._watches:
            self._watches[key] = self._purgatory.watch(key, partial(self._partition_changed, key))

    def _partition_changed(self, key: PartitionKey) -> None:
        """A partition has changed, or it is time to retry: process its markers."""
        if key in self._waiting:
            self._queue.enqueue(self._process_each(key, self._unwatch(key)))

    def _process_each(self, key: PartitionKey, txns: Iterable[_PendingTxn]) -> Steps[None]:
        for txn in txns:
            if not txn.is_dropped:
                self._process(txn, key)
            yield None

    def _unwatch(self, key: PartitionKey) -> Iterable[_PendingTxn]:
        """Stop watching a partition. Returns the transactions that waited for it."""
        txns = self._waiting.pop(key)
        self.waiting -= len(txns)
        self._retries.pop(key, None)
        if (watch := self._watches.pop(key, None)) is not None:
            watch.cancel()
        return txns

    def _schedule_retry(self, key: PartitionKey) -> None:
        self._retries[key] = None
        if self._timer is None:
            self._timer = self._tasks.call_later(RETRY_S, self._retry)

    def _retry(self) -> None:
        self._timer = None
        retries, self._retries = self._retries, {}
        self._queue.enqueue(each(retries, self._partition_changed, PARTITIONS_PER_STEP))

    # -- deleted topics -------------------------------------------------------------------

    def _check_topic(self, topic: str) -> None:
        """Find out whether an unknown topic is new or was deleted."""
        if topic not in self._topic_reads:
            self._topic_reads[topic] = None
            self._tasks.spawn(self._read_topic(topic), name=f"partitions of {topic} to be marked")

    async def _read_topic(self, topic: str) -> None:
        try:
            node = await self._coordination.get(paths.topic(topic), self._topic_changed)
            existing = paths.decode_topic(node.data).replicas.keys()
        except NoNode:
            existing = {}.keys()
        except (CoordinationError, ValueError, KeyError) as failure:  # perhaps the node is damaged
            logger.warning("can't find out whether topic %s was deleted: %s", topic, failure)
            self._queue.enqueue(self._for_each_waiting(topic, self._schedule_retry))
            return
        finally:
            del self._topic_reads[topic]
        self._queue.enqueue(self._for_each_waiting(topic, partial(self._skip_if_deleted, existing)))

    def _topic_changed(self, event: WatchEvent) -> None:
        topic = event.path.removeprefix(paths.topic(""))
        self._queue.enqueue(self._for_each_waiting(topic, self._partition_changed))

    def _for_each_waiting(self, topic: str, do: Callable[[PartitionKey], object]) -> Steps[None]:
        for key in list(self._waiting):
            if key[0] == topic and key in self._waiting:
                do(key)
            yield None

    def _skip_if_deleted(self, existing: Container[int], key: PartitionKey) -> None:
        is_new = self._replicas.find(*key) is not None  # created since the tree was read
        if key[1] not in existing and not is_new:
            self._queue.enqueue(self._skip_deleted(key, self._unwatch(key)))

    def _skip_deleted(self, key: PartitionKey, txns: Iterable[_PendingTxn]) -> Steps[None]:
        for txn in txns:
            if not txn.is_dropped:
                name = txn.markers.transactional_id
                logger.warning(
                    "skipped marker of transaction %r in %s-%d: the topic was deleted", name, *key
                )
                self._partition_done(txn, key)
            yield None


def as_api_error(failure: Exception, key: PartitionKey) -> ApiError:
    """A failure as the error of one marker; the others are still written."""
    if isinstance(failure, ApiError):
        return failure
    logger.error("writing a transaction marker to %s-%d failed", *key, exc_info=failure)
    return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
