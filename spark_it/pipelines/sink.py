"""Topics into a table of Delta Lake or Parquet, each record exactly once.

Every record is a row, or, if its value does not parse, a row of the table of rejects with the
reason. The checkpoint says where the next run goes on. Without its checkpoint a table says it
itself: each row has its topic, partition and offset.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from kavka.spark_it.common_options import StreamingOptions
from kavka.spark_it.errors import SparkError
from kavka.spark_it.options import option
from kavka.spark_it.parsing import PLACE, Parsed, Parser, ValueOptions
from kavka.spark_it.sessions import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kavka.spark_it.batches import Repeat
    from kavka.spark_it.offsets import Positions
    from kavka.spark_it.progress import Summary
    from kavka.spark_it.tables import BatchId

SUMMARY: Final = "topics into a table of Delta Lake or Parquet, each record exactly once"

DATE: Final = "date"
"""The column that `partition_by` makes of the record's timestamp, unless the value has one."""


@dataclass(frozen=True, kw_only=True)
class Options(ValueOptions, StreamingOptions):
    """Of the pipeline `sink`."""

    table: str = option("path of the table, of any file system that Spark knows", example="events")
    table_format: str = option(
        "what the table is written in", default="delta", choices=("delta", "parquet")
    )
    partition_by: tuple[str, ...] = option(
        "columns whose values become directories: fields of the value, or date, the day of the "
        "record's timestamp",
        default=(),
        example="date",
    )
    rejects: str | None = option(
        "path of the table of records that do not parse, with the reason; TABLE_rejects if not set",
        default=None,
        example="events_rejects",
    )
    compact_every: int = option(
        "compact small files into large ones after every so many batches; 0 never does", default=0
    )
    backfill_from: str | None = option(
        "instead of following the topics, add what the table lacks from here (earliest, a time or "
        "offsets) up to backfill_to, of what the stream has passed already",
        default=None,
        example="2026-01-01T00:00:00Z",
    )
    backfill_to: str = option("where a backfill ends: latest, a time or offsets", default="latest")


def run(
    options: Options,
    *,
    spark: SparkSession | None = None,
    report: Callable[[str], None] | None = None,
) -> Summary:
    """Run the pipeline to its end; `details` of the summary has rejects, the table and its
    format."""
    delta = options.table_format == "delta"
    parser = Parser(options)
    if spark is None:
        spark = options.session(delta=delta, avro=options.value_format == "avro")
    sink = Sink(spark, options, parser, report)
    if options.backfill_from is not None:
        return sink.backfill(options.backfill_from, options.backfill_to)
    return sink.follow()


class Sink:
    """One run of the pipeline."""

    def __init__(
        self,
        spark: SparkSession,
        options: Options,
        parser: Parser,
        report: Callable[[str], None] | None,
        repeat: Repeat | None = None,
    ) -> None:
        from kavka.spark_it.progress import print_line
        from kavka.spark_it.tables import open_table

        self._spark = spark
        self._options = options
        self._parser = parser
        self._report = report if report is not None else print_line
        self._checkpoint = options.checkpoint or f"{options.table}/_checkpoint"
        kind = options.table_format
        self._rows = open_table(spark, kind, options.table, options.partition_by)
        rejects = options.rejects or f"{options.table}_rejects"
        self._rejects = open_table(spark, kind, rejects, ()) if parser.may_reject else None
        self._rejected = 0
        self._repeat = repeat

    def follow(self) -> Summary:
        """Follow the topics from where the last run ended."""
        from kavka.spark_it import reading
        from kavka.spark_it.running import Query, run_queries

        starting = self._prepare()
        records = reading.stream(self._spark, self._options, starting=starting)
        self._parsed(records)  # wrong columns are an error now, not in the first batch
        writer = records.writeStream.foreachBatch(self._batch_writer())
        query = Query("sink", writer, self._checkpoint)
        summary = run_queries(self._spark, [query], self._options, report=self._report)
        return self._with_details(summary)

    def _prepare(self) -> str | None:
        """Make the tables ready for the stream to go on; its starting offsets, unless the
        checkpoint or the options have them."""
        from kavka.spark_it import batches
        from kavka.spark_it.checkpoints import last_plan, query_id

        query = query_id(self._spark, self._checkpoint)
        plan = last_plan(self._spark, self._checkpoint)
        if plan is None or query is None:
            there = self._rows.exists() or (self._rejects is not None and self._rejects.exists())
            return self._resume() if there else None
        self._repeat = batches.repeated(self._rows, query, plan, self._checkpoint)
        return None

    def backfill(self, starting: str, ending: str) -> Summary:
        """Add the records of a range that the table lacks.

        Only those before the position of the stream, which reads the others. SparkError when the
        stream has not begun: where it will begin is not known.
        """
        from kavka.spark_it import reading
        from kavka.spark_it.batches import remove_unfinished
        from kavka.spark_it.checkpoints import position, query_id
        from kavka.spark_it.progress import Summary
        from kavka.spark_it.tables import BatchId, between

        passed = position(self._spark, self._checkpoint)
        if passed is None:
            raise SparkError(
                f"backfill_from: there is no checkpoint at {self._checkpoint}: run the sink "
                "without backfill_from first; a backfill adds what lies before its position"
            )
        query = query_id(self._spark, self._checkpoint)
        remove_unfinished(self._rows, self._rejects, passed, but_of=query)
        records = reading.batch(self._spark, self._options, starting=starting, ending=ending)
        records = records.where(between({}, passed, ""))
        for table in (self._rows, self._rejects):
            if table is not None and (there := table.places()) is not None:
                records = records.join(there, ["topic", "partition", "offset"], "left_anti")
        records = records.persist()
        try:
            summary = Summary("sink", batches=1, rows=records.count())
            self._write_parsed(records, BatchId(str(uuid.uuid4()), 0))
        finally:
            records.unpersist()
        return self._with_details(summary)

    def _with_details(self, summary: Summary) -> Summary:
        summary.details = {
            "table": self._rows.path,
            "format": self._options.table_format,
        }
        if not is_connect(self._spark):
            summary.details["rejects"] = self._rejected
        if self._rejects is not None:
            summary.details["rejects_table"] = self._rejects.path
        return summary

    def _resume(self) -> str:
        """The starting offsets behind what the table has, as its checkpoint is gone; of partitions
        that the table does not know, those of the option `starting`."""
        from kavka.spark_it import reading
        from kavka.spark_it.batches import resume
        from kavka.spark_it.offsets import starting_offsets

        latest = reading.latest_offsets(self._spark, self._options)
        known = resume(self._rows, self._rejects, latest)
        unknown = {
            topic: {int(p): end for p, end in ends.items() if int(p) not in known.get(topic, {})}
            for topic, ends in latest.items()
        }
        first = reading.first_offsets(self._spark, self._options, unknown)
        self._report(
            f"sink: {self._rows.path} has no checkpoint at {self._checkpoint}: going on behind "
            "the last record that it has of each partition"
        )
        starts: Positions = {}
        for topic, ends in latest.items():
            all_of_them = known.get(topic, {}) | first.get(topic, {})
            starts[topic] = {number: all_of_them[number] for number in map(int, ends)}
        return starting_offsets(starts)

    def _batch_writer(self) -> Callable[[DataFrame, int], None]:
        """What writes a batch. Spark Connect sends it to its server, which a session cannot be sent
        to: there a sink is made of the options for each batch, and rejects are not counted."""
        if is_connect(self._spark):
            return partial(write_on_server, self._options, self._repeat)
        return self.write

    def write(self, records: DataFrame, number: int) -> None:
        """Write one batch of the stream."""
        from kavka.spark_it import batches
        from kavka.spark_it.tables import batch_id

        repeat = self._repeat if self._repeat and self._repeat.number == number else None
        if repeat is not None and repeat.whole:
            return
        every = self._options.compact_every
        if every and number and number % every == 0:
            self._compact()
        batch = batch_id(self._spark, self._checkpoint, number, with_span=True)
        if repeat is not None and self._rejects is not None:
            batches.discard(self._rows, self._rejects, batch)
        self._write_parsed(records, batch)

    def _compact(self) -> None:
        for table in (self._rejects, self._rows):
            if table is not None and table.exists():
                self._report(f"sink: {table.compact()}")

    def _write_parsed(self, records: DataFrame, batch: BatchId) -> None:
        """Write records as one batch: the rejects first, as `kavka.spark_it.batches` has it."""
        from pyspark.sql import functions as f

        rows, rejects, common = self._parsed(records)
        if rejects is None or self._rejects is None:
            self._rows.write(rows, batch)
            return
        common.persist()
        try:
            rejected = rejects.agg(f.count(f.lit(1))).collect()[0][0]
            if rejected:
                self._rejects.write(rejects, batch)
                self._rejected += rejected
            self._rows.write(rows, batch)
        finally:
            common.unpersist()

    def _parsed(self, records: DataFrame) -> Parsed:
        """Rows, with the columns that the table is partitioned by, and rejects."""
        from pyspark.sql import functions as f

        parsed = self._parser.parse(records)
        rows = parsed.rows
        spelled = {column.casefold(): column for column in rows.columns}  # Spark ignores case
        for column in self._options.partition_by:
            there = spelled.get(column.casefold())
            if column == DATE and there is None:
                rows = rows.withColumn(DATE, f.to_date(f.col(PLACE)["timestamp"]))
            elif column != there and there is not None:
                raise SparkError(
                    f"partition_by: {column} is written {there} in the value; write it so here too"
                )
            elif there is None:
                raise SparkError(
                    f"partition_by: there is no column {column}, only {', '.join(rows.columns)} "
                    f"and {DATE}, the day of the record's timestamp"
                )
        return parsed._replace(rows=rows)


def write_on_server(
    options: Options, repeat: Repeat | None, records: DataFrame, number: int
) -> None:
    """Write one batch of the stream, in the Python of a Spark Connect server."""
    Sink(records.sparkSession, options, Parser(options), None, repeat).write(records, number)
