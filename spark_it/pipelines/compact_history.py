"""A changelog topic (keys, values, tombstones) into a table of the latest row of each key, or of
all the rows that each key has had (a slowly changing dimension of type 2).

A table of Delta Lake follows the topic: each run goes on from the checkpoint and merges what has
come. A row knows the place of its record, so a batch that is written again changes nothing. A
table of Parquet, and any table with `as_of`, is made anew from the whole topic in every run.

What order events have, and when they take effect, is said in `kavka.spark_it.changelog`. A table
that follows compares events with the last row of their key, by that row's own time. The form latest
has no row of a key that is removed: an event of another partition that is older than the tombstone,
and is read in a later batch, brings the key back.

The topic has to have its whole history: what a compacted topic has dropped is missing from scd2 and
from the past.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from kavka.spark_it import changelog
from kavka.spark_it.common_options import StreamingOptions
from kavka.spark_it.errors import SparkError
from kavka.spark_it.options import option
from kavka.spark_it.parsing import PLACE, REASON, Parser, ValueOptions
from kavka.spark_it.reading import position, timestamp_ms

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from kavka.spark_it.progress import Summary

SUMMARY: Final = "a changelog topic into a table of the latest row of each key, or of all versions"
NAME: Final = "compact-history"

FORM: Final = "kavka.history"
"""The property of a Delta table that says which form it has: what made it may go on with it."""

OWN_FILE: Final = re.compile(r"part-.*\.parquet|_SUCCESS|_temporary|\..*")
"""Names in a directory that Spark has written as Parquet."""

READ: Final = "read"
REJECTS: Final = "rejects"


@dataclass(frozen=True, kw_only=True)
class Options(StreamingOptions, ValueOptions):
    """Of the pipeline `compact-history`."""

    table: str = option("path of the table, of any file system that Spark knows", example="users")
    table_format: str = option(
        "what the table is written in; delta follows the topic from run to run, parquet is made "
        "anew in each",
        default="delta",
        choices=("delta", "parquet"),
    )
    form: str = option(
        "latest has one row a key; scd2 has every row that a key has had, with valid_from, "
        "valid_to and is_current",
        default="latest",
        choices=("latest", "scd2"),
    )
    as_of: str | None = option(
        "make the table as it was then, from the whole topic: a time (2026-01-31T12:00:00Z), or "
        'offsets as {"topic": {"0": 23}}, which are not included',
        default=None,
        example="2026-01-31T12:00:00Z",
    )
    key_column: str = option("the column of the record's key", default="key")
    key_format: str = option(
        "text is UTF-8, and other keys are rejected; raw keeps the bytes",
        default="text",
        choices=("text", "raw"),
    )
    rejects: str | None = option(
        "path of a table, in table_format, of the records without key and those that do not "
        "parse, whose keys keep the row they had; if not set they are only counted",
        default=None,
        example="users_rejects",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.whole and self.trigger == "continuous":
            why = "as_of" if self.as_of is not None else "a table of Parquet"
            raise SparkError(
                f"{why} is made anew from the whole topic, which trigger=continuous cannot: leave "
                "the trigger out, or use a table of Delta without as_of"
            )
        if self.as_of is not None:
            _moment(self.as_of)

    @property
    def whole(self) -> bool:
        """Whether the table is made anew from the whole topic."""
        return self.as_of is not None or self.table_format == "parquet"

    @property
    def key_is_text(self) -> bool:
        return self.key_format == "text"


def _moment(as_of: str) -> int | None:
    """Milliseconds of an `as_of` that is a time; None of one that is offsets."""
    if as_of.lstrip().startswith("{"):
        position("as_of", as_of)  # whether it is JSON
        return None
    try:
        return timestamp_ms(as_of, "as_of")
    except SparkError:
        raise SparkError(
            f"as_of: {as_of!r} is neither a time (2026-01-31T12:00:00Z) nor offsets "
            '({"topic": {"0": 23}})'
        ) from None


def run(
    options: Options,
    *,
    spark: SparkSession | None = None,
    report: Callable[[str], None] | None = None,
) -> Summary:
    """Run the pipeline to its end. `details` of the summary has rejects, the records without key
    and those that do not parse."""
    parser = Parser(options)
    if spark is None:
        delta = options.table_format == "delta"
        spark = options.session(delta=delta, avro=options.value_format == "avro")
    if options.whole:
        return _rebuild(spark, options, parser)
    return _follow(spark, options, parser, report)


def _judged(records: DataFrame, parser: Parser, options: Options) -> DataFrame:
    return changelog.judged(records, parser, key_is_text=options.key_is_text)


def _events(judged: DataFrame, options: Options) -> DataFrame:
    return changelog.events(judged, options.key_column, key_is_text=options.key_is_text)


def _rows(events: DataFrame, options: Options, until_ms: int | None = None) -> DataFrame:
    """The table out of all events, or those that took effect up to a time."""
    from pyspark.sql import functions as f

    key = options.key_column
    if until_ms is not None or options.form == "scd2":
        events = changelog.effective(events, key)
    if until_ms is not None:
        events = events.where(f.col(changelog.AT) <= f.timestamp_millis(f.lit(until_ms)))
    if options.form == "scd2":
        return changelog.versions(events, key)
    return changelog.state(changelog.newest(events, key))


def _rebuild(spark: SparkSession, options: Options, parser: Parser) -> Summary:
    """Make the table anew from the whole topic."""
    from pyspark.sql import Observation

    from kavka.spark_it import reading
    from kavka.spark_it.progress import Summary

    began = time.monotonic()
    if options.table_format == "parquet":
        for path in filter(None, (options.table, options.rejects)):
            _check_replaceable(spark, path)
    ends = reading.latest_offsets(spark, options)
    until_ms, ending = None, json.dumps(ends) if ends else "latest"
    if options.as_of is not None:
        until_ms = _moment(options.as_of)
        ending = options.as_of if until_ms is None else ending
    judged = _judged(reading.batch(spark, options, ending=ending), parser, options)
    observation = Observation()
    counted = judged.observe(observation, *_counted())
    rows = _rows(_events(counted, options), options, until_ms)
    if options.table_format == "delta":
        _open(spark, options, rows.schema, f"{options.form} as of a time")
    _overwrite(rows, options, options.table)
    counts = observation.get or judged.agg(*_counted()).collect()[0].asDict()
    if options.rejects is not None:
        _overwrite(changelog.rejected(judged), options, options.rejects)
    return Summary(
        NAME,
        batches=1,
        rows=counts[READ],
        seconds=time.monotonic() - began,
        offsets=json.loads(ending) if ends else {},
        details={REJECTS: counts[REJECTS]},
    )


def _counted() -> tuple[Column, Column]:
    """What is counted while the table is written. Under load Spark Connect may answer that nothing
    was observed, as it does not wait for its own listener: then a query of its own counts."""
    from pyspark.sql import functions as f

    return f.count(f.lit(1)).alias(READ), f.count(REASON).alias(REJECTS)


def _check_replaceable(spark: SparkSession, path: str) -> None:
    """SparkError unless a directory has what this pipeline writes there, or nothing. On Spark
    Connect, whose server's files cannot be listed, it is not checked."""
    from kavka.spark_it.sessions import is_connect
    from kavka.spark_it.tables import Files

    if is_connect(spark):
        return
    names = Files(spark).list(path)
    others = [name for name in names if not OWN_FILE.fullmatch(name)]
    data = [name for name in names if not name.startswith(("_", "."))]
    if not others and data and PLACE not in spark.read.parquet(path).columns:
        others = data
    if others:
        raise SparkError(
            f"{path} has files that compact-history did not write ({sorted(others)[0]}), and would "
            "be replaced: give a path of its own"
        )


def _overwrite(rows: DataFrame, options: Options, path: str) -> None:
    rows.write.format(options.table_format).mode("overwrite").save(path)


def _follow(
    spark: SparkSession,
    options: Options,
    parser: Parser,
    report: Callable[[str], None] | None,
) -> Summary:
    """Merge what has come since the last run."""
    from pyspark.sql import functions as f

    from kavka.spark_it.checkpoints import last_plan
    from kavka.spark_it.reading import stream
    from kavka.spark_it.running import Query, run_queries

    checkpoint = options.checkpoint or f"{options.table}/_checkpoint"
    plan = last_plan(spark, checkpoint)
    if plan is None:
        _check_topics(spark, options)
    last = plan.number if plan is not None else None  # unless it is done, it is written again
    judged = _judged(stream(spark, options), parser, options)
    _open(spark, options, _rows(_events(judged, options), options).schema, options.form)
    observed = judged.observe("records", f.count(REASON).alias(REJECTS))

    plain = replace(options, kafka={}, spark={})  # what Spark Connect can pickle, without secrets

    def change(batch: DataFrame, number: int) -> None:
        _merge(batch, number, plain, checkpoint, again=number == last)

    writer = observed.writeStream.foreachBatch(change)
    summary = run_queries(spark, [Query(NAME, writer, checkpoint)], options, report=report)
    summary.details.setdefault(REJECTS, 0)
    return summary


def _check_topics(spark: SparkSession, options: Options) -> None:
    """SparkError when the table has records that its topics do not have any more, as they were
    deleted and created again: what they have now would seem older."""
    from pyspark.sql import functions as f

    from kavka.spark_it import delta_tables
    from kavka.spark_it.reading import latest_offsets

    if delta_tables.properties(spark, options.table) is None:
        return
    table = spark.read.format("delta").load(options.table)
    if PLACE not in table.columns:
        return  # not ours, as is said later
    last = table.groupBy(f"{PLACE}.topic", f"{PLACE}.partition").agg(f.max(f"{PLACE}.offset"))
    rows = last.collect()
    topics = latest_offsets(spark, options) if rows else {}
    for topic, partition, offset in rows:
        if topic in topics and offset >= topics[topic].get(str(partition), 0):
            raise SparkError(
                f"table: {options.table} has record {offset} of {topic}-{partition}, which has not "
                "so many: the topic was deleted and created again. Remove the table to make it "
                "anew, or give another path"
            )


def _open(spark: SparkSession, options: Options, schema: StructType, form: str) -> None:
    """Create the table, or check that the one that is there has this form and these columns."""
    from kavka.spark_it import delta_tables

    there = delta_tables.properties(spark, options.table)
    if there is None:
        delta_tables.create(spark, options.table, schema, {FORM: form})
        return
    if there.get(FORM) != form:
        raise SparkError(
            f"table: {options.table} is a table of another form ({there.get(FORM, 'not ours')}) "
            f"than {form}; give it a path of its own"
        )
    columns = spark.read.format("delta").load(options.table).schema
    if [(c.name, c.dataType) for c in columns] != [(c.name, c.dataType) for c in schema]:
        raise SparkError(
            f"table: {options.table} has other columns ({columns.simpleString()}) than the "
            f"values have now ({schema.simpleString()}); remove it with its checkpoint to make it "
            "anew, or give another path"
        )


def _merge(
    batch: DataFrame, number: int, options: Options, checkpoint: str, *, again: bool
) -> None:
    """Write one batch of judged records: the rejects, then the rows. `again` says that an earlier
    run may have written rejects of it already, by another schema."""
    from kavka.spark_it.tables import batch_id, open_table

    spark = batch.sparkSession
    batch.persist()
    try:
        if options.rejects is not None:
            rejects = open_table(spark, options.table_format, options.rejects, ())
            this = batch_id(spark, checkpoint, number, with_span=again)
            if again:
                rejects.discard(this)
            rejects.write(changelog.rejected(batch), this)
        events = _events(batch, options)
        if options.form == "scd2":
            _merge_versions(events, options)
        else:
            _merge_latest(events, options)
    finally:
        batch.unpersist()


def _same_key(options: Options) -> str:
    from kavka.spark_it.delta_tables import quoted

    key = quoted(options.key_column)
    return f"t.{PLACE}.topic = s.{PLACE}.topic AND t.{key} = s.{key}"


def _merge_latest(events: DataFrame, options: Options) -> None:
    from kavka.spark_it import delta_tables

    names = [delta_tables.quoted(n) for n in changelog.state(events).columns]
    own, known = f"s.{PLACE}", f"t.{PLACE}"
    later = (
        f"struct(s.{changelog.AT}, {own}.partition) > struct({known}.timestamp, {known}.partition)"
    )
    newer = (
        f"WHEN MATCHED AND CASE WHEN {own}.partition = {known}.partition "
        f"THEN {own}.offset > {known}.offset ELSE {later} END"
    )
    values = ", ".join(f"s.{n}" for n in names)
    delta_tables.merge(
        changelog.newest(events, options.key_column),
        options.table,
        _same_key(options),
        [
            f"{newer} AND s.{changelog.DELETED} THEN DELETE",
            f"{newer} THEN UPDATE SET {', '.join(f't.{n} = s.{n}' for n in names)}",
            f"WHEN NOT MATCHED AND NOT s.{changelog.DELETED} THEN",
            f"INSERT ({', '.join(names)}) VALUES ({values})",
        ],
    )


def _merge_versions(events: DataFrame, options: Options) -> None:
    from kavka.spark_it import delta_tables

    table = events.sparkSession.read.format("delta").load(options.table)
    same = [_same_key(options)]
    same += [f"t.{PLACE}.{part} = s.{PLACE}.{part}" for part in ("partition", "offset")]
    until, current = changelog.VALID_TO, changelog.IS_CURRENT
    delta_tables.merge(
        changelog.changed_versions(table, events, options.key_column),
        options.table,
        " AND ".join(same),
        [
            f"WHEN MATCHED AND NOT t.{until} <=> s.{until}",
            f"THEN UPDATE SET {until} = s.{until}, {current} = s.{current}",
            "WHEN NOT MATCHED THEN INSERT *",
        ],
    )
