"""Rows about groups and the partitions of `__consumer_offsets`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from kavka.groupcoord.counts import Counts
from kavka.server.monitoring.metrics.lag import LAG_SERIES_MAX
from kavka.server.monitoring.metrics.row import Kind, Metric
from kavka.server.monitoring.metrics.samples import Sample
from kavka.server.monitoring.metrics.server_rows import unlabelled
from kavka.server.monitoring.metrics.view import View

_KINDS: Final = ("classic", "consumer")
_CONSUMER_STATES: Final = ("Empty", "Assigning", "Reconciling", "Stable", "Dead")
_CLASSIC_STATES: Final = {
    "PreparingRebalance": "whose members have to rejoin",
    "CompletingRebalance": "that wait for the leader's assignment",
    "Stable": "that have an assignment",
    "Dead": "that are being removed",
    "Empty": "without members",
}


def _coordinator(
    name: str, labels: tuple[str, ...], doc: str, read: Callable[[View], Iterator[Sample]]
) -> Metric:
    name = f"kafka.server:type=group-coordinator-metrics#{name}"
    return Metric(name, Kind.GAUGE, labels, doc, read)


def _count(name: str, doc: str, read: Callable[[Counts], int]) -> Metric:
    name = f"kafka.server:type=group-coordinator-metrics#{name}"
    doc = f"{doc} since the broker's start."
    return Metric(
        name, Kind.UNTYPED, (), doc, unlabelled(lambda view: read(view.broker.groups.counts))
    )


def _manager(name: str, doc: str, read: Callable[[View], float]) -> Metric:
    name = f"kafka.coordinator.group:type=GroupMetadataManager,name={name}"
    return Metric(name, Kind.GAUGE, (), doc, unlabelled(read))


def _groups(view: View, kind: str) -> int:
    return sum(count for (one_kind, _), count in view.groups.items() if one_kind == kind)


def _by_progress(view: View) -> Iterator[Sample]:
    runners = view.broker.groups.runners
    active = sum(runner.is_active for runner in runners)
    failed = sum(runner.failed for runner in runners)
    yield ("loading",), len(runners) - active - failed
    yield ("active",), active
    yield ("failed",), failed


def _load_ms(view: View) -> list[int]:
    return view.broker.groups.load_ms(view.now_s) or [0]


LAG_ROWS: Final = (
    # The name and the labels are those of kafka_exporter, which lag dashboards are made for:
    # in Apache Kafka itself only the consumers export their lag.
    Metric(
        "kafka_consumergroup_lag",
        Kind.GAUGE,
        ("consumergroup", "topic", "partition"),
        "Consumer group lag: the partition's high watermark minus the committed offset, as "
        "kafka-consumer-groups --describe prints it. Of groups that this broker coordinates, with "
        "or without members, in partitions that it leads; of at most "
        f"{LAG_SERIES_MAX:,} committed offsets.",
        lambda view: view.lags.samples,
    ),
    Metric(
        "kavka_consumergroup_lag_left_out",
        Kind.GAUGE,
        (),
        f"Committed offsets that kafka_consumergroup_lag leaves out because there are more than "
        f"{LAG_SERIES_MAX:,}.",
        unlabelled(lambda view: view.lags.left_out),
    ),
)

GROUP_ROWS: Final = (
    _manager("NumGroups", "Classic groups.", lambda view: _groups(view, "classic")),
    *(
        _manager(
            f"NumGroups{state}",
            f"Classic groups {description}.",
            lambda view, state=state: view.groups["classic", state],  # type: ignore[misc]
        )
        for state, description in _CLASSIC_STATES.items()
    ),
    _manager("NumOffsets", "Committed offsets.", lambda view: view.offsets),
    _coordinator(
        "group-count",
        ("protocol",),
        "Groups, by their protocol.",
        lambda view: (((kind,), _groups(view, kind)) for kind in _KINDS),
    ),
    _coordinator(
        "consumer-group-count",
        ("state",),
        "Groups of the consumer protocol (KIP-848), by state.",
        lambda view: (((state,), view.groups["consumer", state]) for state in _CONSUMER_STATES),
    ),
    _count(
        "offset-commit-count",
        "Offsets committed",
        lambda counts: counts.offsets_committed,
    ),
    _count(
        "offset-expiration-count",
        "Offsets that have expired",
        lambda counts: counts.offsets_expired,
    ),
    _count(
        "offset-deletion-count",
        "Offsets deleted by request",
        lambda counts: counts.offsets_deleted,
    ),
    _count(
        "group-completed-rebalance-count",
        "Completed rebalances of classic groups",
        lambda counts: counts.classic_rebalances,
    ),
    _count(
        "consumer-group-rebalance-count",
        "Rebalances (new group epochs) of groups of the consumer protocol",
        lambda counts: counts.consumer_rebalances,
    ),
    _coordinator(
        "num-partitions",
        ("state",),
        "Partitions of __consumer_offsets that this broker leads, by state: loading, active, or "
        "failed to load.",
        _by_progress,
    ),
    _coordinator(
        "partition-load-time-max",
        (),
        "The longest time in ms to load the groups of a partition, in the last 30 seconds.",
        unlabelled(lambda view: max(_load_ms(view))),
    ),
    _coordinator(
        "partition-load-time-avg",
        (),
        "The average of those times in ms.",
        unlabelled(lambda view: sum(_load_ms(view)) / len(_load_ms(view))),
    ),
)
