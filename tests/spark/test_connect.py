"""Pipelines on Spark Connect: the same, but for what needs a JVM of the process's own.

A process has either kind of session, so a program of its own runs them. SPARK_TESTING lets its
Spark server take a free port.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pytest

from kavka.spark_it import jars
from kavka.spark_it.sessions import DELTA_CONFIG
from support import changelogs, windows
from support.broker import Kavka, finish, kavka_environment
from support.changelogs import random_changelog
from support.paths import CACHE
from support.spark import Record, create_topic, produce
from support.windows import random_events

pytestmark = [pytest.mark.whole, pytest.mark.timeout(600)]

SEED = 17
PARTITIONS = 3

PROGRAM = """
import json
import sys
from importlib import import_module
from kavka import spark_it
from pyspark.sql import SparkSession

jars, *config = sys.argv[1:]
builder = SparkSession.builder.remote("local[2]").config("spark.jars", jars)
for pair in config:
    builder = builder.config(*pair.split("=", 1))
connected = builder.getOrCreate()
assert spark_it.session(delta=True) is connected
for line in sys.stdin:
    pipeline, options, columns = json.loads(line)
    topics = tuple(options.pop("topics"))
    expressions = {name: tuple(options.pop(name)) for name in list(options)
                   if isinstance(options[name], list)}
    module = import_module("kavka.spark_it.pipelines." + pipeline)
    try:
        module.run(module.Options(topics=topics, **expressions, **options))
    except spark_it.SparkError as failure:
        outcome = str(failure)
    else:
        table = connected.read.format("delta").load(options["table"])
        outcome = [list(row) for row in table.selectExpr(*columns).collect()]
    print(json.dumps(outcome), flush=True)
"""


@dataclass(frozen=True)
class Connected:
    """A program that runs pipelines on Spark Connect, over topics of one broker."""

    bootstrap: str
    home: Path
    requests: IO[str]
    responses: IO[str]

    def run(self, pipeline: str, topic: str, columns: tuple[str, ...] = (), **options: Any) -> Any:
        """Columns of the table's rows after a run, or the text of the SparkError that ended it."""
        options = {"bootstrap_server": self.bootstrap, "topics": [topic], **options}
        print(json.dumps([pipeline, options, columns]), file=self.requests, flush=True)
        response = self.responses.readline()
        assert response, (self.home / "errors").read_text()
        return json.loads(response)

    def schema_file(self, schema: object) -> str:
        path = self.home / "schema.json"
        path.write_text(json.dumps(schema))
        return str(path)


@pytest.fixture
def connected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connected]:
    monkeypatch.setenv("KAVKA_SPARK_JARS", str(CACHE / "spark"))
    known = ",".join(map(str, jars.fetch()))
    config = ["spark.ui.enabled=false", "spark.sql.shuffle.partitions=2"]
    config += [f"{key}={value}" for key, value in DELTA_CONFIG.items()]
    environment = {
        "KAVKA_SPARK_JARS": str(CACHE / "spark"),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_TESTING": "1",
    }
    # The events and changes have times of long ago.
    broker = Kavka(tmp_path / "broker", {"log.retention.ms": "-1"}).start()
    try:
        with (
            (tmp_path / "errors").open("w") as errors,
            subprocess.Popen(
                [sys.executable, "-c", PROGRAM, known, *config],
                env={
                    **kavka_environment(),
                    "KAVKA_SPARK_JARS": str(CACHE / "spark"),
                    **environment,
                },
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            ) as program,
        ):
            assert program.stdin is not None and program.stdout is not None
            yield Connected(broker.bootstrap, tmp_path, program.stdin, program.stdout)
    finally:
        finish(broker)


def test_the_sink_writes_through_a_server(connected: Connected) -> None:
    create_topic(connected.bootstrap, "t")
    produce(connected.bootstrap, "t", [Record(b"%d" % number) for number in range(5)])
    columns = ("kafka.offset", "cast(value as string)")
    rows = connected.run("sink", "t", columns, table=str(connected.home / "table"))
    assert sorted(rows) == [[number, str(number)] for number in range(5)]
    said = connected.run("sink", "t", table=str(connected.home / "p"), table_format="parquet")
    assert "with Spark Connect use Delta" in said


@pytest.mark.parametrize("mode", ["update", "append", "complete"])
def test_windows_through_a_server(connected: Connected, mode: str) -> None:
    """Two runs; the second one's events change windows of the first, unless these are final."""
    create_topic(connected.bootstrap, "events", PARTITIONS)
    final = mode == "append"
    options = {
        "value_format": "json",
        "schema_file": connected.schema_file(windows.SCHEMA),
        "event_time": "timestamp_millis(at)",
        "window": "10 seconds",
        "group_by": ["kind"],
        "aggregates": ["count(*) as events", "sum(amount) as total"],
        "table": str(connected.home / "table"),
        "mode": mode,
    } | ({"watermark": "10 seconds"} if final else {})
    edges = ("unix_millis(window_start)", "unix_millis(window_end)")
    chance = random.Random(SEED)
    events: list[windows.Event] = []
    found: list[Any] = []
    for first_s in (0, 60 if final else 30):
        events += random_events(chance, 60, first_s=first_s, last_s=first_s + 60)
        records = [event.record(number % PARTITIONS) for number, event in enumerate(events[-60:])]
        produce(connected.bootstrap, "events", records)
        found = connected.run("aggregate", "events", (*edges, "kind", "events", "total"), **options)
    expected = windows.sliding(events, 10_000, 10_000)
    if final:
        watermark_ms = max(event.at_ms for event in events) - 10_000
        expected = {span: total for span, total in expected.items() if span.end <= watermark_ms}
    rows = [[*span, *total] for span, total in expected.items()]
    assert sorted(found, key=str) == sorted(rows, key=str)


@pytest.mark.parametrize("form", ["latest", "scd2"])
def test_a_changelog_through_a_server(connected: Connected, form: str) -> None:
    """Two runs of a table that follows its topic, then another one as of the first run's end."""
    create_topic(connected.bootstrap, "users", PARTITIONS)
    columns: tuple[str, ...] = ("kafka.partition", "kafka.offset", "key", "name", "size")
    model = changelogs.latest
    if form == "scd2":
        columns += ("unix_millis(valid_from)", "unix_millis(valid_to)")
        model = changelogs.rows
    options = {
        "value_format": "json",
        "schema_file": connected.schema_file(changelogs.SCHEMA),
        "form": form,
        "rejects": str(connected.home / "rejects"),
    }
    chance = random.Random(SEED)
    stored = []
    for moved in (0, 1):
        records = random_changelog(chance, 60, moved=moved, later_s=40 * moved)
        stored += produce(connected.bootstrap, "users", records)
        table = str(connected.home / "table")
        found = connected.run("compact_history", "users", columns, table=table, **options)
        assert sorted(map(tuple, found)) == [row[: len(columns)] for row in model(stored)]
    ends = {str(p): 1 + max(r.offset for r in stored[:60] if r.partition == p) for p in range(3)}
    del options["rejects"]
    past = {"table": str(connected.home / "past"), "as_of": json.dumps({"users": ends})}
    found = connected.run("compact_history", "users", columns, **past, **options)
    assert sorted(map(tuple, found)) == [row[: len(columns)] for row in model(stored[:60])]
