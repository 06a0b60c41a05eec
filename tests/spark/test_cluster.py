"""Every pipeline on a cluster: the same command, with `--master`, and executors in processes of
their own whose Python lacks Kavka and kafka-python."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support import java
from support.broker import kavka_environment
from support.paths import CACHE
from support.process import BrokerProcess
from support.spark import Record, create_topic, produce
from support.spark_cluster import Cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS = 300
KEYS = 9
PARTITIONS = 3
FIRST_MS = 1_700_000_000_000
WINDOW_S = 60
WITHIN_S = 300.0

SCHEMA = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}

SESSION = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "700m",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}


def pipeline(cluster: Cluster, bootstrap: str, name: str, *options: str) -> dict[str, Any]:
    """Run `kavka pipeline NAME` on the cluster; its summary."""
    command = [sys.executable, "-m", "kavka", "pipeline", name, "--bootstrap-server", bootstrap]
    command += ["--master", cluster.address, *options]
    for key, value in SESSION.items():
        command += ["--spark", f"{key}={value}"]
    environment = {
        **kavka_environment(),
        "KAVKA_SPARK_JARS": str(CACHE / "spark"),
        "PYSPARK_PYTHON": str(cluster.python),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=WITHIN_S
    )
    assert done.returncode == 0, done.stderr
    summary: dict[str, Any] = json.loads(done.stdout)
    return summary


@pytest.mark.whole
@pytest.mark.timeout(1800)
def test_every_pipeline_runs_on_a_cluster(
    spark: SparkSession, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    java.program("java")
    copy, schema = f"{topic}-copy", tmp_path / "schema.json"
    schema.write_text(json.dumps(SCHEMA))
    for name in (topic, copy):
        create_topic(broker.bootstrap, name, PARTITIONS)
    records = [
        Record(b'{"n": %d}' % n, b"k%d" % (n % KEYS), n % PARTITIONS, FIRST_MS + 1000 * n)
        for n in range(RECORDS)
    ]
    produce(broker.bootstrap, topic, records)
    of_json = ("--topics", topic, "--value-format", "json", "--schema-file", str(schema))
    table, sums, latest = (str(tmp_path / name) for name in ("table", "sums", "latest"))
    with Cluster(tmp_path) as cluster:
        sunk = pipeline(cluster, broker.bootstrap, "sink", "--topics", topic, "--table", table)
        assert sunk["rows"] == RECORDS
        replayed = pipeline(
            *(cluster, broker.bootstrap, "replay", "--table", table, "--topic", copy),
            *("--partitions", "key"),
        )
        assert replayed["written"] == RECORDS
        windows = ("--window", f"{WINDOW_S} seconds", "--aggregates", "sum(n) as total")
        pipeline(
            *(cluster, broker.bootstrap, "aggregate", *of_json, *windows),
            *("--mode", "complete", "--table", sums),
        )
        pipeline(cluster, broker.bootstrap, "compact-history", *of_json, "--table", latest)
        compared = pipeline(
            *(cluster, broker.bootstrap, "verify", "--topics", topic, "--second-topics", copy),
            *("--partitions", "any", "--order", "key"),
        )
        assert compared["equal"]
    windowed = spark.read.format("delta").load(sums).select("window_start", "total").collect()
    expected: dict[int, int] = {}
    for n in range(RECORDS):
        start = (FIRST_MS // 1000 + n) // WINDOW_S * WINDOW_S
        expected[start] = expected.get(start, 0) + n
    assert {int(row.window_start.timestamp()): row.total for row in windowed} == expected
    rows = spark.read.format("delta").load(latest).select("n").collect()
    assert sorted(row.n for row in rows) == list(range(RECORDS - KEYS, RECORDS))
