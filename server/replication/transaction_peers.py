"""Transactions that span brokers: a leader asks the coordinator whether a partition is in one
(KIP-890), and the coordinator has other leaders write its markers (KIP-98)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from kavka.client.errors import UnsupportedVersion
from kavka.seams import Tasks
from kavka.server.cluster.metadata_cache import MetadataCache
from kavka.server.replication.broker_clients import Peers
from kavka.wire.apis import add_partitions_to_txn, write_txn_markers
from kavka.wire.errors import ErrorCode

if TYPE_CHECKING:
    import asyncio

MARKERS_PER_REQUEST_MAX: Final = 500

PartitionKey: TypeAlias = tuple[str, int]
"""Topic and partition."""

_PartitionsByTopic: TypeAlias = dict[str, list[int]]
"""Partitions by topic."""


class TransactionEnd(NamedTuple):
    """The content of a marker: how a producer's transaction ends."""

    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int
    version: int
    """Of the transaction protocol."""


class RemoteMarker(NamedTuple):
    """A marker for another broker to write."""

    end: TransactionEnd
    key: PartitionKey
    done: Callable[[ErrorCode], object]
    """Called with the leader's response: NONE when the marker is committed. NETWORK_EXCEPTION: it
    may have been written."""


class TransactionPeers:
    """This broker's requests to other brokers about transactions."""

    def __init__(
        self,
        broker_id: int,
        metadata: MetadataCache,
        *,
        coordinators: Peers,
        leaders: Peers,
        tasks: Tasks,
    ) -> None:
        """Questions for coordinators have connections of their own, so that none waits behind
        markers, which are answered when they are replicated."""
        self._broker_id = broker_id
        self._metadata = metadata
        self._coordinators = coordinators
        self._leaders = leaders
        self._tasks = tasks
        self._queues: dict[int, deque[RemoteMarker]] = {}
        """Markers to send, by broker. There is one request under way to each."""
        self._senders: dict[int, asyncio.Task[None]] = {}
        self._is_closed = False

    def leader_elsewhere(self, key: PartitionKey) -> int | None:
        """The broker that leads a partition, if it is another one."""
        topic = self._metadata.image.topics.get(key[0])
        partition = None if topic is None else topic.partition(key[1])
        if partition is None or partition.leader in (-1, self._broker_id):
            return None
        return partition.leader

    async def verify(
        self,
        coordinator_id: int,
        producer: tuple[str, int, int],
        partitions: Sequence[PartitionKey],
        *,
        add: bool,
    ) -> Sequence[ErrorCode]:
        """Ask a coordinator whether a producer's transaction (transactional id, producer id, epoch)
        has these partitions; with `add`, ask it to add them. Returns a code for each."""
        client = self._coordinators.client(coordinator_id)
        if client is None:
            return [ErrorCode.COORDINATOR_NOT_AVAILABLE] * len(partitions)
        topics = [
            add_partitions_to_txn.RequestedTopic(topic, indexes)
            for topic, indexes in _by_topic(partitions).items()
        ]
        transaction = add_partitions_to_txn.RequestedTransaction(*producer, not add, topics)
        request = add_partitions_to_txn.AddPartitionsToTxnRequest([transaction])
        try:
            response = await client.ask(add_partitions_to_txn.API, request)
        except (ConnectionError, UnsupportedVersion):
            return [ErrorCode.NETWORK_EXCEPTION] * len(partitions)
        if response.error_code:
            return [ErrorCode(response.error_code)] * len(partitions)
        codes = {
            (topic.name, partition.partition_index): ErrorCode(partition.partition_error_code)
            for transaction in response.results_by_transaction
            for topic in transaction.topic_results
            for partition in topic.results_by_partition
        }
        return [codes.get(key, ErrorCode.UNKNOWN_SERVER_ERROR) for key in partitions]

    def send(self, broker_id: int, marker: RemoteMarker) -> None:
        """Have another broker write a marker; no effect after `close`."""
        if self._is_closed:
            return
        self._queues.setdefault(broker_id, deque()).append(marker)
        if broker_id not in self._senders:
            name = f"transaction markers for broker {broker_id}"
            self._senders[broker_id] = self._tasks.spawn(self._send_queued(broker_id), name=name)

    def close(self) -> None:
        """Drop the markers that are not sent yet, and close all connections."""
        self._is_closed = True
        self._queues.clear()
        self._coordinators.close()
        self._leaders.close()

    async def _send_queued(self, broker_id: int) -> None:
        try:
            while queue := self._queues.get(broker_id):
                markers = _take(queue)
                codes = await self._write(broker_id, markers)
                for marker in markers:
                    marker.done(codes.get((marker.end.producer_id, *marker.key), _UNKNOWN))
                await self._tasks.sleep(0)
        finally:
            del self._senders[broker_id]
            self._queues.pop(broker_id, None)

    async def _write(
        self, broker_id: int, markers: Sequence[RemoteMarker]
    ) -> dict[tuple[int, str, int], ErrorCode]:
        """Codes by (producer id, topic, partition). Markers whose outcome is not known are
        missing."""
        client = self._leaders.client(broker_id)
        if client is None:
            return {}
        try:
            response = await client.ask(write_txn_markers.API, _request(markers))
        except (ConnectionError, UnsupportedVersion):
            return {}
        return {
            (marker.producer_id, topic.name, partition.partition_index): ErrorCode(
                partition.error_code
            )
            for marker in response.markers
            for topic in marker.topics
            for partition in topic.partitions
        }


_UNKNOWN: Final = ErrorCode.NETWORK_EXCEPTION


def _take(queue: deque[RemoteMarker]) -> list[RemoteMarker]:
    """The markers of the next request, from the queue: up to the first one whose producer has
    another transaction among them, because the response names producers only by their id."""
    taken: list[RemoteMarker] = []
    ends: dict[int, TransactionEnd] = {}
    while queue and len(taken) < MARKERS_PER_REQUEST_MAX:
        end = queue[0].end
        if ends.setdefault(end.producer_id, end) != end:
            break
        taken.append(queue.popleft())
    return taken


def _request(markers: Sequence[RemoteMarker]) -> Any:
    by_end: dict[TransactionEnd, list[PartitionKey]] = {}
    for marker in markers:
        by_end.setdefault(marker.end, []).append(marker.key)
    return write_txn_markers.WriteTxnMarkersRequest(
        [
            write_txn_markers.RequestedMarker(
                end.producer_id,
                end.producer_epoch,
                end.committed,
                [
                    write_txn_markers.RequestedTopic(topic, indexes)
                    for topic, indexes in _by_topic(keys).items()
                ],
                end.coordinator_epoch,
                end.version,
            )
            for end, keys in by_end.items()
        ]
    )


def _by_topic(keys: Sequence[PartitionKey]) -> _PartitionsByTopic:
    partitions: _PartitionsByTopic = {}
    for topic, index in keys:
        partitions.setdefault(topic, []).append(index)
    return partitions
