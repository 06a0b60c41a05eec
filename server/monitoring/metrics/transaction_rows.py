"""Rows about transactions and the partitions of `__transaction_state`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from kavka.server.monitoring.metrics.row import Kind, Metric
from kavka.server.monitoring.metrics.samples import Sample, Summary
from kavka.server.monitoring.metrics.server_rows import unlabelled
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
    return Metric(name, Kind.GAUGE, (), doc, unlabelled(read))


def _load_ms(view: View) -> list[int]:
    return view.broker.transactions.load_ms(view.now_s) or [0]


def _verification_ms(view: View) -> Iterator[Sample]:
    histogram = view.broker.transactions.verification_ms
    yield (), Summary(histogram, histogram.count)


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
        "Transaction markers that wait for their partition: for a leader, for in-sync replicas, or "
        "for the disk.",
        unlabelled(_waiting_markers),
    ),
    Metric(
        "kafka.coordinator.transaction:type=TransactionMarkerChannelManager,"
        "name=LogAppendRetryQueueSize",
        Kind.GAUGE,
        (),
        "Transactions whose markers are written, but whose completion could not be written yet and "
        "is being retried.",
        unlabelled(lambda view: view.uncompleted),
    ),
    Metric(
        "kafka.server:type=AddPartitionsToTxnManager,name=VerificationFailureRate#Count",
        Kind.UNTYPED,
        (),
        "Partitions of transactional writes and offset commits that the transaction coordinator "
        "could not verify to belong to the transaction; since the broker's start.",
        unlabelled(lambda view: view.broker.transactions.unverified),
    ),
    Metric(
        "kafka.server:type=AddPartitionsToTxnManager,name=VerificationTimeMs",
        Kind.SUMMARY,
        (),
        "Time to verify with the transaction coordinator that a partition belongs to a "
        "transaction.",
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
        "The average of those times in ms.",
        lambda view: sum(_load_ms(view)) / len(_load_ms(view)),
    ),
)
