"""Rows that Apache Kafka does not have: the process, the event loop, and Kavka's own metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from kavka import __version__
from kavka.server.monitoring.metrics.row import Kind, Metric
from kavka.server.monitoring.metrics.samples import Sample, Summary
from kavka.server.monitoring.metrics.server_rows import unlabelled
from kavka.server.monitoring.metrics.view import View
from kavka.server.monitoring.process_usage import Usage


def _usage(name: str, kind: Kind, doc: str, read: Callable[[Usage], float]) -> Metric:
    """A number about the process, if the system provides it."""

    def read_known(view: View) -> Iterator[Sample]:
        if view.usage is not None:
            yield (), read(view.usage)

    return Metric(name, kind, (), doc, read_known)


def _info(view: View) -> Iterator[Sample]:
    image = view.broker.metadata.image
    yield (__version__, image.cluster_id, str(view.broker.broker_id)), 1


OWN_ROWS: Final = (
    Metric(
        "kavka_info",
        Kind.GAUGE,
        ("version", "cluster_id", "broker_id"),
        "Always 1; the labels have Kavka's version, the cluster and the broker.",
        _info,
    ),
    Metric(
        "kavka_loop_lag_ms",
        Kind.SUMMARY,
        (),
        "How late a timer of the event loop fired, in milliseconds, measured four times a second: "
        "for so long no client was served.",
        lambda view: [((), Summary(view.sources.lag.histogram, view.sources.lag.histogram.count))],
    ),
    Metric(
        "kavka_loop_lag_last_ms",
        Kind.GAUGE,
        (),
        "The last measured lag of the event loop, in milliseconds.",
        unlabelled(lambda view: view.sources.lag.last_ms),
    ),
    Metric(
        "kavka_loop_lag_max_ms",
        Kind.GAUGE,
        (),
        "The highest lag of the event loop since the start, in milliseconds.",
        unlabelled(lambda view: view.sources.lag.histogram.maximum),
    ),
    Metric(
        "kavka_connections_expired_total",
        Kind.COUNTER,
        (),
        "Idle connections that were closed by connections.max.idle.ms.",
        unlabelled(lambda view: view.sources.connections.expired),
    ),
    Metric(
        "kavka_connections_refused_total",
        Kind.COUNTER,
        (),
        "Connections that were rejected by max.connections.per.ip.",
        unlabelled(lambda view: view.sources.connections.refused.count),
    ),
    Metric(
        "kavka_connections_displaced_total",
        Kind.COUNTER,
        (),
        "Connections that max.connections closed to make room for others.",
        unlabelled(lambda view: view.sources.connections.displaced),
    ),
    Metric(
        "kavka_connections_bad_requests_total",
        Kind.COUNTER,
        (),
        "Connections that were closed because of an invalid request.",
        unlabelled(lambda view: view.sources.connections.bad_requests.count),
    ),
    _usage(
        "process_cpu_seconds_total",
        Kind.COUNTER,
        "CPU time of the process, in user and system mode.",
        lambda usage: usage.cpu_s,
    ),
    _usage(
        "process_resident_memory_bytes",
        Kind.GAUGE,
        "Memory of the process that is in RAM.",
        lambda usage: usage.resident_bytes,
    ),
    _usage(
        "process_virtual_memory_bytes",
        Kind.GAUGE,
        "Address space of the process.",
        lambda usage: usage.virtual_bytes,
    ),
    _usage(
        "process_open_fds",
        Kind.GAUGE,
        "Files and sockets that the process has open.",
        lambda usage: usage.open_files,
    ),
    _usage(
        "process_max_fds",
        Kind.GAUGE,
        "Files and sockets that the process may have open.",
        lambda usage: usage.open_files_max,
    ),
    _usage(
        "kafka.server:type=KafkaServer,name=linux-disk-read-bytes",
        Kind.GAUGE,
        "Bytes that the process has read from disks.",
        lambda usage: usage.disk_read_bytes,
    ),
    _usage(
        "kafka.server:type=KafkaServer,name=linux-disk-write-bytes",
        Kind.GAUGE,
        "Bytes that the process has written to disks.",
        lambda usage: usage.disk_write_bytes,
    ),
)
