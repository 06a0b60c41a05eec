"""Runs streaming queries to their end, with progress, metrics and a summary."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from types import FrameType
from typing import TYPE_CHECKING

from kavka.spark_it.errors import SparkError
from kavka.spark_it.progress import Metrics, Progress, Summary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from kavka.spark_it.common_options import StreamingOptions


class Stopped(Exception):
    """SIGTERM or SIGINT ended it. Its cause is what failed meanwhile, if anything did."""


@dataclass(frozen=True)
class Query:
    """A streaming query that is not started yet."""

    name: str
    writer: DataStreamWriter
    checkpoint: str
    """Its directory. A query with the same one goes on where the last batch ended."""

    def start(self, options: StreamingOptions) -> StreamingQuery:
        """Start it with the trigger that the options ask for. SparkError if Spark refuses it."""
        from pyspark.errors import PySparkException

        writer = self.writer.queryName(self.name).option("checkpointLocation", self.checkpoint)
        if options.trigger == "available-now":
            writer = writer.trigger(availableNow=True)
        elif options.interval:
            writer = writer.trigger(processingTime=options.interval)
        try:
            return writer.start()
        except PySparkException as failure:
            raise SparkError(
                f"the query {self.name} does not start: {reason(failure)}"
            ) from failure


def run_queries(
    spark: SparkSession,
    queries: Sequence[Query],
    options: StreamingOptions,
    *,
    report: Callable[[str], None] | None = None,
) -> Summary:
    """Run queries side by side and wait for their end: with the trigger available-now when all has
    been read, with continuous when a signal or `query.stop()` ends one of them.

    Progress, metrics and the summary are those of the first. When a query fails the others are
    stopped, and SparkError gives Spark's own reason.
    """
    name = queries[0].name
    metrics = Metrics(name) if options.metrics_port else None
    end_metrics = metrics.serve(options.metrics_port) if metrics is not None else None
    progress = Progress(name, report=report, metrics=metrics)
    spark.streams.addListener(progress)
    try:
        wait_for_queries(_start_all(queries, options), options)
        progress.wait_for_end()
    finally:
        spark.streams.removeListener(progress)
        if end_metrics is not None:
            end_metrics()
    return progress.summary


def _start_all(queries: Sequence[Query], options: StreamingOptions) -> list[StreamingQuery]:
    started: list[StreamingQuery] = []
    try:
        for query in queries:
            started.append(query.start(options))
    except SparkError:
        _stop_all(started)
        raise
    return started


def _stop_all(queries: Sequence[StreamingQuery]) -> None:
    for query in queries:
        query.stop()


def wait_for_queries(queries: Sequence[StreamingQuery], options: StreamingOptions) -> None:
    """Wait until all have ended; stop them all at a signal, and when one of them ends that was to
    go on. SparkError when one failed."""
    from pyspark.errors import PySparkException

    def wait_for(query: StreamingQuery) -> None:
        others = [other for other in queries if other is not query]
        all_read = False
        try:
            query.awaitTermination()
            all_read = options.trigger == "available-now"
        except PySparkException as failure:
            raise SparkError(f"the query {query.name} failed: {reason(failure)}") from failure
        finally:
            if not all_read:
                _stop_all(others)

    try:
        run_until_signal(
            [partial(wait_for, query) for query in queries], lambda: _stop_all(queries)
        )
    except Stopped as stopped:
        if stopped.__cause__ is not None:
            raise stopped.__cause__ from None


def run_until_signal(calls: Sequence[Callable[[], None]], stop: Callable[[], None]) -> None:
    """Make calls that wait for Spark, side by side; return when all have returned, and raise what
    one of them raised. At SIGTERM and SIGINT call `stop`, which must end them, and raise Stopped.

    Each has a thread of its own: a signal that interrupted a call to the JVM in the middle would
    leave the connection without an answer, and Py4J swallows what a signal's handler raises.
    """
    ends: SimpleQueue[bool] = SimpleQueue()  # of calls, and True for a signal
    with ThreadPoolExecutor(len(calls)) as pool:
        with on_stop_signals(lambda: ends.put(True)):
            running = [pool.submit(call) for call in calls]
            for future in running:
                future.add_done_callback(lambda _: ends.put(False))
            stopped = any(ends.get() for _ in running)
        if stopped:
            stop()
    failures = [failure for future in running if (failure := future.exception()) is not None]
    if stopped:
        raise Stopped from next(iter(failures), None)
    if failures:
        raise failures[0]


REASON_CHARACTERS_MAX = 2000
PYTHON_FRAME = re.compile(r'\n  File "[^\n]*(\n    [^\n]*)*')
"""A call in a traceback: where it is, the code, and marks below it."""


def reason(failure: Exception) -> str:
    """Spark's message without the plans and stacks that it puts behind it, and those of Python,
    which it puts before the reason why a batch could not be written."""
    text = str(failure).partition("\n\nJVM stacktrace")[0].partition("\n=== Streaming")[0]
    text = PYTHON_FRAME.sub("", text)
    hint = " (is there a topic of this name?)" if "UnknownTopicOrPartition" in text else ""
    return text[:REASON_CHARACTERS_MAX] + hint


@contextmanager
def on_stop_signals(act: Callable[[], None]) -> Iterator[None]:
    """Within it SIGTERM and SIGINT call `act`, which runs between any two steps of the main thread
    and must not wait for a lock. In another thread, which gets no signals, nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        act()

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
