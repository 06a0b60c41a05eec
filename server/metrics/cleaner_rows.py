"""Rows of `kafka.log` that tell of compaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from kavka.log.compaction.order import Outcome
from kavka.server.metrics.row import Kind, Metric, Sample
from kavka.server.metrics.server_rows import one
from kavka.server.metrics.view import View


def _cleaner(name: str, doc: str, read: Callable[[View], float]) -> Metric:
    return Metric(f"kafka.log:type={name}", Kind.GAUGE, (), doc, one(read))


def _greatest(read: Callable[[Outcome], float]) -> Callable[[View], float]:
    """Of what came of the last log of each runner."""
    return lambda view: max(map(read, view.broker.replicas.cleaning.last.values()), default=0)


def _recopied(view: View) -> float:
    outcomes = view.broker.replicas.cleaning.last.values()
    read = sum(outcome.bytes_read for outcome in outcomes)
    return 100 * sum(outcome.bytes_written for outcome in outcomes) / max(1, read)


def _uncleanable(view: View) -> Iterator[Sample]:
    replicas = view.broker.replicas
    hosted = [replica for replica in replicas.cleaning.uncleanable if replicas.hosts(replica)]
    counts = Counter(replica.log.directory.rpartition("/")[0] for replica in hosted)
    for directory in replicas.logs.directories:
        yield (directory,), counts[directory]


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
        "LogCleanerManager,name=max-dirty-percent",
        "How much of the dirtiest log has not been compacted.",
        lambda view: 100 * view.broker.replicas.cleaning.dirtiest_ratio,
    ),
    _cleaner(
        "LogCleanerManager,name=time-since-last-run-ms",
        "Milliseconds since logs were last looked at.",
        lambda view: view.broker.clock.now_ms() - view.broker.replicas.cleaning.looked_ms,
    ),
    Metric(
        "kafka.log:type=LogCleanerManager,name=uncleanable-partitions-count",
        Kind.GAUGE,
        ("logDirectory",),
        "Logs that could not be compacted, and are not tried again before a restart.",
        _uncleanable,
    ),
)
