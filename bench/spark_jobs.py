"""What Spark does in the bench. These functions run in `bench.spark_process.SparkProcess`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, ParamSpec, TypeVar

from pyspark.errors import PySparkRuntimeError

from kavka.spark_it import session
from kavka.spark_it.pipelines import sink
from kavka.spark_it.running import reason
from support.paths import CACHE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

P = ParamSpec("P")
T = TypeVar("T")

MASTER: Final = "local[2]"
LOG_CHARACTERS_MAX: Final = 1000
"""Of the JVM's output, in an error."""


class Read(NamedTuple):
    """What a batch query counted."""

    records: int
    value_bytes: int


def start(scratch: Path) -> None:
    """Start Spark's JVM, with its files and its output below `scratch`."""
    os.environ.setdefault("KAVKA_SPARK_JARS", str(CACHE / "spark"))
    os.environ.pop("SPARK_REMOTE", None)
    log = scratch / "output.log"
    with log.open("wb") as output:  # the JVM inherits both: they are not for the table's reader
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    config = {
        "spark.ui.enabled": "false",
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
    }
    try:
        session("bench", master=MASTER, delta=True, config=config)
    except PySparkRuntimeError as failure:
        tail = log.read_text(errors="replace")[-LOG_CHARACTERS_MAX:]
        raise RuntimeError(f"Spark does not start: {failure}\n{tail}") from None


def stop() -> None:
    """End the JVM."""
    _spark().stop()


def guarded(function: Callable[P, T], /, *arguments: P.args, **named: P.kwargs) -> T:
    """Call `function`. What it raises becomes a RuntimeError: those of Py4J hold on to objects of
    the JVM, and cannot be sent to another process."""
    try:
        return function(*arguments, **named)
    except Exception as failure:
        raise RuntimeError(f"{type(failure).__name__}: {reason(failure)}") from None


def read(bootstrap: str, topic: str) -> Read:
    """Read a whole topic with Spark's Kafka source as it is by default: a batch query that adds up
    the lengths of the values. The source makes a row of every record, with all its columns."""
    from pyspark.sql import functions as f

    source = _spark().read.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    rows = source.option("subscribe", topic).load()
    found = rows.agg(f.count(f.lit(1)), f.sum(f.length("value"))).collect()[0]
    return Read(found[0], found[1])


def write_table(bootstrap: str, topic: str, table: str) -> int:
    """Run the pipeline `sink` over a whole topic, into a new Delta table of raw values; the number
    of records that it reports."""
    options = sink.Options(bootstrap_server=bootstrap, topics=(topic,), table=table)
    return sink.run(options, spark=_spark(), report=lambda line: None).rows


def count_rows(table: str) -> int:
    """How many rows a Delta table has."""
    return _spark().read.format("delta").load(table).count()


def _spark() -> SparkSession:
    from pyspark.sql import SparkSession

    return SparkSession.active()
