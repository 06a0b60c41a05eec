"""Rows that tell of transactions and of the partitions that they are kept in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from kavka.server.monitoring.metrics.row import Kind, Metric, Sample, Spread
from kavka.server.monitoring.metrics.server_rows import one
from kavka.server.monitoring.metrics.view import View

_STATES: Final = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
)


def _coordinator(name: str, doc: str, read: Callable[[View], float]) -> Metric:
    name = f"kafka.server:type=transaction-coordinator-metrics#{name}"
    return Metric(name, Kind.GAUGE, (), doc, one(read))


def _load_ms(view: View) -> list[int]:
    return view.broker.transactions.load_ms(view.now_s) or [0]


def _verification_ms(view: View) -> Iterator[Sample]:
    histogram = view.broker.transactions.verification_ms
    yield (), Spread(histogram, histogram.count)


def _waiting_markers(view: View) -> int:
    markers = view.broker.transaction_markers
    return 0 if markers is None else markers.waiting


TRANSACTION_ROWS: Final = (
    Metric(
        "kavka_transactional_ids",
        Kind.GAUGE,
        ("state",),
        "Transactional ids that this broker coordinates, by the state of their last transaction.",
        lambda view: (((state,), view.transactions[state]) for state in _STATES),
    ),
    Metric(
        "kafka.coordinator.transaction:type=TransactionMarkerChannelManager,"
        "name=UnknownDestinationQueueSize",
        Kind.GAUGE,
        (),
        "Markers of transactions that end, which wait for their partition: for its leader, for "
        "replicas in sync, for room on the disk.",
        one(_waiting_markers),
    ),
    Metric(
        "kafka.coordinator.transaction:type=TransactionMarkerChannelManager,"
        "name=LogAppendRetryQueueSize",
        Kind.GAUGE,
        (),
        "Transactions whose markers are written, while it could not be written yet that they are "
        "completed: that is tried again.",
        one(lambda view: view.uncompleted),
    ),
    Metric(
        "kafka.server:type=AddPartitionsToTxnManager,name=VerificationFailureRate#Count",
        Kind.UNTYPED,
        (),
        "Partitions that a producer wrote to, or committed offsets to, and of which its "
        "transaction's coordinator did not say that they belong to the transaction; since the "
        "broker's start.",
        one(lambda view: view.broker.transactions.unverified),
    ),
    Metric(
        "kafka.server:type=AddPartitionsToTxnManager,name=VerificationTimeMs",
        Kind.SUMMARY,
        (),
        "How long it took to ask a transaction's coordinator whether what is written to belongs "
        "to it.",
        _verification_ms,
    ),
    _coordinator(
        "partition-load-time-max",
        "The longest time in ms that a partition's transactions took to load, in the last 30 "
        "seconds.",
        lambda view: max(_load_ms(view)),
    ),
    _coordinator(
        "partition-load-time-avg",
        "How long that took on average.",
        lambda view: sum(_load_ms(view)) / len(_load_ms(view)),
    ),
)
