"""The pipeline aggregate, judged by a plain model of windows."""

from __future__ import annotations

import json
import random
import shutil
import threading
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kavka.spark_it import SparkError, delta_tables, event_time
from kavka.spark_it.pipelines.aggregate import NAME, Options, run
from support import windows
from support.process import BrokerProcess
from support.spark import Record, Stored, create_topic, produce, read_topic
from support.spark_queries import uncommit
from support.wait import eventually
from support.windows import BASE_MS, Event, Model, Span, Total, random_events

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEED = 17
PARTITIONS = 3
QUERY_WITHIN_S = 120.0

BAD = [
    Record(b"not JSON", partition=0),
    Record(json.dumps({"kind": "a", "at": BASE_MS}).encode(), b"a", 1),  # no amount
    Record(None, b"a", 2),
]
NO_TIME = Record(json.dumps({"kind": "a", "amount": 7}).encode(), b"a", 0)


@pytest.fixture
def options(broker: BrokerProcess, topic: str, tmp_path: Path) -> Options:
    """Tumbling windows of ten seconds into a table of Delta, of a new topic with three partitions;
    its records have the schema of `support.windows`."""
    create_topic(broker.bootstrap, topic, PARTITIONS)
    schema = tmp_path / "schema.json"
    schema.write_text(json.dumps(windows.SCHEMA))
    return Options(
        bootstrap_server=broker.bootstrap,
        topics=(topic,),
        value_format="json",
        schema_file=str(schema),
        event_time="timestamp_millis(at)",
        window="10 seconds",
        group_by=("kind",),
        aggregates=("count(*) as events", "sum(amount) as total"),
        table=str(tmp_path / "table"),
        mode="update",
    )


def send(options: Options, events: list[Event], others: list[Record] = []) -> list[Stored]:  # noqa: B006
    records = [event.record(number % PARTITIONS) for number, event in enumerate(events)]
    return produce(options.bootstrap_server, options.topics[0], [*records, *others])


def table(spark: SparkSession, options: Options) -> dict[Span, Total]:
    """What the table holds. No window and kind is there twice."""
    from pyspark.sql import functions as f

    assert options.table is not None
    frame = spark.read.format(options.table_format).load(options.table)
    edges = (f.unix_millis("window_start"), f.unix_millis("window_end"))
    found = frame.select(*edges, "kind", "events", "total").collect()
    totals = {Span(*row[:3]): Total(*row[3:]) for row in found}
    assert len(totals) == len(found), "a window is there twice"
    return totals


def rejected(spark: SparkSession, options: Options) -> list[tuple[int, int, bytes | None]]:
    frame = spark.read.format(options.table_format).load(options.rejects)
    found = frame.select("kafka.partition", "kafka.offset", "value", "reason").collect()
    assert all(row.reason for row in found)
    return sorted((r[0], r[1], None if r[2] is None else bytes(r[2])) for r in found)


def tumbling(events: list[Event]) -> dict[Span, Total]:
    return windows.sliding(events, 10_000, 10_000)


def test_update_into_delta(
    spark: SparkSession, options: Options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A continuous query that is stopped between batches, one that dies between a batch's write
    and its commit, and the one that goes on."""
    chance = random.Random(SEED)
    options = replace(options, rejects=str(tmp_path / "rejects"))
    events = random_events(chance, 60, first_s=0, last_s=60)
    sent = send(options, events, BAD)
    lines: list[str] = []
    following = replace(options, trigger="continuous")
    query = threading.Thread(
        target=run, args=(following,), kwargs={"spark": spark, "report": lines.append}
    )
    query.start()
    try:
        eventually(
            lambda: any("batch 0" in line for line in lines),
            within_s=QUERY_WITHIN_S,
            what="a batch is done",
        )
    finally:
        for active in spark.streams.active:
            if active.name == NAME:
                active.stop()
        query.join()
    assert table(spark, options) == tumbling(events)

    more = random_events(chance, 60, first_s=30, last_s=90)
    sent += send(options, more, [NO_TIME])
    with monkeypatch.context() as patched:
        upsert = delta_tables.upsert

        def dying(*arguments: Any) -> None:
            upsert(*arguments)
            raise RuntimeError("died after the write")

        patched.setattr(delta_tables, "upsert", dying)
        with pytest.raises(SparkError, match="died after the write"):
            run(replace(options, rejects=None), spark=spark)
    summary = run(options, spark=spark)
    assert summary.rows == 61, "the batch was not repeated"
    assert summary.details["rejects"] == 1
    assert table(spark, options) == tumbling(events + more)
    bad = [(r.partition, r.offset, r.value) for r in (*sent[60:63], sent[-1])]
    assert rejected(spark, options) == sorted(bad, key=lambda row: row[:2])

    shutil.rmtree(f"{options.table}/_checkpoint-rejects")
    with pytest.raises(SparkError, match="rejects has rows, and there is no checkpoint at"):
        run(options, spark=spark)
    assert rejected(spark, options) == sorted(bad, key=lambda row: row[:2])


@pytest.mark.whole
def test_at_random(spark: SparkSession, options: Options) -> None:
    """Runs of small batches, after most of which the last batch's commit is lost."""
    chance = random.Random(SEED)
    options = replace(options, watermark="30 seconds", max_offsets_per_batch=80)
    appended = replace(options, mode="append", table=f"{options.table}-appended")
    parquet = replace(appended, table=f"{options.table}-parquet", table_format="parquet")
    events: list[Event] = []
    for turn in range(5):
        if turn and chance.random() < 0.8:
            for each in (options, appended, parquet):
                uncommit(f"{each.table}/_checkpoint")
        more = random_events(chance, 150, first_s=turn * 40, last_s=turn * 40 + 60)
        more.sort(key=lambda event: event.at_ms)  # so that the batches keep to the watermark
        events += more
        send(options, more)
        for each in (options, appended, parquet):
            assert run(each, spark=spark).details["dropped_by_watermark"] == 0
    watermark_ms = max(event.at_ms for event in events) - 30_000
    assert table(spark, options) == tumbling(events)
    for each in (appended, parquet):
        assert table(spark, each) == windows.closed(tumbling(events), watermark_ms)


@pytest.mark.parametrize(
    ("kind", "given", "model"),
    [
        pytest.param(
            "delta",
            {"slide": "5 seconds"},
            lambda events: windows.sliding(events, 10_000, 5_000),
            marks=pytest.mark.whole,
        ),
        (
            "parquet",
            {"window": None, "session_gap": "4 seconds"},
            lambda events: windows.sessions(events, 4_000),
        ),
    ],
    ids=["sliding-delta", "session-parquet"],
)
def test_append(
    spark: SparkSession, options: Options, kind: str, given: dict[str, Any], model: Model
) -> None:
    """Each window once, when the watermark has passed it, also when its batch is written twice, and
    when the checkpoint is lost."""
    chance = random.Random(SEED)
    options = replace(options, mode="append", watermark="20 seconds", table_format=kind, **given)
    events = random_events(chance, 60, first_s=0, last_s=60)
    events.append(Event(BASE_MS + 60_999, "a", 1))
    send(options, events)
    run(options, spark=spark)
    first = windows.closed(model(events), BASE_MS + 40_999)
    assert table(spark, options) == first

    uncommit(f"{options.table}/_checkpoint")
    in_time = random_events(chance, 60, first_s=42, last_s=120, odd=True)
    in_time.append(Event(BASE_MS + 120_999, "a", 1))
    too_late = Event(BASE_MS, "b", 1000)
    send(options, [*in_time, too_late])
    summary = run(options, spark=spark)
    assert summary.rows == len(in_time) + 1
    assert summary.details["dropped_by_watermark"] >= 1
    both = windows.closed(model(events + in_time), BASE_MS + 100_999)
    assert table(spark, options) == both
    assert len(both) > len(first) > 0

    shutil.rmtree(f"{options.table}/_checkpoint")
    with pytest.raises(SparkError, match="table has rows, and there is no checkpoint at"):
        run(options, spark=spark)
    assert table(spark, options) == both


@pytest.mark.parametrize("mode", ["complete", "update"])
def test_into_a_topic(
    spark: SparkSession, options: Options, broker: BrokerProcess, mode: str, tmp_path: Path
) -> None:
    """The last value of each window and group is right, though a batch is written twice."""
    chance = random.Random(SEED)
    output = f"{options.topics[0]}-out"
    create_topic(broker.bootstrap, output, PARTITIONS)
    options = replace(
        options,
        mode=mode,
        table=None,
        output_topic=output,
        checkpoint=str(tmp_path / "checkpoint"),
        output_key="group" if mode == "complete" else "window-and-group",
    )
    events = random_events(chance, 50, first_s=0, last_s=40)
    send(options, events, [NO_TIME])
    assert run(options, spark=spark).details["rejects"] == 1
    once = read_topic(broker.bootstrap, output)
    uncommit(str(tmp_path / "checkpoint"))
    more = random_events(chance, 50, first_s=20, last_s=60)
    send(options, more)
    run(options, spark=spark)
    found = read_topic(broker.bootstrap, output)
    assert len(found) >= 2 * len(once), "the batch was not repeated"
    last: dict[Span, Total] = {}
    for record in found:  # by partition and offset: a group's are all in one partition
        value = json.loads(record.value or b"")
        span = Span(millis(value["window_start"]), millis(value["window_end"]), value["kind"])
        key = json.loads(record.key or b"")
        assert set(key) == ({"kind"} if mode == "complete" else set(value) - {"events", "total"})
        assert all(value[name] == part for name, part in key.items())
        last[span] = Total(value["events"], value["total"])
    assert last == tumbling(events + more)


def test_complete_into_delta(spark: SparkSession, options: Options) -> None:
    """Of raw values: by the record's own time and its key as text, and without a schema."""
    made = [Record(bytes(n), b"k%d" % (n % 2), n % 2, BASE_MS + n * 4000) for n in range(1, 11)]
    options = replace(
        options,
        value_format="raw",
        schema_file=None,
        event_time="kafka.timestamp",
        group_by=("key as kind",),
        aggregates=("count(*) as events", "sum(length(value)) as total"),
        mode="complete",
    )
    produce(options.bootstrap_server, options.topics[0], made)
    run(options, spark=spark)
    uncommit(f"{options.table}/_checkpoint")
    run(options, spark=spark)
    sizes = [Event(r.timestamp_ms or 0, (r.key or b"").decode(), len(r.value or b"")) for r in made]
    assert table(spark, options) == tumbling(sizes)


def test_times_are_written_to_the_microsecond(spark: SparkSession) -> None:
    """As Spark has them: else groups of different times would share a key."""
    times = ("2026-01-01T00:00:00.123456+00:00", "1969-12-31T23:59:59.999999+00:00")
    rows = spark.createDataFrame(
        [(datetime.fromisoformat(time),) for time in times], "at timestamp"
    )
    local = rows.selectExpr(
        "at", "to_timestamp_ntz(date_format(at, 'yyyy-MM-dd HH:mm:ss.SSSSSS')) ntz"
    )
    made = event_time.messages(local, ["at"]).collect()
    for row, time in zip(made, times, strict=True):
        at = datetime.fromisoformat(time)
        assert datetime.fromisoformat(json.loads(row.key)["at"]) == at
        value = json.loads(row.value)
        assert datetime.fromisoformat(value["at"]) == at
        assert datetime.fromisoformat(value["ntz"]).microsecond == at.microsecond


def millis(text: str) -> int:
    return round(datetime.fromisoformat(text).astimezone(UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"aggregates": ("sum(amuont) as total",)}, r"aggregates: 'sum\(amuont\).*amuont"),
        ({"aggregates": ("sum(amount)",)}, r"write it as `sum\(amount\) as NAME`"),
        ({"aggregates": ("amount as total",)}, r"aggregates: 'amount as total': .*GROUP BY"),
        ({"aggregates": ("count(*) as Kind",)}, "two columns of the name"),
        ({"aggregates": ("sum(amount as total",)}, "parenthesis that is not closed"),
        ({"aggregates": ("count(distinct amount) as n",)}, "approx_count_distinct"),
        ({"group_by": ("no_field",)}, "group_by: 'no_field': .*no_field"),
        ({"event_time": "at"}, r"event_time: 'at' is of type bigint; .*timestamp_millis\(at\)"),
        ({"event_time": "when"}, "event_time: 'when'"),
    ],
)
def test_a_wrong_expression_is_named(
    spark: SparkSession, tmp_path: Path, given: dict[str, Any], error: str
) -> None:
    """Before anything is asked of a broker."""
    schema = tmp_path / "schema.json"
    schema.write_text(json.dumps(windows.SCHEMA))
    options = Options(
        bootstrap_server="127.0.0.1:1",
        topics=("none",),
        value_format="json",
        schema_file=str(schema),
        event_time="timestamp_millis(at)",
        window="10 seconds",
        group_by=("kind",),
        aggregates=("count(*) as events",),
        table=str(tmp_path / "table"),
        mode="update",
    )
    with pytest.raises(SparkError, match=error):
        run(replace(options, **given), spark=spark)
    assert not (tmp_path / "table" / "_delta_log").exists()
