"""What a streaming query's checkpoint says of it: directories and files as Spark 4 writes them.

    metadata            the query's id; written when the query starts
    sources/0/0         where the query begins; written once it has asked the topics
    offsets/<number>    where a batch ends; written before the batch runs
    commits/<number>    says that the batch is done

Read by Spark itself, so that it works for every file system and on Spark Connect.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from kavka.spark_it.offsets import Offsets, parsed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Span(NamedTuple):
    """The records of a batch: from `starts` up to `ends`, which are not included. A partition
    without a start is new to the query, which reads it from its first record."""

    starts: Offsets
    ends: Offsets


class Plan(NamedTuple):
    """The last batch that a checkpoint knows."""

    number: int
    """-1 before the first batch."""
    ends: Offsets
    """Where it ends; before the first batch where the query begins."""


def query_id(spark: SparkSession, checkpoint: str) -> str | None:
    """The id of a checkpoint's query; None before it has started."""
    text = _text(spark, f"{checkpoint}/metadata")
    return None if text is None else str(json.loads(text)["id"])


def initial_offsets(spark: SparkSession, checkpoint: str) -> Offsets | None:
    """Where the query begins; None while the checkpoint does not say: then the next start of the
    query decides it, whether there is an id or not."""
    text = _text(spark, f"{checkpoint}/sources/0/0")
    return None if text is None else parsed(text.splitlines()[1])  # after the version


def position(spark: SparkSession, checkpoint: str) -> Offsets | None:
    """Where the batches that are done end, or the query begins; None when it has not begun."""
    done = _last(spark, f"{checkpoint}/commits")
    return initial_offsets(spark, checkpoint) if done < 0 else _ends(spark, checkpoint, done)


def last_plan(spark: SparkSession, checkpoint: str) -> Plan | None:
    """The last batch of a checkpoint, done or not; None when the query has not begun."""
    initial = initial_offsets(spark, checkpoint)
    if initial is None:
        return None
    number = _last(spark, f"{checkpoint}/offsets")
    return Plan(number, initial if number < 0 else _ends(spark, checkpoint, number))


def span(spark: SparkSession, checkpoint: str, number: int) -> Span:
    """The records of a batch that Spark has given to be written."""
    if number:
        starts = _ends(spark, checkpoint, number - 1)
    else:
        starts = initial_offsets(spark, checkpoint) or {}
    return Span(starts, _ends(spark, checkpoint, number))


def _ends(spark: SparkSession, checkpoint: str, number: int) -> Offsets:
    text = _text(spark, f"{checkpoint}/offsets/{number}")
    assert text is not None  # Spark keeps those of the last hundred batches
    return parsed(text.splitlines()[2])  # after the version and the batch's metadata


def _last(spark: SparkSession, directory: str) -> int:
    """The highest number that names a file; -1 when there is none."""
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as f

    number = f.regexp_extract(f.input_file_name(), r"(\d+)$", 1).cast("long").alias("number")
    try:
        files = spark.read.text(directory, pathGlobFilter="[0-9]*").select(number)
        last = files.agg(f.max("number")).collect()[0][0]
    except PySparkException as failure:
        if failure.getCondition() == "PATH_NOT_FOUND":
            return -1
        raise
    return -1 if last is None else int(last)


def _text(spark: SparkSession, path: str) -> str | None:
    """A small file; None if it does not exist."""
    from pyspark.errors import PySparkException

    try:
        (row,) = spark.read.text(path, wholetext=True).collect()
    except PySparkException as failure:
        if failure.getCondition() == "PATH_NOT_FOUND":
            return None
        raise
    return str(row["value"]).lstrip("\0")  # which Spark 2.1 needs in sources/0/0
