"""Rows of `kafka.server`, `kafka.controller` and `kafka.cluster`: topics, replicas, connections."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from kavka.server.monitoring.metrics.row import Kind, Metric
from kavka.server.monitoring.metrics.samples import Sample
from kavka.server.monitoring.metrics.view import View, min_isr
from kavka.server.replica.replica import Replica
from kavka.server.replica.topic_traffic import TopicTraffic
from kavka.wire.apis import fetch
from kavka.wire.errors import ErrorCode

if TYPE_CHECKING:
    from kavka.server.replica.replication_quotas import ReplicationQuotas

_NETWORK_PROCESSOR: Final = "0"
"""The number of the network thread in Apache Kafka; Kavka has one event loop."""


def unlabelled(read: Callable[[View], float]) -> Callable[[View], Iterator[Sample]]:
    """A reader of one number without labels."""

    def read_number(view: View) -> Iterator[Sample]:
        yield (), read(view)

    return read_number


def _traffic(name: str, doc: str, read: Callable[[TopicTraffic], int]) -> Metric:
    """A count over all topics, and of each topic."""

    def read_all(view: View) -> Iterator[Sample]:
        yield (), read(view.traffic)
        for topic, traffic in list(view.broker.replicas.traffic.topics.items()):
            yield (topic,), read(traffic)

    name = f"kafka.server:type=BrokerTopicMetrics,name={name}"
    return Metric(name, Kind.COUNTER, ("topic",), doc, read_all)


def _failed_fetches(view: View) -> float:
    return view.broker.requests.of(fetch.API).errors.get(ErrorCode.UNKNOWN_SERVER_ERROR, 0)


TOPIC_ROWS: Final = (
    _traffic(
        "MessagesInPerSec",
        "Records that producers wrote, by the counts in their batch headers. Without the label: of "
        "all topics since the start, including deleted ones.",
        lambda topic: topic.messages_in,
    ),
    _traffic(
        "BytesInPerSec",
        "Bytes of the batches that producers wrote, as received (compressed).",
        lambda topic: topic.bytes_in,
    ),
    _traffic(
        "BytesOutPerSec",
        "Bytes of batches that were sent to consumers.",
        lambda topic: topic.bytes_out,
    ),
    _traffic(
        "BytesRejectedPerSec",
        "Bytes of batches that were rejected because they exceed max.message.bytes.",
        lambda topic: topic.bytes_rejected,
    ),
    _traffic(
        "TotalProduceRequestsPerSec",
        "Writes to partitions, successful or not: a request with three partitions counts as three.",
        lambda topic: topic.appends + topic.refused,
    ),
    _traffic(
        "FailedProduceRequestsPerSec",
        "Partitions whose write failed with an unexpected server error.",
        lambda topic: topic.failed,
    ),
    _traffic(
        "TotalFetchRequestsPerSec",
        "Fetches from partitions, including those that a fetch session remembers.",
        lambda topic: topic.fetches,
    ),
    Metric(
        "kafka.server:type=BrokerTopicMetrics,name=FailedFetchRequestsPerSec",
        Kind.COUNTER,
        (),
        "Fetches that failed with an unexpected server error.",
        unlabelled(_failed_fetches),
    ),
    Metric(
        "kafka.server:type=BrokerTopicMetrics,name=InvalidMessageCrcRecordsPerSec",
        Kind.COUNTER,
        (),
        "Batches that were rejected for a wrong CRC or length.",
        unlabelled(lambda view: view.traffic.corrupt),
    ),
    _traffic(
        "ProduceMessageConversionsPerSec",
        "Records that were converted to another magic or compression type before the append.",
        lambda topic: topic.converted,
    ),
    Metric(
        "kafka.server:type=BrokerTopicMetrics,name=NoKeyCompactedTopicRecordsPerSec",
        Kind.COUNTER,
        (),
        "Records without a key that were rejected because their topic is compacted.",
        unlabelled(lambda view: view.traffic.keyless),
    ),
)


def _replica_manager(name: str, doc: str, read: Callable[[View], int]) -> Metric:
    return Metric(
        f"kafka.server:type=ReplicaManager,name={name}", Kind.GAUGE, (), doc, unlabelled(read)
    )


def _controller(name: str, doc: str, read: Callable[[View], int]) -> Metric:
    """A number that only the active controller reports; other brokers report 0."""

    def read_active(view: View) -> int:
        return read(view) if view.broker.controller.is_active else 0

    name = f"kafka.controller:type=KafkaController,name={name}"
    return Metric(name, Kind.GAUGE, (), doc, unlabelled(read_active))


REPLICA_ROWS: Final = (
    _replica_manager(
        "LeaderCount", "Partitions that this broker leads.", lambda view: view.here.leaders
    ),
    _replica_manager(
        "PartitionCount",
        "Partitions of which this broker has a replica.",
        lambda view: len(view.replicas),
    ),
    _replica_manager(
        "OfflineReplicaCount",
        "Replicas that are offline because their log directory has failed.",
        lambda view: view.here.offline + view.broker.replicas.missing_count,
    ),
    _replica_manager(
        "UnderReplicatedPartitions",
        "Partitions led here with replicas that are not in sync.",
        lambda view: view.here.under_replicated,
    ),
    _replica_manager(
        "UnderMinIsrPartitionCount",
        "Partitions led here with fewer in-sync replicas than min.insync.replicas.",
        lambda view: view.here.under_min_isr,
    ),
    _replica_manager(
        "AtMinIsrPartitionCount",
        "Partitions led here with exactly min.insync.replicas in-sync replicas.",
        lambda view: view.here.at_min_isr,
    ),
    _replica_manager(
        "ProducerIdCount",
        "Producer ids with state, counted once for each partition.",
        lambda view: view.here.producers,
    ),
    _replica_manager(
        "PartitionsWithLateTransactionsCount",
        "Partitions with a transaction that has been open for longer than "
        "transaction.max.timeout.ms and five minutes: it may be hanging.",
        lambda view: view.here.late_transactions,
    ),
    _controller("ActiveControllerCount", "1 on the active controller.", lambda view: 1),
    _controller(
        "ActiveBrokerCount",
        "Live brokers.",
        lambda view: len(view.broker.metadata.image.brokers),
    ),
    _controller("GlobalTopicCount", "Topics.", lambda view: view.cluster.topics),
    _controller("GlobalPartitionCount", "Partitions.", lambda view: view.cluster.partitions),
    _controller(
        "OfflinePartitionsCount", "Partitions without a leader.", lambda view: view.cluster.offline
    ),
    _controller(
        "PreferredReplicaImbalanceCount",
        "Partitions whose leader is not their preferred replica.",
        lambda view: view.cluster.not_preferred,
    ),
)


def _throttled(direction: str, doc: str, read: Callable[[ReplicationQuotas], float]) -> Metric:
    """A rate, which is 0 on a standalone broker."""

    def read_rate(view: View) -> Iterator[Sample]:
        quotas = view.broker.replication_quotas
        yield (), 0.0 if quotas is None else read(quotas)

    return Metric(f"kafka.server:type={direction}#byte-rate", Kind.GAUGE, (), doc, read_rate)


THROTTLE_ROWS: Final = (
    _throttled(
        "LeaderReplication",
        "Bytes a second that followers are sent of throttled partitions.",
        lambda quotas: quotas.leader.bytes_per_s,
    ),
    _throttled(
        "FollowerReplication",
        "Bytes a second that are fetched from leaders of throttled partitions.",
        lambda quotas: quotas.follower.bytes_per_s,
    ),
)


def _partition(name: str, doc: str, read: Callable[[Replica], int]) -> Metric:
    """A number for each partition that this broker leads; 0 for the others."""

    def read_all(view: View) -> Iterator[Sample]:
        for replica in view.replicas:
            leads = replica.partition.is_leader and not replica.offline
            topic, partition = replica.key
            yield (topic, str(partition)), read(replica) if leads else 0

    name = f"kafka.cluster:type=Partition,name={name}"
    return Metric(name, Kind.GAUGE, ("topic", "partition"), doc, read_all)


PARTITION_ROWS: Final = (
    _partition(
        "UnderReplicated",
        "1 for a partition led here with replicas that are not in sync.",
        lambda replica: len(replica.partition.isr) < len(replica.partition.replicas),
    ),
    _partition(
        "UnderMinIsr",
        "1 for a partition led here with fewer in-sync replicas than min.insync.replicas.",
        lambda replica: len(replica.partition.isr) < min_isr(replica),
    ),
    _partition(
        "AtMinIsr",
        "1 for a partition led here with exactly min.insync.replicas in-sync replicas.",
        lambda replica: len(replica.partition.isr) == min_isr(replica),
    ),
    _partition(
        "InSyncReplicasCount",
        "In-sync replicas of a partition led here.",
        lambda replica: len(replica.partition.isr),
    ),
    _partition(
        "ReplicasCount",
        "Replicas of a partition led here.",
        lambda replica: len(replica.partition.replicas),
    ),
    _partition(
        "LastStableOffsetLag",
        "Records between the last stable offset and the high watermark.",
        lambda replica: replica.high_watermark - replica.last_stable_offset,
    ),
)


def _by_operation(counts: Mapping[str, int]) -> Iterator[Sample]:
    for operation in ("Produce", "Fetch"):
        yield (operation,), counts.get(operation, 0)


WAITING_ROWS: Final = (
    Metric(
        "kafka.server:type=DelayedOperationPurgatory,name=PurgatorySize",
        Kind.GAUGE,
        ("delayedOperation",),
        "Partitions watched by requests in the purgatory, counted once for each request.",
        lambda view: _by_operation(view.broker.purgatory.watched),
    ),
    Metric(
        "kafka.server:type=DelayedOperationPurgatory,name=NumDelayedOperations",
        Kind.GAUGE,
        ("delayedOperation",),
        "Requests in the purgatory: a Fetch waits for records, a Produce for replicas or the disk.",
        lambda view: _by_operation(view.broker.purgatory.waiting),
    ),
    Metric(
        "kafka.server:type=DelayedFetchMetrics,name=ExpiresPerSec",
        Kind.COUNTER,
        ("fetcherType",),
        "Fetch requests that expired in the purgatory.",
        lambda view: [(("consumer",), view.broker.purgatory.expired.get("Fetch", 0))],
    ),
    Metric(
        "kafka.server:type=DelayedProduceMetrics,name=ExpiresPerSec",
        Kind.COUNTER,
        (),
        "Produce requests that expired in the purgatory.",
        unlabelled(lambda view: view.broker.purgatory.expired.get("Produce", 0)),
    ),
    Metric(
        "kafka.server:type=FetchSessionCache,name=NumIncrementalFetchSessions",
        Kind.GAUGE,
        (),
        "Fetch sessions (KIP-227).",
        unlabelled(lambda view: len(view.broker.sessions)),
    ),
    Metric(
        "kafka.server:type=FetchSessionCache,name=NumIncrementalFetchPartitionsCached",
        Kind.GAUGE,
        (),
        "Partitions in fetch sessions.",
        unlabelled(lambda view: sum(len(session.partitions) for session in view.broker.sessions)),
    ),
    Metric(
        "kafka.server:type=FetchSessionCache,name=IncrementalFetchSessionEvictionsPerSec",
        Kind.COUNTER,
        (),
        "Fetch sessions that were evicted to make room for others.",
        unlabelled(lambda view: view.broker.sessions.evictions),
    ),
)


def _sockets(name: str, kind: Kind, doc: str, read: Callable[[int, int], int]) -> Metric:
    """A number for each listener, from its open and its accepted connections."""

    def read_all(view: View) -> Iterator[Sample]:
        for listener, is_open, accepted in view.sources.connections.limits.counts():
            yield (listener, _NETWORK_PROCESSOR), read(is_open, accepted)

    name = f"kafka.server:type=socket-server-metrics#{name}"
    return Metric(name, kind, ("listener", "networkProcessor"), doc, read_all)


BROKER_ROWS: Final = (
    _sockets(
        "connection-count",
        Kind.GAUGE,
        "Open connections.",
        lambda is_open, _: is_open,
    ),
    _sockets(
        "connection-creation-total",
        Kind.COUNTER,
        "Accepted connections.",
        lambda _, accepted: accepted,
    ),
    _sockets(
        "connection-close-total",
        Kind.COUNTER,
        "Connections that were closed, by either side.",
        lambda is_open, accepted: accepted - is_open,
    ),
    Metric(
        "kafka.server:type=KafkaServer,name=BrokerState",
        Kind.GAUGE,
        (),
        "0 not running, 1 starting, 2 recovering, 3 running, 7 shutting down.",
        unlabelled(lambda view: view.sources.state()),
    ),
    Metric(
        "kafka.server:type=app-info#StartTimeMs",
        Kind.GAUGE,
        ("id",),
        "When the broker was started, in milliseconds since 1970.",
        lambda view: [((str(view.broker.broker_id),), view.sources.started_ms)],
    ),
)
