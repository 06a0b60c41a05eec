"""Rows of `kafka.log` that tell of compaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from kavka.log.compaction.order import Outcome
from kavka.log.errors import CorruptLogError
from kavka.server.monitoring.metrics.row import Kind, Metric, Sample
from kavka.server.monitoring.metrics.server_rows import one
from kavka.server.monitoring.metrics.view import View
from kavka.server.replica.log_cleaner import examine
from kavka.server.replica.replica import Replica


def _cleaner(name: str, doc: str, read: Callable[[View], float]) -> Metric:
    return Metric(f"kafka.log:type={name}", Kind.GAUGE, (), doc, one(read))


def _greatest(read: Callable[[Outcome], float]) -> Callable[[View], float]:
    """Of what came of the last log of each runner."""
    return lambda view: max(map(read, view.broker.replicas.cleaning.last.values()), default=0)


def _recopied(view: View) -> float:
    outcomes = view.broker.replicas.cleaning.last.values()
    read = sum(outcome.bytes_read for outcome in outcomes)
    return 100 * sum(outcome.bytes_written for outcome in outcomes) / max(1, read)


def _uncleanable(read: Callable[[Replica, int], int]) -> Callable[[View], Iterator[Sample]]:
    """The sum over those of a directory, of what `read` tells of a log at a time in ms."""

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
        return replica.log.size_bytes  # of what can't be read nothing is known to be clean


CLEANER_ROWS: Final = (
    _cleaner(
        "LogCleaner,name=max-buffer-utilization-percent",
        "How full the map of keys was, the last time that a log was compacted.",
        _greatest(lambda outcome: 100 * outcome.map_utilization),
    ),
    _cleaner(
        "LogCleaner,name=cleaner-recopy-percent",
        "How much was left of the bytes of a log, the last time that one was compacted.",
        _recopied,
    ),
    _cleaner(
        "LogCleaner,name=max-clean-time-secs",
        "How long it took, the last time that a log was compacted.",
        _greatest(lambda outcome: outcome.total_s),
    ),
    _cleaner(
        "LogCleaner,name=max-compaction-delay-secs",
        "For how long a record had waited beyond max.compaction.lag.ms, the last time that a log "
        "was compacted.",
        lambda view: view.broker.replicas.cleaning.overdue_ms / 1000,
    ),
    _cleaner(
        "LogCleaner,name=DeadThreadCount",
        "How many of log.cleaner.threads have failed.",
        lambda view: len(view.broker.replicas.cleaning.dead),
    ),
    _cleaner(
        "LogCleanerManager,name=max-dirty-percent",
        "How much of the dirtiest log has not been compacted.",
        lambda view: 100 * view.broker.replicas.cleaning.dirtiest_ratio,
    ),
    _cleaner(
        "LogCleanerManager,name=time-since-last-run-ms",
        "Milliseconds since logs were last looked at.",
        lambda view: view.broker.clock.now_ms() - view.broker.replicas.cleaning.checked_ms,
    ),
    Metric(
        "kafka.log:type=LogCleanerManager,name=uncleanable-partitions-count",
        Kind.GAUGE,
        ("logDirectory",),
        "Logs that could not be compacted, and are not tried again before a restart.",
        _uncleanable(lambda replica, now_ms: 1),
    ),
    Metric(
        "kafka.log:type=LogCleanerManager,name=uncleanable-bytes",
        Kind.GAUGE,
        ("logDirectory",),
        "Bytes of these logs that would be compacted.",
        _uncleanable(_dirty_bytes),
    ),
)
