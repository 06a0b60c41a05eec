"""Millions of records through `kavka pipeline`, while the broker and the pipelines are killed.

A producer writes records whose content follows from their number. Three processes follow the
topic: a sink into Parquet, one into Delta Lake, and an aggregate into a topic. The broker is killed
five times, the pipelines twice; both are started again. In the end each table has each record once,
and the last value of each window and key is that of plain arithmetic.

SPARK_SOAK says how many records (`make spark-soak`: 5,000,000, written over eight minutes).
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from confluent_kafka import Producer

from support.broker import Kavka as Broker
from support.broker import finish, kavka_environment
from support.paths import CACHE
from support.spark import create_topic
from support.wait import eventually

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORDS: Final = int(os.environ.get("SPARK_SOAK", "100000"))
MINUTES: Final = float(os.environ.get("SPARK_SOAK_MINUTES", "1"))
BROKER_KILLS: Final = 5
PIPELINE_KILLS: Final = 2

PARTITIONS: Final = 3
KEYS: Final = 10
FIRST_MS: Final = 1_700_000_000_000 // 600_000 * 600_000
STEP_MS: Final = 10
WINDOW_MS: Final = 600_000
AMOUNTS: Final = 997

CHUNK: Final = 1000
DONE_WITHIN_S: Final = 60.0 + MINUTES * 60
STOP_WITHIN_S: Final = 120.0

SCHEMA: Final = {
    "type": "object",
    "required": ["id", "amount"],
    "properties": {"id": {"type": "integer"}, "amount": {"type": "integer"}},
}

pytestmark = [
    pytest.mark.whole,
    pytest.mark.timeout(1200 + 240 * MINUTES),
]


def value(number: int) -> bytes:
    return b'{"id": %d, "amount": %d}' % (number, number % AMOUNTS)


class Pipelines:
    """The processes, each in a session of its own, so that its JVM ends with it."""

    def __init__(self, home: Path, bootstrap: str) -> None:
        self._home = home
        schema = home / "schema.json"
        schema.write_text(json.dumps(SCHEMA))
        common = {
            "bootstrap-server": bootstrap,
            "topics": "events",
            "value-format": "json",
            "schema-file": str(schema),
            "interval": "5 seconds",
        }
        self._options: dict[str, tuple[str, dict[str, str]]] = {
            "parquet": (
                "sink",
                {**common, "table": str(home / "parquet"), "table-format": "parquet"},
            ),
            "delta": ("sink", {**common, "table": str(home / "delta"), "compact-every": "7"}),
            "totals": (
                "aggregate",
                {
                    **common,
                    "window": "10 minutes",
                    "group-by": "key",
                    "aggregates": "count(*) as n, sum(amount) as total",
                    "mode": "update",
                    "output-topic": "totals",
                    "checkpoint": str(home / "totals-checkpoint"),
                },
            ),
        }
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._starts = itertools.count()

    @property
    def names(self) -> list[str]:
        return list(self._options)

    def start(self, name: str, trigger: str = "continuous") -> Path:
        """Start a pipeline; the path of its output."""
        pipeline, options = self._options[name]
        command = [sys.executable, "-m", "kavka", "pipeline", pipeline, "--trigger", trigger]
        command += [word for key, text in options.items() for word in (f"--{key}", text)]
        for setting in ("spark.ui.enabled=false", "spark.driver.memory=1g"):
            command += ["--spark", setting]
        path = self._home / f"{name}-{next(self._starts)}.log"
        environment = {**kavka_environment(), "KAVKA_SPARK_JARS": str(CACHE / "spark")}
        with path.open("wb") as output:
            self._running[name] = subprocess.Popen(
                [*command, "--summary", str(path.with_suffix(".json"))],
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        return path

    def kill(self, name: str) -> None:
        """SIGKILL, with its JVM. It must still run: a pipeline outlives its broker's restarts."""
        process = self._running.pop(name)
        assert process.poll() is None, f"{name} ended by itself"
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def stop(self, name: str) -> None:
        """SIGTERM: it ends the batch and says how far it came."""
        process = self._running.pop(name)
        assert process.poll() is None, f"{name} ended by itself"
        process.terminate()
        assert process.wait(STOP_WITHIN_S) == 0

    def finish(self, name: str) -> dict[str, Any]:
        """Read what is left; the summary."""
        path = self.start(name, "available-now")
        process = self._running.pop(name)
        code = process.wait(DONE_WITHIN_S)
        assert code == 0, path.read_text(errors="replace")[-5000:]
        summary: dict[str, Any] = json.loads(path.with_suffix(".json").read_text())
        return summary

    def close(self) -> None:
        for process in self._running.values():
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextmanager
def followed(home: Path, bootstrap: str) -> Iterator[Pipelines]:
    pipelines = Pipelines(home, bootstrap)
    try:
        yield pipelines
    finally:
        pipelines.close()


class Writing:
    """An idempotent producer that writes the records in order, over the given time."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 20,
                "delivery.timeout.ms": 600_000,
                "queue.buffering.max.messages": 200_000,
            }
        )
        self._began = time.monotonic()
        self._failed: list[str] = []
        self.written = 0

    def upto(self, end: int) -> None:
        """Write the records below `end`, none before its time."""
        while self.written < end:
            for number in range(self.written, min(end, self.written + CHUNK)):
                self._producer.produce(
                    "events",
                    value(number),
                    key=b"k%d" % (number % KEYS),
                    partition=number % PARTITIONS,
                    timestamp=FIRST_MS + number * STEP_MS,
                    on_delivery=self._delivered,
                )
            self.written = min(end, self.written + CHUNK)
            due = self._began + MINUTES * 60 * self.written / RECORDS
            self._producer.poll(0)
            while (left_s := due - time.monotonic()) > 0:
                self._producer.poll(left_s)  # ends with the first acknowledgements

    def finish(self) -> None:
        self._producer.flush()
        assert not self._failed, self._failed[:3]
        print(f"written in {(time.monotonic() - self._began) / 60:.1f} min")

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self._failed.append(str(error))


def expected_totals() -> dict[tuple[int, str], tuple[int, int]]:
    """Count and sum by window's start in ms and key."""
    counts: Counter[tuple[int, str]] = Counter()
    sums: Counter[tuple[int, str]] = Counter()
    for number in range(RECORDS):
        at = FIRST_MS + number * STEP_MS
        place = (at - at % WINDOW_MS, f"k{number % KEYS}")
        counts[place] += 1
        sums[place] += number % AMOUNTS
    return {place: (counts[place], sums[place]) for place in counts}


def check_table(table: DataFrame) -> None:
    """Each record is there once, as it was written."""
    from pyspark.sql import functions as f

    number = f.col("id")
    right = (
        (f.col("amount") == number % AMOUNTS)
        & (f.col("kafka.partition") == number % PARTITIONS)
        & (f.col("kafka.key").cast("string") == f.concat(f.lit("k"), number % KEYS))
        & (f.unix_millis("kafka.timestamp") == FIRST_MS + number * STEP_MS)
    )
    (found,) = table.agg(
        f.count(f.lit(1)).alias("rows"),
        f.count_distinct("id").alias("ids"),
        f.min("id").alias("first"),
        f.max("id").alias("last"),
        f.count_if(~right).alias("wrong"),
    ).collect()
    assert found.asDict() == {
        "rows": RECORDS,
        "ids": RECORDS,
        "first": 0,
        "last": RECORDS - 1,
        "wrong": 0,
    }


def last_totals(spark: SparkSession, bootstrap: str) -> dict[tuple[int, str], tuple[int, int]]:
    """The last value of each window and key in the topic of the aggregate."""
    from pyspark.sql import functions as f

    schema = "window_start timestamp, window_end timestamp, key string, n long, total long"
    records = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", "totals")
        .load()
    )
    parsed = records.select("offset", f.from_json(f.col("value").cast("string"), schema).alias("v"))
    last = parsed.groupBy("v.window_start", "v.key").agg(f.max_by("v", "offset").alias("v"))
    rows = last.select(f.unix_millis("v.window_start").alias("at"), "v.key", "v.n", "v.total")
    return {(row.at, row.key): (row.n, row.total) for row in rows.collect()}


def test_each_record_once_after_any_kill(spark: SparkSession, tmp_path: Path) -> None:
    broker = Broker(tmp_path / "broker", {"log.retention.ms": "-1"}).start()
    try:
        create_topic(broker.bootstrap, "events", PARTITIONS)
        create_topic(broker.bootstrap, "totals")
        with followed(tmp_path, broker.bootstrap) as pipelines:
            follow_while_all_is_killed(broker, pipelines)
        print("pipelines have read the rest")
        check_table(spark.read.parquet(str(tmp_path / "parquet")))
        check_table(spark.read.format("delta").load(str(tmp_path / "delta")))
        assert last_totals(spark, broker.bootstrap) == expected_totals()
    finally:
        finish(broker)


def follow_while_all_is_killed(broker: Broker, pipelines: Pipelines) -> None:
    outputs = {name: pipelines.start(name) for name in pipelines.names}
    writing = Writing(broker.bootstrap)
    pieces = BROKER_KILLS + 1
    for piece in range(1, pieces + 1):
        writing.upto(RECORDS * piece // pieces)
        for name, path in outputs.items():
            eventually(
                lambda path=path: b": batch " in path.read_bytes(),  # type: ignore[misc]
                within_s=DONE_WITHIN_S,
                what=f"{name} has read a batch",
            )
        if piece == pieces:
            break
        broker.kill()
        print(f"killed the broker at {writing.written:,} records", flush=True)
        broker.start()
        if piece % 2 == 0:
            for name in pipelines.names:
                pipelines.kill(name)
                outputs[name] = pipelines.start(name)
            print(f"killed the pipelines at {writing.written:,} records", flush=True)
    writing.finish()
    for name in pipelines.names:
        pipelines.stop(name)
        summary = pipelines.finish(name)
        assert summary["lag"] == 0
        print(name, summary, flush=True)
