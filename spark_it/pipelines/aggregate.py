"""Windows of event time over topics, into a table or a topic.

The time of a record is its timestamp or an expression over its value. A window and group is one
row: window_start, window_end, the group's columns, the aggregates. What is written when is Spark's
output mode:

- append: a window once, when the watermark has passed its end; it never changes after that.
- update: a window whenever it has changed, in the batch in which it did.
- complete: all windows, in every batch.

Into tables each is exact, whatever fails when: append and complete by Delta's transaction of the
query's id and the batch's number (Parquet: a directory a batch, written again whole), update by a
MERGE on window and group. Into a topic Spark writes at least once: a batch that is repeated after
a failure is there twice, and the last value of a window and group is right. Records of a topic
have the group as key, in JSON, so that those of one group are in order, and all columns as value.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kavka.spark_it import event_time
from kavka.spark_it.common_options import StreamingOptions
from kavka.spark_it.errors import SparkError
from kavka.spark_it.intervals import interval_ms
from kavka.spark_it.options import option
from kavka.spark_it.parsing import Parser, ValueOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from kavka.spark_it.progress import Summary

SUMMARY: Final = "windows of event time over topics, into a table or a topic"
NAME: Final = "aggregate"


@dataclass(frozen=True, kw_only=True)
class Options(StreamingOptions, ValueOptions):
    """Of the pipeline `aggregate`."""

    event_time: str = option(
        "a record's time: an expression of SQL that is a timestamp, over the fields of the value, "
        "`key` (the record's key as text) and `kafka` (topic, partition, offset, timestamp, key, "
        "headers)",
        default="kafka.timestamp",
        example="timestamp_millis(at)",
    )
    window: str | None = option(
        "length of a window; this or session_gap is required", default=None, example="10 minutes"
    )
    slide: str | None = option(
        "time from the start of a window to the start of the next; its length if not set",
        default=None,
        example="5 minutes",
    )
    session_gap: str | None = option(
        "a window is a session: it ends when a group has had no record for so long",
        default=None,
        example="30 minutes",
    )
    watermark: str | None = option(
        "how late a record may come, behind the latest time seen; later ones are left out, and "
        "the state of windows before that is dropped",
        default=None,
        example="10 minutes",
    )
    group_by: tuple[str, ...] = option(
        "what else than the window records are grouped by: expressions of SQL as in event_time, "
        "`... as NAME` unless they are fields",
        default=(),
        example="key, lower(kind) as kind",
    )
    aggregates: tuple[str, ...] = option(
        "what is computed of a window's records: expressions of SQL with their names",
        example="count(*) as events, sum(amount) as total",
    )
    mode: str = option(
        "what is written when: append a window once, after the watermark; update what a batch "
        "changed; complete all windows in every batch",
        default="append",
        choices=("append", "update", "complete"),
    )
    table: str | None = option(
        "path of the table to write; this or output_topic is required",
        default=None,
        example="totals",
    )
    table_format: str = option(
        "what the table is written in", default="delta", choices=("delta", "parquet")
    )
    output_topic: str | None = option("topic to write to", default=None, example="totals")
    output_key: str = option(
        "key of the records in output_topic: the group alone, or with the window, as a compacted "
        "topic needs it",
        default="group",
        choices=("group", "window-and-group"),
    )
    rejects: str | None = option(
        "path of a table, in table_format, of the records that do not parse or have no time; if "
        "not set they are only counted",
        default=None,
        example="totals_rejects",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        _check(self)


def _check(options: Options) -> None:
    """SparkError for what contradicts itself, and for what Spark cannot do."""
    if (options.window is None) == (options.session_gap is None):
        raise SparkError("give either window or session_gap (--window, --session-gap)")
    if (options.table is None) == (options.output_topic is None):
        raise SparkError("give either table or output_topic (--table, --output-topic)")
    if options.table is None and options.checkpoint is None:
        raise SparkError("checkpoint is required with output_topic (--checkpoint)")
    if options.output_topic is not None and _reads(options, options.output_topic):
        raise SparkError(
            f"output_topic: {options.output_topic} is one of the topics that are read: what is "
            "written would be read again, without end"
        )
    _check_times(options)
    if options.mode == "append" and options.watermark is None:
        raise SparkError(
            "mode append needs a watermark: without one no window is ever final "
            "(--watermark, or --mode update)"
        )
    if options.mode == "update" and options.session_gap is not None:
        raise SparkError(
            "mode update cannot have session windows, as sessions merge: use append or complete"
        )
    if options.session_gap is not None and not options.group_by:
        raise SparkError("session windows need group_by (--group-by key): Spark demands it")
    if options.table is not None and options.table_format == "parquet" and options.mode != "append":
        raise SparkError(
            f"mode {options.mode} changes rows that are written already, which a table of Parquet "
            "cannot: use --table-format delta, or --mode append"
        )


def _reads(options: Options, topic: str) -> bool:
    if options.topic_pattern is None:
        return topic in options.topics
    try:
        return re.fullmatch(options.topic_pattern, topic) is not None
    except re.error:  # Java's expressions have more than Python's
        return False


def _check_times(options: Options) -> None:
    lengths = {
        name: interval_ms(text, name)
        for name in ("window", "slide", "session_gap", "watermark")
        if (text := getattr(options, name)) is not None
    }
    for name, length_ms in lengths.items():
        if not length_ms and name != "watermark":
            raise SparkError(f"{name}: must be longer than 0")
    if "slide" in lengths:
        if "window" not in lengths:
            raise SparkError("slide belongs to window; sessions have none")
        if lengths["slide"] > lengths["window"]:
            raise SparkError(
                f"slide ({options.slide}) is longer than window ({options.window}): records "
                "between two windows would be in none"
            )


def run(
    options: Options,
    *,
    spark: SparkSession | None = None,
    report: Callable[[str], None] | None = None,
) -> Summary:
    """Run the pipeline to its end. `details` of the summary has rejects (records that do not parse
    or have no time) and dropped_by_watermark (as Spark counts what comes too late: once a task,
    window and group, not once a record)."""
    from kavka.spark_it.progress import print_line
    from kavka.spark_it.reading import stream
    from kavka.spark_it.running import Query, run_queries

    parser = Parser(options)
    if spark is None:
        delta = options.table_format == "delta" and (options.table or options.rejects) is not None
        spark = options.session(delta=delta, avro=options.value_format == "avro")
    checkpoint = options.checkpoint or f"{options.table}/_checkpoint"
    windows = event_time.Windows(
        length=options.window,
        slide=options.slide,
        session_gap=options.session_gap,
        watermark=options.watermark,
    )
    judged = event_time.judged(stream(spark, options), parser, options.event_time)
    frame, groups = event_time.aggregated(judged, windows, options.group_by, options.aggregates)
    if options.table is not None and options.mode == "append":
        _check_checkpoint(spark, options.table_format, options.table, checkpoint)
    queries = [Query(NAME, _writer(frame, groups, options, checkpoint), checkpoint)]
    if options.rejects is not None:
        again = event_time.judged(stream(spark, options), parser, options.event_time)
        rejects, own = event_time.rejects(again), f"{checkpoint}-rejects"
        _check_checkpoint(spark, options.table_format, options.rejects, own)
        adding = _append(rejects, options.table_format, options.rejects, own)
        queries.append(Query(f"{NAME}-rejects", adding, own))
    if options.mode == "update" and options.watermark is None:
        say = report if report is not None else print_line
        say(
            f"{NAME}: without a watermark Spark keeps the state of all windows that there have been"
        )
    summary = run_queries(spark, queries, options, report=report)
    summary.details.setdefault(event_time.REJECTS, 0)
    return summary


def _writer(
    frame: DataFrame, groups: list[str], options: Options, checkpoint: str
) -> DataStreamWriter:
    """What writes the windows; without name, trigger and checkpoint."""
    if options.output_topic is not None:
        window = [event_time.START, event_time.END] if options.output_key != "group" else []
        writer = event_time.messages(frame, [*window, *groups]).writeStream.format("kafka")
        writer = writer.options(**options.kafka_options(), topic=options.output_topic)
        return writer.outputMode(options.mode)
    assert options.table is not None  # checked
    if options.mode == "update":
        table, keys = options.table, [event_time.START, event_time.END, *groups]

        def change(rows: DataFrame, number: int) -> None:
            from kavka.spark_it.delta_tables import upsert

            upsert(rows, table, keys)

        return frame.writeStream.foreachBatch(change).outputMode("update")
    writer = _append(frame, options.table_format, options.table, checkpoint)
    return writer.outputMode(options.mode)


def _check_checkpoint(spark: SparkSession, kind: str, path: str, checkpoint: str) -> None:
    """SparkError when a table that is only added to has rows and its checkpoint is not there: all
    of them would be added again."""
    from kavka.spark_it.checkpoints import initial_offsets
    from kavka.spark_it.tables import open_table

    if initial_offsets(spark, checkpoint) is not None:
        return
    rows = open_table(spark, kind, path, ()).read()
    if rows is not None and not rows.isEmpty():
        raise SparkError(
            f"{path} has rows, and there is no checkpoint at {checkpoint}: they would be added "
            "again. Give the checkpoint they were written with, or remove the table to make it anew"
        )


def _append(frame: DataFrame, kind: str, path: str, checkpoint: str) -> DataStreamWriter:
    """What adds rows to a table, each batch once."""
    if kind == "delta":  # whose sink keeps the query's id and the batch's number with the data
        return frame.writeStream.format("delta").option("path", path)

    from kavka.spark_it.tables import batch_id, open_table

    open_table(frame.sparkSession, kind, path, ())  # an error now where there can be none

    def add(rows: DataFrame, number: int) -> None:
        spark = rows.sparkSession
        open_table(spark, kind, path, ()).write(rows, batch_id(spark, checkpoint, number))

    return frame.writeStream.foreachBatch(add)
