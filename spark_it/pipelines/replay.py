"""Pipeline `replay`: the records of a table into a topic, with keys, headers and timestamps, in
order, at a chosen speed, each exactly once.

**The writer.** Spark's own Kafka sink writes no timestamps, and tasks of it that write to the same
partition do so in no order. So the records are shuffled by target partition and sorted, and each
partition is written by one task, with kafka-python's producer.

**The order.** Records of a partition are written in the order of their offsets. Where several
partitions of the table come together in one of the topic, they are merged by timestamp; a record
is never ahead of one that was before it in its own partition.

**Exactly once.** Records are written in transactions. Each also commits, under the consumer group
of the replay's name, how many records of each partition are written. A task that is tried again,
and a replay that is run again after a kill, go on behind that number; the transaction that was open
is aborted, and its task cannot write any more. So a consumer with isolation level read_committed
sees each record once. The table must not lose or gain rows before the ones that are written
already: that is checked for the last one of each partition. The broker forgets a group that is not
used: after seven days (offsets.retention.minutes) a replay cannot be taken up again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kavka.spark_it import records
from kavka.spark_it.clients import client_settings, kafka_errors
from kavka.spark_it.common_options import PipelineOptions
from kavka.spark_it.errors import SparkError
from kavka.spark_it.options import NO_TEXTS, option

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kavka.spark_it.progress import Summary
    from kavka.spark_it.replaying import Plan

SUMMARY: Final = "a table into a topic, with timestamps and in order, at a chosen speed"

NAME: Final = "replay"


@dataclass(frozen=True, kw_only=True)
class Options(PipelineOptions):
    """Of the pipeline replay."""

    table: str = option("directory of the table", example="/data/events")
    table_format: str = option(
        "what the table is written in", default="delta", choices=("delta", "parquet")
    )
    columns: Mapping[str, str] = option(
        records.COLUMNS_DOC, default=NO_TEXTS, example=records.COLUMNS_EXAMPLE
    )
    where: str | None = option(
        "only rows for which this SQL expression holds",
        default=None,
        example="kafka.timestamp >= '2026-01-31'",
    )
    topic: str = option("the topic to write to; it must exist", example="events-again")
    partitions: str = option(
        "the partition of a record: the number it has in the table (same), or that of its key as "
        "Kafka's producers choose it, and without a key the number it has, modulo (key)",
        default="same",
        choices=("same", "key"),
    )
    timestamps: str = option(
        "of the records: those in the table, or the time of writing",
        default="original",
        choices=("original", "now"),
    )
    null_headers: str = option(
        "headers whose value is null, which kafka-python cannot write: stop with an error, or "
        "write an empty value",
        default="refuse",
        choices=("refuse", "empty"),
    )
    speed: float = option(
        "the pace of the timestamps: 1.0 takes as long as the records once took, 2.0 half of it; 0 "
        "writes as fast as it can",
        default=0.0,
    )
    rate: float = option(
        "instead of speed: so many records a second, of all partitions together; 0 is no limit",
        default=0.0,
    )
    name: str | None = option(
        "name of this replay, under which it goes on after an interruption: of the consumer group "
        "and, with a number, of the transactional ids; replay-TOPIC if not set",
        default=None,
    )
    restart: bool = option(
        "begin with the first record, whatever a replay of this name has written before",
        default=False,
    )
    writers: int = option(
        "tasks that write at the same time, each the same number of partitions; 0 is as many as "
        "Spark has cores, and no more than partitions",
        default=0,
    )
    transaction_records: int = option("commit after so many records of a task", default=10_000)
    transaction_seconds: float = option(
        "commit after this time at the latest; until then no one who reads committed records "
        "sees them",
        default=1.0,
    )

    @property
    def group(self) -> str:
        """The consumer group that holds how far the replay is."""
        return self.name if self.name is not None else f"replay-{self.topic}"


def run(
    options: Options,
    *,
    spark: SparkSession | None = None,
    report: Callable[[str], None] | None = None,
) -> Summary:
    """Write what of the table is not in the topic yet.

    `rows` of the summary is what this run wrote. `details` has "topic", "group", "records" (of the
    table), "written_before" and "written".

    Raises SparkError when the table or the topic does not fit, when the table is another one than
    at the first run of this name, and when writing fails; then the same call goes on later.
    """
    from kavka.spark_it.progress import Metrics, Summary, print_line
    from kavka.spark_it.replaying import Replay

    say = report if report is not None else print_line
    _check(options)
    settings = client_settings(options.bootstrap_server, options.kafka)
    if spark is None:
        spark = options.session(delta=options.table_format == "delta")
    _check_session(spark)
    metrics = Metrics(NAME) if options.metrics_port else None
    end_metrics = metrics.serve(options.metrics_port) if metrics is not None else None
    began = time.monotonic()
    try:
        table = records.read_table(spark, options.table, options.table_format)
        rows = records.of_table(table, options.columns, where=options.where, source=options.table)
        with kafka_errors(f"{NAME}: {options.bootstrap_server}"):
            replay = Replay(spark, options, settings, say, metrics)
            plan = replay.plan(rows)
            _say_plan(plan, options, say)
            if plan.left:
                replay.write(plan)
    finally:
        if end_metrics is not None:
            end_metrics()
    say(f"{NAME}: {plan.left:,} records written to {options.topic}")
    details = {
        "topic": options.topic,
        "group": options.group,
        "records": plan.records,
        "written_before": plan.records - plan.left,
        "written": plan.left,
    }
    seconds = time.monotonic() - began
    return Summary(NAME, batches=1, rows=plan.left, seconds=seconds, details=details)


def _say_plan(plan: Plan, options: Options, say: Callable[[str], None]) -> None:
    before = plan.records - plan.left
    done = f", {before:,} of them are written" if before else ""
    took = f", over {plan.seconds:,.0f} s" if plan.seconds else ""
    say(
        f"{NAME}: {plan.records:,} records{done}; {plan.left:,} to {options.topic} by "
        f"{plan.writers} tasks{took}"
    )


def _check(options: Options) -> None:
    if options.speed and options.rate:
        raise SparkError("speed and rate exclude each other: give one of them")
    for name in ("speed", "rate", "writers"):
        if getattr(options, name) < 0:
            raise SparkError(f"{name} is {getattr(options, name)}: give 0 or more")
    for name in ("transaction_records", "transaction_seconds"):
        if getattr(options, name) <= 0:
            raise SparkError(f"{name} is {getattr(options, name)}: give more than 0")


def _check_session(spark: SparkSession) -> None:
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise SparkError(
            "replay does not run on Spark Connect: its tasks write with kafka-python and need "
            "kavka on the executors. Run it with --master, as kavka pipeline or by spark-submit"
        )
