"""Rows of `kafka.log`: logs and log directories."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from kavka.log.partition_log import PartitionLog
from kavka.server.monitoring.metrics.row import Kind, Metric
from kavka.server.monitoring.metrics.samples import Sample, Summary
from kavka.server.monitoring.metrics.server_rows import unlabelled
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
    yield (), Summary(flush_ms, flush_ms.count)


def _directories(view: View) -> Iterator[Sample]:
    failed = view.broker.replicas.logs.failed_directories
    for directory in view.broker.replicas.logs.directories:
        yield (directory,), directory in failed


LOG_ROWS: Final = (
    _log("Size", "Size of all segments in bytes.", lambda log: log.size_bytes),
    _log("NumLogSegments", "Number of segments.", lambda log: log.segment_count),
    _log("LogStartOffset", "The log start offset.", lambda log: log.start_offset),
    _log(
        "LogEndOffset",
        "The log end offset: the offset of the next record.",
        lambda log: log.end_offset,
    ),
    Metric(
        "kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs",
        Kind.SUMMARY,
        (),
        "How long flushes of logs took.",
        _flush_times,
    ),
    Metric(
        "kafka.log:type=LogManager,name=OfflineLogDirectoryCount",
        Kind.GAUGE,
        (),
        "Log directories that have failed.",
        unlabelled(lambda view: len(view.broker.replicas.logs.failed_directories)),
    ),
    Metric(
        "kafka.log:type=LogManager,name=LogDirectoryOffline",
        Kind.GAUGE,
        ("logDirectory",),
        "1 for a log directory that has failed.",
        _directories,
    ),
)
