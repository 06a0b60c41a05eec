"""A snapshot of a broker for the table of metrics. Counts that need a pass over all partitions are
made here once, in slices, and not by each row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from kavka.server.broker import Broker
from kavka.server.cluster.control_messages import NO_LEADER
from kavka.server.cluster.metadata_cache import TopicImage
from kavka.server.connections.registry import Connections
from kavka.server.monitoring.health import BrokerState
from kavka.server.monitoring.loop_lag import LoopLag
from kavka.server.monitoring.metrics.lag import Lags, lags
from kavka.server.monitoring.process_usage import Usage
from kavka.server.replica.replica import Replica
from kavka.server.replica.topic_traffic import TopicTraffic
from kavka.wire.steps import Steps

LATE_AFTER_MS: Final = 300_000
"""The time beyond the longest timeout after which a transaction is late; as Apache Kafka."""

REPLICAS_PER_STEP: Final = 500
"""At one or two microseconds each."""

GROUPS_PER_STEP: Final = 1000
TRANSACTIONS_PER_STEP: Final = 5000


@dataclass(frozen=True, slots=True)
class Sources:
    """The sources of all metrics."""

    broker: Broker
    connections: Connections
    lag: LoopLag
    state: Callable[[], BrokerState]
    usage: Callable[[], Usage | None]
    started_ms: int
    """Wall-clock time of the broker's start."""


@dataclass(slots=True)
class ReplicaCounts:
    """Counts of this broker's replicas, as in Apache Kafka."""

    leaders: int = 0
    offline: int = 0
    under_replicated: int = 0
    under_min_isr: int = 0
    at_min_isr: int = 0
    producers: int = 0
    late_transactions: int = 0


@dataclass(slots=True)
class ClusterCounts:
    """Counts of all partitions of the cluster, from the metadata cache."""

    topics: int = 0
    partitions: int = 0
    offline: int = 0
    not_preferred: int = 0


@dataclass(slots=True)
class View:
    """The snapshot that the rows read."""

    sources: Sources
    now_s: float
    traffic: TopicTraffic
    replicas: Sequence[Replica]
    usage: Usage | None
    here: ReplicaCounts = field(default_factory=ReplicaCounts)
    cluster: ClusterCounts = field(default_factory=ClusterCounts)
    groups: Counter[tuple[str, str]] = field(default_factory=Counter)
    """The number of groups by type and state, as ListGroups names them."""
    offsets: int = 0
    """The number of committed offsets."""
    lags: Lags = field(default_factory=Lags)
    transactions: Counter[str] = field(default_factory=Counter)
    """The number of transactional ids by state, as ListTransactions names it."""
    uncompleted: int = 0
    """Transactions whose markers are written, but whose completion is not."""

    @property
    def broker(self) -> Broker:
        return self.sources.broker


def collect(sources: Sources) -> Steps[View]:
    """Collect the snapshot, in slices."""
    broker = sources.broker
    view = View(
        sources,
        broker.clock.monotonic_s(),
        broker.replicas.traffic.total(),
        list(broker.replicas),
        sources.usage(),
    )
    yield None
    allowed_ms = broker.settings.transaction_max_timeout_ms + LATE_AFTER_MS
    late_ms = broker.clock.now_ms() - allowed_ms
    for part in _parts(view.replicas):
        for replica in part:
            _count_replica(replica, view.here, late_ms)
        yield None
    topics = list(broker.metadata.image.topics.values())
    for some in _parts_of_topics(topics):
        for topic in some:
            _count_topic(topic, view.cluster)
        yield None
    yield from _count_groups(view)
    view.lags = yield from lags(broker)
    yield from _count_transactions(view)
    return view


def _count_groups(view: View) -> Steps[None]:
    now_ms = view.broker.clock.now_ms()
    count_so_far = 0
    for runner in view.broker.groups.runners:
        if not runner.is_active:
            continue
        shard = runner.machine
        view.offsets += shard.offsets.store.count
        for group in list(shard.state.groups.values()):
            view.groups[group.kind, group.state(now_ms)] += 1
            count_so_far += 1
            if count_so_far % GROUPS_PER_STEP == 0:
                yield None


def _count_transactions(view: View) -> Steps[None]:
    for runner in view.broker.transactions.runners:
        if not runner.is_active:
            continue
        view.uncompleted += runner.machine.uncompleted
        for count_so_far, transaction in enumerate(
            list(runner.machine.state.transactions.values()), 1
        ):
            view.transactions[transaction.state.title] += 1
            if count_so_far % TRANSACTIONS_PER_STEP == 0:
                yield None


def _parts(replicas: Sequence[Replica]) -> Iterator[Sequence[Replica]]:
    for start in range(0, len(replicas), REPLICAS_PER_STEP):
        yield replicas[start : start + REPLICAS_PER_STEP]


def _parts_of_topics(topics: Iterable[TopicImage]) -> Iterator[list[TopicImage]]:
    """Topics with about as many partitions as a slice takes."""
    part: list[TopicImage] = []
    size = 0
    for topic in topics:
        part.append(topic)
        size += len(topic.partitions)
        if size >= REPLICAS_PER_STEP:
            yield part
            part, size = [], 0
    yield part


def min_isr(replica: Replica) -> int:
    """The number of replicas that must be in sync: at most all of them."""
    return replica.partition.effective_min_isr


def _count_replica(replica: Replica, counts: ReplicaCounts, late_ms: int) -> None:
    if replica.offline:
        counts.offline += 1
        return
    producers = replica.log.producers
    counts.producers += len(producers)
    counts.late_transactions += 0 < producers.oldest_transaction_ms < late_ms
    partition = replica.partition
    if not partition.is_leader:
        return
    in_sync, needed = len(partition.isr), min_isr(replica)
    counts.leaders += 1
    counts.under_replicated += in_sync < len(partition.replicas)
    counts.under_min_isr += in_sync < needed
    counts.at_min_isr += in_sync == needed


def _count_topic(topic: TopicImage, counts: ClusterCounts) -> None:
    counts.topics += 1
    counts.partitions += len(topic.partitions)
    for partition in topic.partitions:
        counts.offline += partition.leader == NO_LEADER
        counts.not_preferred += partition.leader != partition.replicas[0]
