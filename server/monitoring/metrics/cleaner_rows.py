"""Rows of `kafka.log` about compaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from kavka.log.compaction.order import CompactionResult
from kavka.log.errors import CorruptLogError
from kavka.server.monitoring.metrics.row import Kind, Metric
from kavka.server.monitoring.metrics.samples import Sample
from kavka.server.monitoring.metrics.server_rows import unlabelled
from kavka.server.monitoring.metrics.view import View
from kavka.server.replica.log_cleaner import examine
from kavka.server.replica.replica import Replica


def _cleaner(name: str, doc: str, read: Callable[[View], float]) -> Metric:
    return Metric(f"kafka.log:type={name}", Kind.GAUGE, (), doc, unlabelled(read))


def _greatest(read: Callable[[CompactionResult], float]) -> Callable[[View], float]:
    """The greatest value among the last compactions of all cleaner threads."""
    return lambda view: max(map(read, view.broker.replicas.cleaning.last.values()), default=0)


def _recopy_percent(view: View) -> float:
    outcomes = view.broker.replicas.cleaning.last.values()
    read = sum(outcome.bytes_read for outcome in outcomes)
    return 100 * sum(outcome.bytes_written for outcome in outcomes) / max(1, read)


def _uncleanable(read: Callable[[Replica, int], int]) -> Callable[[View], Iterator[Sample]]:
    """By log directory, the sum of `read` (log, time in ms) over its uncleanable logs."""

    def samples(view: View) -> Iterator[Sample]:
        replicas, now_ms = view.broker.replicas, view.broker.clock.now_ms()
        sums: Counter[str] = Counter()
        for replica in replicas.cleaning.uncleanable:
            if replica.is_served:
                sums[replica.log.directory.rpartition("/")[0]] += read(replica, now_ms)
        for directory in replicas.logs.directories:
            yield (directory,), sums[directory]

    return samples


def _dirty_bytes(replica: Replica, now_ms: int) -> int:
    try:
        return examine(replica, now_ms).dirty_bytes
    except (CorruptLogError, OSError):
        return replica.log.size_bytes  # it can't be read, so all of it counts as dirty


CLEANER_ROWS: Final = (
    _cleaner(
        "LogCleaner,name=max-buffer-utilization-percent",
        "The utilization of the offset map in the last compaction of a log, in percent.",
        _greatest(lambda outcome: 100 * outcome.map_utilization),
    ),
    _cleaner(
        "LogCleaner,name=cleaner-recopy-percent",
        "The size of a log after its last compaction, in percent of the size before.",
        _recopy_percent,
    ),
    _cleaner(
        "LogCleaner,name=max-clean-time-secs",
        "The duration of the last compaction of a log, in seconds.",
        _greatest(lambda outcome: outcome.total_s),
    ),
    _cleaner(
        "LogCleaner,name=max-compaction-delay-secs",
        "How long the last compacted log was overdue beyond max.compaction.lag.ms, in seconds.",
        lambda view: view.broker.replicas.cleaning.overdue_ms / 1000,
    ),
    _cleaner(
        "LogCleaner,name=DeadThreadCount",
        "The number of log.cleaner.threads that have failed.",
        lambda view: len(view.broker.replicas.cleaning.dead),
    ),
    _cleaner(
        "LogCleanerManager,name=max-dirty-percent",
        "The dirty part of the dirtiest log, in percent.",
        lambda view: 100 * view.broker.replicas.cleaning.dirtiest_ratio,
    ),
    _cleaner(
        "LogCleanerManager,name=time-since-last-run-ms",
        "Milliseconds since the cleaner last checked for logs to compact.",
        lambda view: view.broker.clock.now_ms() - view.broker.replicas.cleaning.checked_ms,
    ),
    Metric(
        "kafka.log:type=LogCleanerManager,name=uncleanable-partitions-count",
        Kind.GAUGE,
        ("logDirectory",),
        "Logs whose compaction has failed; they are not retried before a restart.",
        _uncleanable(lambda replica, now_ms: 1),
    ),
    Metric(
        "kafka.log:type=LogCleanerManager,name=uncleanable-bytes",
        Kind.GAUGE,
        ("logDirectory",),
        "The dirty bytes of these logs.",
        _uncleanable(_dirty_bytes),
    ),
)
