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
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kavka.spark_it import records
from kavka.spark_it.clients import client_settings, kafka_errors
from kavka.spark_it.errors import SparkError
from kavka.spark_it.replay_options import Options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kavka.spark_it.progress import Summary
    from kavka.spark_it.replaying import Plan

__all__ = ["SUMMARY", "Options", "run"]

SUMMARY: Final = "a table into a topic, with timestamps and in order, at a chosen speed"

NAME: Final = "replay"


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
    settings = client_settings(options.bootstrap_server, options.kafka)
    if spark is None:
        spark = options.session(delta=options.table_format == "delta")
    _check_session(spark)
    metrics = Metrics(NAME) if options.metrics_port else None
    end_metrics = metrics.serve(options.metrics_port) if metrics is not None else None
    began = time.monotonic()
    try:
        table = records.read_table(spark, options.table, options.table_format)
        rows = records.of_table(
            table, options.columns, where=options.where, source=options.table, needed=("value",)
        )
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


def _check_session(spark: SparkSession) -> None:
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise SparkError(
            "replay does not run on Spark Connect: its tasks write with kafka-python and need "
            "kavka on the executors. Run it with --master, as kavka pipeline or by spark-submit"
        )
