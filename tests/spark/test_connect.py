"""Pipelines on Spark Connect: the same, but for what needs a JVM of the process's own.

A process has either kind of session, so these are programs of their own. SPARK_TESTING lets Spark's
server of such a program take a free port.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kavka.spark_it import jars
from kavka.spark_it.sessions import DELTA_CONFIG
from support.broker import Kavka, finish, kavka_environment
from support.paths import CACHE
from support.spark import Record, create_topic, produce

WITHIN_S = 300.0

PROGRAM = """
import sys
from kavka import spark_it
from kavka.spark_it.pipelines import sink
from pyspark.sql import SparkSession

bootstrap, home, jars, *config = sys.argv[1:]
builder = SparkSession.builder.remote("local[2]").config("spark.jars", jars)
for pair in config:
    builder = builder.config(*pair.split("=", 1))
connected = builder.getOrCreate()
assert spark_it.session(delta=True) is connected
options = {"bootstrap_server": bootstrap, "topics": ("t",)}
sink.run(sink.Options(table=home + "/table", **options))
table = connected.read.format("delta").load(home + "/table")
rows = table.select("kafka.offset", "value").collect()
print(sorted((row.offset, bytes(row.value)) for row in rows))
try:
    sink.run(sink.Options(table=home + "/parquet", table_format="parquet", **options))
except spark_it.SparkError as failure:
    print(failure)
"""


@pytest.mark.whole
@pytest.mark.timeout(600)
def test_the_sink_writes_through_a_server(tmp_path: Path) -> None:
    broker = Kavka(tmp_path / "broker").start()
    config = [f"{key}={value}" for key, value in DELTA_CONFIG.items()]
    environment = {**kavka_environment(), "KAVKA_SPARK_JARS": str(CACHE / "spark")}
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("KAVKA_SPARK_JARS", str(CACHE / "spark"))
        known = ",".join(map(str, jars.fetch()))
    try:
        create_topic(broker.bootstrap, "t")
        produce(broker.bootstrap, "t", [Record(b"%d" % number) for number in range(5)])
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, broker.bootstrap, str(tmp_path), known]
            + ["spark.ui.enabled=false", "spark.sql.shuffle.partitions=2", *config],
            env={**environment, "PYSPARK_PYTHON": sys.executable, "SPARK_TESTING": "1"},
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
        )
    finally:
        finish(broker)
    assert done.returncode == 0, done.stderr
    rows, refusal = done.stdout.splitlines()
    assert rows == str([(number, b"%d" % number) for number in range(5)])
    assert "with Spark Connect use Delta" in refusal
