"""A second streaming query beside a pipeline's own: what it writes elsewhere, such as rejects."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from kavka.spark_it.errors import SparkError
from kavka.spark_it.running import reason, start_query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from kavka.spark_it.common_options import StreamingOptions

LOOK_EVERY_S: Final = 0.5


@contextmanager
def beside(
    spark: SparkSession,
    name: str,
    options: StreamingOptions,
    writer: DataStreamWriter,
    checkpoint: str,
    *,
    main: str,
) -> Iterator[None]:
    """Within it the query of `writer` runs as `name` beside the one named `main`.

    With the trigger available-now it is waited for at the end, with continuous it is stopped. When
    it fails, `main` is stopped and a SparkError says why.
    """
    query = start_query(writer, name, options, checkpoint)
    ended = threading.Event()
    failures: list[Exception] = []
    watcher = threading.Thread(target=_watch, args=(spark, query, main, ended, failures))
    watcher.start()
    finished = False
    try:
        yield
        finished = True
    finally:
        ended.set()
        if not finished or options.trigger != "available-now":
            query.stop()
        watcher.join()
    if failures:
        raise SparkError(f"the query {name} failed: {reason(failures[0])}") from failures[0]


def _watch(
    spark: SparkSession,
    query: StreamingQuery,
    main: str,
    ended: threading.Event,
    failures: list[Exception],
) -> None:
    from pyspark.errors import PySparkException

    try:
        query.awaitTermination()
    except PySparkException as failure:
        failures.append(failure)
        while not ended.wait(LOOK_EVERY_S):  # it may start only after this
            for other in spark.streams.active:
                if other.name == main:
                    other.stop()
