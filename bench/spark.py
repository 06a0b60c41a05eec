"""Spark's batch read of a topic, and the pipeline `sink` from the same topic into a Delta table."""

from __future__ import annotations

import shutil
from typing import Final

from bench import frames, raw
from bench.procs import Meter
from bench.run import LeftOut, Run
from kavka.spark_it.errors import SparkError
from kavka.spark_it.jars import check_pyspark
from kavka.spark_it.java import find_java

RECORDS: Final = 5_000_000
WARM_UP_RECORDS: Final = 600_000
WARM_UP_PASSES: Final = 2
"""Read and written so often for each broker; after less, the JVM's compiler is still busy with
what is hot, and the broker that comes first would pay for it."""

PARTITIONS: Final = 3
BATCH: Final = frames.Batch(100, 125)
"""As many records of 100 B as a producer's default batch.size (16 KiB) takes, about."""

IN_FLIGHT: Final = 5
FILL_WITHIN_S: Final = 120.0


def fill(run: Run) -> None:
    """Warm up Spark and this broker, and write the records that the rounds read.

    LeftOut where there is no PySpark or no Java to run it.
    """
    _filled(run)


def read(run: Run) -> None:
    """A batch query over all records. GB are of values."""
    topic = _filled(run)
    from bench import spark_jobs  # needs PySpark

    with run.meter("spark-read") as meter:
        found, spark_s = run.spark.call(spark_jobs.read, _bootstrap(run), topic)
        meter.add_client(spark_s)
    stored = _stored(run.options.spark_records)
    if found != (stored, stored * BATCH.value_bytes):
        raise RuntimeError(f"Spark read {found}, and {stored:,} records are there")
    _add(run, "spark-read", meter, stored)


def sink(run: Run) -> None:
    """All records into a new table, from the start of the pipeline to its end. GB are of values."""
    topic = _filled(run)
    from bench import spark_jobs  # needs PySpark

    table = run.peer.home / "table"
    try:
        with run.meter("spark-sink") as meter:
            rows, spark_s = run.spark.call(
                spark_jobs.write_table, _bootstrap(run), topic, str(table)
            )
            meter.add_client(spark_s)
        there, _ = run.spark.call(spark_jobs.count_rows, str(table))
    finally:
        shutil.rmtree(table, ignore_errors=True)
    stored = _stored(run.options.spark_records)
    if (rows, there) != (stored, stored):
        raise RuntimeError(f"{stored:,} records are there, {rows} were read, the table has {there}")
    _add(run, "spark-sink", meter, stored)


def end(run: Run) -> None:
    """Remove what the rounds have read, and end Spark: other stages must not share memory and cores
    with it."""
    run.spark.stop()
    if topic := run.kept.pop("spark", None):
        raw.delete_topic(run.peer.port, topic)


def _filled(run: Run) -> str:
    """The topic that is read, as `fill` leaves it: made when first asked for."""
    if "spark" in run.kept:
        return run.kept["spark"]
    try:
        check_pyspark()
        find_java()
    except SparkError as missing:
        raise LeftOut(str(missing)) from None
    from bench import spark_jobs  # needs PySpark

    with run.topic("spark-warm", PARTITIONS) as small:
        _write(run, small, WARM_UP_RECORDS)
        for _ in range(WARM_UP_PASSES):
            run.spark.call(spark_jobs.read, _bootstrap(run), small)
            table = run.peer.home / "warm-table"
            run.spark.call(spark_jobs.write_table, _bootstrap(run), small, str(table))
            shutil.rmtree(table, ignore_errors=True)
    topic = run.new_topic("spark", PARTITIONS)
    _write(run, topic, run.options.spark_records)
    run.kept["spark"] = topic
    return topic


def _write(run: Run, topic: str, records: int) -> None:
    """Write records, spread evenly over the partitions, in whole batches."""
    batches = records // BATCH.records
    encoded = BATCH.encode()
    with raw.Connection(run.peer.port) as connection:
        for partition in range(PARTITIONS):
            count = len(range(partition, batches, PARTITIONS))
            request = frames.produce(topic, partition, encoded)
            done = raw.keep_in_flight(
                connection,
                request,
                topic,
                in_flight=IN_FLIGHT,
                seconds=FILL_WITHIN_S,
                max_bytes=count * len(request),
            )
            if done != count:
                raise RuntimeError(f"{done} of {count} batches written in {FILL_WITHIN_S:.0f} s")


def _stored(records: int) -> int:
    """How many records `_write` leaves in a topic, with the one that is in each new partition."""
    return records // BATCH.records * BATCH.records + PARTITIONS


def _add(run: Run, name: str, meter: Meter, records: int) -> None:
    """Note records a second, and the broker's CPU seconds per GB of values."""
    run.add(f"{name}.rate", records / meter.wall_s)
    run.add(f"{name}.cpu", meter.broker_s / (records * BATCH.value_bytes / 1e9))


def _bootstrap(run: Run) -> str:
    return f"{raw.HOST}:{run.peer.port}"
