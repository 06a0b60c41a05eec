"""Runs a streaming query to its end, with progress, metrics and a summary."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
    """SIGTERM or SIGINT: end the query and say how far it came."""


def run_query(
    spark: SparkSession,
    name: str,
    options: StreamingOptions,
    writer: DataStreamWriter,
    checkpoint: str,
    *,
    report: Callable[[str], None] | None = None,
) -> Summary:
    """Start the query of `writer` under `name` and wait for its end: with the trigger available-now
    when all has been read, with continuous when a signal or `query.stop()` ends it.

    Raises SparkError with Spark's own reason when the query fails. The next run with this
    checkpoint goes on where the last batch ended.
    """
    metrics = Metrics(name) if options.metrics_port else None
    end_metrics = metrics.serve(options.metrics_port) if metrics is not None else None
    progress = Progress(name, report=report, metrics=metrics)
    spark.streams.addListener(progress)
    try:
        _wait(start_query(writer, name, options, checkpoint))
        progress.wait_for_end()
    finally:
        spark.streams.removeListener(progress)
        if end_metrics is not None:
            end_metrics()
    return progress.summary


def start_query(
    writer: DataStreamWriter, name: str, options: StreamingOptions, checkpoint: str
) -> StreamingQuery:
    """Start a query with the trigger that the options ask for. SparkError when Spark refuses it."""
    from pyspark.errors import PySparkException

    writer = writer.queryName(name).option("checkpointLocation", checkpoint)
    if options.trigger == "available-now":
        writer = writer.trigger(availableNow=True)
    elif options.interval:
        writer = writer.trigger(processingTime=options.interval)
    try:
        return writer.start()
    except PySparkException as failure:
        raise SparkError(f"the query {name} does not start: {reason(failure)}") from failure


def _wait(query: StreamingQuery) -> None:
    """Wait for the query's end, or end it at a signal.

    The call that waits for the JVM is made in a thread: a signal that broke it off in its middle
    would leave the connection to the JVM without an answer.
    """
    from pyspark.errors import PySparkException

    ended = threading.Event()
    failures: list[Exception] = []

    def wait() -> None:
        try:
            query.awaitTermination()
        except Exception as failure:
            failures.append(failure)
        finally:
            ended.set()

    waiting = threading.Thread(target=wait, name=f"end of {query.name}", daemon=True)
    waiting.start()
    try:
        with stopped_by_signals():
            ended.wait()
    except Stopped:
        query.stop()
    waiting.join()
    if failures and isinstance(failures[0], PySparkException):
        raise SparkError(f"the query failed: {reason(failures[0])}") from failures[0]
    if failures:
        raise failures[0]


REASON_CHARACTERS_MAX = 2000


def reason(failure: Exception) -> str:
    """Spark's message without the plans and stacks that it puts behind it."""
    text = str(failure).partition("\n\nJVM stacktrace")[0].partition("\n=== Streaming")[0]
    hint = " (is there a topic of this name?)" if "UnknownTopicOrPartition" in text else ""
    return text[:REASON_CHARACTERS_MAX] + hint


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Within it SIGTERM and SIGINT raise Stopped; in the main thread only, as Python has it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise Stopped

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
