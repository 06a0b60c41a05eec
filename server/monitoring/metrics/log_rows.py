"""Rows of `kafka.log`: what is on the disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from kavka.log.partition_log import PartitionLog
from kavka.server.monitoring.metrics.row import Kind, Metric, Sample, Spread
from kavka.server.monitoring.metrics.server_rows import one
from kavka.server.monitoring.metrics.view import View


def _log(name: str, doc: str, read: Callable[[PartitionLog], int]) -> Metric:
    def read_all(view: View) -> Iterator[Sample]:
        for replica in view.replicas:
            if not replica.offline:
                topic, partition = replica.key
                yield (topic, str(partition)), read(replica.log)

    name = f"kafka.log:type=Log,name={name}"
    return Metric(name, Kind.GAUGE, ("topic", "partition"), doc, read_all)


def _flush_times(view: View) -> Iterator[Sample]:
    flush_ms = view.broker.replicas.flusher.flush_ms
    yield (), Spread(flush_ms, flush_ms.count)


def _directories(view: View) -> Iterator[Sample]:
    failed = view.broker.replicas.logs.failed_directories
    for directory in view.broker.replicas.logs.directories:
        yield (directory,), directory in failed


LOG_ROWS: Final = (
    _log("Size", "Bytes of all segments.", lambda log: log.size_bytes),
    _log("NumLogSegments", "Segments.", lambda log: log.segment_count),
    _log("LogStartOffset", "The first offset.", lambda log: log.start_offset),
    _log("LogEndOffset", "The offset that the next record gets.", lambda log: log.end_offset),
    Metric(
        "kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs",
        Kind.SUMMARY,
        (),
        "How long it took to bring logs to the disk.",
        _flush_times,
    ),
    Metric(
        "kafka.log:type=LogManager,name=OfflineLogDirectoryCount",
        Kind.GAUGE,
        (),
        "Log directories that can't be used, since the start or later.",
        one(lambda view: len(view.broker.replicas.logs.failed_directories)),
    ),
    Metric(
        "kafka.log:type=LogManager,name=LogDirectoryOffline",
        Kind.GAUGE,
        ("logDirectory",),
        "1 for a log directory that can't be used, since the start or later.",
        _directories,
    ),
)
