"""Progress of a streaming query: a line a batch on the terminal, a summary at the end, metrics.

Spark reports each batch to a StreamingQueryListener. Lag is the same as a consumer group's: records
between the end of what was read and the end of the partition.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.streaming.listener import StreamingQueryListener

from kavka.spark_it.offsets import Offsets, parsed, partition_lags, positions

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from pyspark.sql.streaming.listener import (
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        StreamingQueryProgress,
    )

METRICS_ADDRESS: Final = "127.0.0.1"
TERMINATION_WITHIN_S: Final = 30.0
"""Spark reports a query's end some moments after the end itself."""


@dataclass
class Summary:
    """What a pipeline did. `details` are the pipeline's own figures."""

    pipeline: str
    batches: int = 0
    rows: int = 0
    """Records read."""
    seconds: float = 0.0
    """Time that batches took."""
    offsets: Offsets = field(default_factory=dict)
    """The next offset to read."""
    lag: int = 0
    """Records that were there and not read, at the end."""
    details: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> str:
        fields = {
            "pipeline": self.pipeline,
            "batches": self.batches,
            "rows": self.rows,
            "seconds": round(self.seconds, 3),
            "lag": self.lag,
            "offsets": self.offsets,
            **self.details,
        }
        return json.dumps(fields, indent=2)


class Progress(StreamingQueryListener):
    """Listens to one query, found by its name, and keeps its summary."""

    def __init__(
        self,
        pipeline: str,
        *,
        report: Callable[[str], None] | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self.summary = Summary(pipeline)
        self._report = report if report is not None else print_line
        self._metrics = metrics
        self._name = pipeline
        self._run: object = None
        self._terminated = threading.Event()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        if event.name == self._name:  # the session may run others beside it
            self._run = event.runId

    def onQueryIdle(self, event: object) -> None:
        pass  # nothing has come: nothing to report

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        if event.progress.name == self._name:
            self.add(event.progress)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        if event.runId == self._run:
            self._terminated.set()

    def wait_for_end(self) -> None:
        """Wait until Spark has reported the query's end, and with it all its batches."""
        self._terminated.wait(TERMINATION_WITHIN_S)

    def add(self, progress: StreamingQueryProgress) -> None:
        """Take one batch into account: summary, metrics and the line."""
        summary = self.summary
        seconds = progress.durationMs.get("triggerExecution", 0) / 1000
        ends = parsed(progress.sources[0].endOffset) if progress.sources else {}
        latest = parsed(progress.sources[0].latestOffset) if progress.sources else {}
        lags = partition_lags(ends, latest)
        summary.offsets, summary.lag = ends or summary.offsets, sum(lags.values())
        self._add_counts(progress)
        if self._metrics is not None:
            self._metrics.set_lag(lags)
        if not progress.numInputRows:
            return
        summary.batches += 1
        summary.rows += progress.numInputRows
        summary.seconds += seconds
        if self._metrics is not None:
            self._metrics.add_batch(progress.numInputRows, seconds)
        rate = progress.numInputRows / seconds if seconds else 0.0
        self._report(
            f"{self._name}: batch {progress.batchId}: {progress.numInputRows:,} records in "
            f"{seconds:.1f} s ({rate:,.0f}/s), {summary.rows:,} in all, lag {summary.lag:,}; "
            f"at {positions(ends)}"
        )

    def _add_counts(self, progress: StreamingQueryProgress) -> None:
        """Add up the counts that the query observes (`DataFrame.observe`), under their own names,
        and what its windows were given too late."""
        counts = [
            count for row in progress.observedMetrics.values() for count in row.asDict().items()
        ]
        if progress.stateOperators:
            late = sum(operator.numRowsDroppedByWatermark for operator in progress.stateOperators)
            counts.append(("dropped_by_watermark", late))
        for name, count in counts:
            self.summary.details[name] = self.summary.details.get(name, 0) + count


def print_line(line: str) -> None:
    """Print a line of progress on standard error: standard output is the summary's."""
    print(line, file=sys.stderr, flush=True)


class Metrics:
    """A pipeline's metrics for Prometheus, at http://127.0.0.1:PORT/metrics."""

    def __init__(self, pipeline: str, registry: CollectorRegistry | None = None) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge

        self.registry = registry if registry is not None else CollectorRegistry()
        self._pipeline = pipeline
        self._lag = Gauge(
            "kafka_consumergroup_lag",
            "Records of a partition that the pipeline has not read yet; under the name of the "
            "broker's metric of consumer groups, so that one alert serves both.",
            ["consumergroup", "topic", "partition"],
            registry=self.registry,
        )
        self._records = Counter(
            "kavka_pipeline_records", "Records read.", ["pipeline"], registry=self.registry
        )
        self._batches = Counter(
            "kavka_pipeline_batches", "Batches done.", ["pipeline"], registry=self.registry
        )
        self._seconds = Counter(
            "kavka_pipeline_batch_seconds",
            "Time that batches took, in seconds.",
            ["pipeline"],
            registry=self.registry,
        )

    def serve(self, port: int) -> Callable[[], None]:
        """Serve them; returns what ends it."""
        from prometheus_client import start_http_server

        server, thread = start_http_server(port, METRICS_ADDRESS, registry=self.registry)

        def end() -> None:
            server.shutdown()
            server.server_close()
            thread.join()

        return end

    def set_lag(self, lags: Mapping[tuple[str, int], int]) -> None:
        for (topic, partition), lag in lags.items():
            self._lag.labels(self._pipeline, topic, str(partition)).set(lag)

    def add_batch(self, records: int, seconds: float) -> None:
        self._records.labels(self._pipeline).inc(records)
        self._batches.labels(self._pipeline).inc()
        self._seconds.labels(self._pipeline).inc(seconds)
