"""The pipeline `sink`: what is in a topic is in its table once, after any interruption.

A query that is killed leaves one of two states on disk, which the tests make: the last batch is in
the tables and its commit is not in the checkpoint, or its rejects are in their table and its rows
are not in theirs.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from kavka.spark_it.errors import SparkError
from kavka.spark_it.pipelines import sink
from kavka.spark_it.progress import Summary
from support.process import BrokerProcess
from support.spark import Record, Stored, create_topic, numbered, place, produce, rows
from support.spark_queries import uncommit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DELTA_AT_LEAST: Final = ("delta", pytest.param("parquet", marks=pytest.mark.whole))
PARQUET_AT_LEAST: Final = ("parquet", pytest.param("delta", marks=pytest.mark.whole))
FIRST_MS: Final = 1_700_000_000_000
DAY_MS: Final = 86_400_000

SCHEMA: Final = {
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": {"type": "integer"},
        "name": {"type": ["string", "null"]},
        "at": {"type": "string", "format": "date-time"},
        "place": {"$ref": "#/$defs/place"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "more": {"type": "object", "additionalProperties": {"type": "number"}},
    },
    "$defs": {"place": {"properties": {"x": {"type": "number"}, "ok": {"type": "boolean"}}}},
}

REJECTED: Final = {
    None: "has no value (a tombstone)",
    b"": "is not JSON",
    b'{"id": 1': "is not JSON",
    b"\xff\xfe": "is not UTF-8",
    b'{"id": 1} {"id": 2}': "is not JSON",
    b"[1]": "is not an object",
    b'"id"': "is not an object",
    b"{}": "id is required and missing",
    b'{"id": null}': "id is required and missing",
    b'{"id": "one"}': "id is not of type bigint",
    b'{"id": 1.5}': "id is not of type bigint",
    b'{"id": 1, "tags": 2}': "tags is not of type array<string>",
    b'{"id": 1, "at": "yesterday"}': "at is not of type timestamp",
    b'{"id": 1, "place": {"x": 1, "ok": 0}}': "place.ok is not of type boolean",
}
"""Values that the schema does not allow, by what is wrong with them."""


def options(broker: BrokerProcess, topic: str, path: Path, **more: Any) -> sink.Options:
    given = {"topics": (topic,), "table": str(path / "table"), **more}
    return sink.Options(bootstrap_server=broker.bootstrap, **given)


def run(spark: SparkSession, sink_options: sink.Options) -> Summary:
    return sink.run(sink_options, spark=spark, report=lambda line: None)


def raw(spark: SparkSession, sink_options: sink.Options) -> list[Stored]:
    """The rows of a raw table, as a reader that knows nothing of the sink reads them."""
    table = spark.read.format(sink_options.table_format).load(sink_options.table)
    columns = table.select("kafka.*", "value").selectExpr("*", "0 as timestampType")
    return rows(columns)


@pytest.mark.parametrize("table_format", DELTA_AT_LEAST)
def test_every_record_is_a_row_once(
    spark: SparkSession, broker: BrokerProcess, topic: str, tmp_path: Path, table_format: str
) -> None:
    """Runs that go on, a batch that is written twice, and small files compacted in between."""
    create_topic(broker.bootstrap, topic, 3)
    sink_options = options(
        broker,
        topic,
        tmp_path,
        table_format=table_format,
        partition_by=("date",),
        max_offsets_per_batch=40,
        compact_every=2,
    )
    stored: list[Stored] = []
    for start, count in ((0, 100), (100, 30), (130, 20)):
        records = numbered(
            count, partitions=3, start=start, first_ms=FIRST_MS, step_ms=DAY_MS // 20
        )
        stored += produce(broker.bootstrap, topic, records)
        summary = run(spark, sink_options)
        assert (summary.rows >= count, summary.lag) == (True, 0)
        assert raw(spark, sink_options) == sorted(stored, key=place)
        uncommit(f"{sink_options.table}/_checkpoint")
    days = {path.name for path in Path(sink_options.table).rglob("date=*")}
    assert "date=2023-11-14" in days and len(days) > 4


@pytest.mark.parametrize("table_format", DELTA_AT_LEAST)
def test_a_table_says_itself_where_to_go_on(
    spark: SparkSession, broker: BrokerProcess, topic: str, tmp_path: Path, table_format: str
) -> None:
    """The checkpoint is lost: of a table without rows, and of one where a partition was empty."""
    create_topic(broker.bootstrap, topic, 3)
    sink_options = options(
        broker, topic, tmp_path, table_format=table_format, partition_by=("date",)
    )
    run(spark, sink_options)
    shutil.rmtree(Path(sink_options.table, "_checkpoint"))
    stored = produce(broker.bootstrap, topic, numbered(40, partitions=2))
    run(spark, sink_options)
    shutil.rmtree(Path(sink_options.table, "_checkpoint"))
    stored += produce(broker.bootstrap, topic, numbered(30, partitions=3, start=40))
    assert run(spark, sink_options).rows == 30
    assert raw(spark, sink_options) == sorted(stored, key=place)


def json_values() -> list[bytes | None]:
    """Values that parse and values that do not, in turn."""
    good = [
        b'{"id": 1}',
        b'{"id": 2, "name": null, "unknown": [1, {}]}',
        b'{"name": "\xc3\xa9", "id": 3, "tags": ["a", "b"], "more": {"x": 1.5, "y": 2}}',
        b' {"id": 4, "at": "2026-01-31T12:00:00Z", "place": {"x": 1, "ok": true}} ',
    ]
    return [*good, *REJECTED]


def rejected(
    spark: SparkSession, sink_options: sink.Options
) -> dict[tuple[int, int], tuple[Any, str]]:
    """Value and reason of each reject, by partition and offset; each is there once."""
    table = spark.read.format(sink_options.table_format).load(f"{sink_options.table}_rejects")
    found = table.select("kafka.partition", "kafka.offset", "value", "reason").collect()
    by_place = {
        (row.partition, row.offset): (None if row.value is None else bytes(row.value), row.reason)
        for row in found
    }
    assert len(by_place) == len(found)
    return by_place


def expected_rejects(stored: Iterable[Stored]) -> dict[tuple[int, int], tuple[Any, str]]:
    return {
        (record.partition, record.offset): (record.value, REJECTED[record.value])
        for record in stored
        if record.value in REJECTED
    }


@pytest.mark.parametrize("table_format", PARQUET_AT_LEAST)
def test_what_does_not_parse_is_kept_with_the_reason(
    spark: SparkSession, broker: BrokerProcess, topic: str, tmp_path: Path, table_format: str
) -> None:
    """Every record is a row or a reject, also after a kill between the two writes of a batch."""
    schema = tmp_path / "schema.json"
    schema.write_text(json.dumps(SCHEMA))
    create_topic(broker.bootstrap, topic, 2)
    sink_options = options(
        broker,
        topic,
        tmp_path,
        table_format=table_format,
        value_format="json",
        schema_file=str(schema),
    )
    records = [Record(value, b"k", n % 2) for n, value in enumerate(json_values())]
    stored = produce(broker.bootstrap, topic, records)
    assert run(spark, sink_options).details["rejects"] == len(REJECTED)
    assert rejected(spark, sink_options) == expected_rejects(stored)
    table = spark.read.format(table_format).load(sink_options.table)
    found = {row.id: row.asDict(recursive=True) for row in table.collect()}
    assert sorted(found) == [1, 2, 3, 4]
    assert (found[3]["name"], found[3]["tags"], found[3]["more"]) == (
        "\u00e9",
        ["a", "b"],
        {"x": 1.5, "y": 2.0},
    )
    assert found[4]["place"] == {"x": 1.0, "ok": True}
    assert str(found[4]["at"]) == "2026-01-31 12:00:00"

    more = [Record(b'{"id": 99}', b"k", 0), *records]
    stored += produce(broker.bootstrap, topic, more)
    kill_between_rejects_and_rows(spark, sink_options)
    assert len(rejected(spark, sink_options)) == 2 * len(REJECTED)
    run(spark, sink_options)
    assert rejected(spark, sink_options) == expected_rejects(stored)
    again = spark.read.format(table_format).load(sink_options.table)
    assert sorted(row.id for row in again.collect()) == [1, 1, 2, 2, 3, 3, 4, 4, 99]

    stored += produce(broker.bootstrap, topic, more)
    kill_between_rejects_and_rows(spark, sink_options)
    shutil.rmtree(Path(sink_options.table, "_checkpoint"))
    run(spark, sink_options)
    assert rejected(spark, sink_options) == expected_rejects(stored)


@pytest.mark.whole
def test_rejects_outlive_the_compaction_of_their_batch_s_rows(
    spark: SparkSession, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    """Only the first batch has rejects, its rows are compacted, and the checkpoint is lost: with a
    batch that was not written whole, which any reader would see."""
    schema = tmp_path / "schema.json"
    schema.write_text(json.dumps(SCHEMA))
    create_topic(broker.bootstrap, topic)
    sink_options = options(
        broker,
        topic,
        tmp_path,
        table_format="parquet",
        value_format="json",
        schema_file=str(schema),
        max_offsets_per_batch=2,
        compact_every=4,
    )
    values = [b"{}", *(b'{"id": %d}' % number for number in range(1, 10))]
    stored = produce(broker.bootstrap, topic, [Record(value) for value in values])
    run(spark, sink_options)
    assert list(Path(sink_options.table).glob("kafka_batch=compacted-*"))
    newest = max(Path(sink_options.table).glob("kafka_batch=[!c]*"))
    partial = newest.with_name(newest.name[:-1] + "9")
    shutil.copytree(newest, partial)
    (partial / "_SUCCESS").unlink()
    shutil.rmtree(Path(sink_options.table, "_checkpoint"))
    run(spark, sink_options)
    assert rejected(spark, sink_options) == expected_rejects(stored)
    ids = [row.id for row in spark.read.parquet(sink_options.table).collect()]
    assert sorted(ids) == list(range(1, 10))


def kill_between_rejects_and_rows(spark: SparkSession, sink_options: sink.Options) -> None:
    """Leave the next batch as a kill does that comes after its rejects and before its rows."""
    if sink_options.table_format == "parquet":
        run(spark, sink_options)
        uncommit(f"{sink_options.table}/_checkpoint")
        shutil.rmtree(max(Path(sink_options.table).glob("kafka_batch=*")))
        return
    name = f"delta.`{sink_options.table}`"
    count = spark.sql(f"SELECT * FROM {name} WHERE id = 99").count()
    spark.sql(f"DELETE FROM {name} WHERE id = 99")
    spark.sql(f"ALTER TABLE {name} ADD CONSTRAINT closed CHECK (id <> 99)")
    with pytest.raises(SparkError, match="closed"):
        run(spark, sink_options)
    spark.sql(f"ALTER TABLE {name} DROP CONSTRAINT closed")
    assert count <= 1


SINK_DATA_MS: Final = 10_000


@pytest.mark.whole
def test_a_backfill_adds_what_the_table_lacks(
    spark: SparkSession, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    """The stream began at the end; what was there before is added by time, then all, once; what
    the stream has not reached yet is left to it."""
    create_topic(broker.bootstrap, topic, 2)
    stored = produce(
        broker.bootstrap, topic, numbered(40, partitions=2, first_ms=FIRST_MS, step_ms=SINK_DATA_MS)
    )
    sink_options = options(broker, topic, tmp_path, starting="latest")
    run(spark, sink_options)
    stored += produce(broker.bootstrap, topic, numbered(10, partitions=2, start=40))
    assert run(spark, sink_options).rows == 10
    later = produce(broker.bootstrap, topic, numbered(6, partitions=2, start=50))

    backfill = options(
        broker,
        topic,
        tmp_path,
        backfill_from="2023-11-14T22:15:00Z",  # 100 s after the first
        backfill_to="2023-11-14T22:16:40Z",  # 200 s after it
    )
    assert run(spark, backfill).rows == 10
    between = [
        record for record in stored[:40] if 100_000 <= record.timestamp_ms - FIRST_MS < 200_000
    ]
    assert raw(spark, sink_options) == sorted([*between, *stored[40:]], key=place)
    everything = options(broker, topic, tmp_path, backfill_from="earliest")
    assert run(spark, everything).rows == 30
    assert run(spark, everything).rows == 0
    assert raw(spark, sink_options) == sorted(stored, key=place)
    assert run(spark, sink_options).rows == len(later)
    assert raw(spark, sink_options) == sorted([*stored, *later], key=place)


def test_avro_of_several_topics(
    spark: SparkSession, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    """Topics by a pattern, one of which is made between the runs; values in Confluent's framing,
    written by Spark's own `to_avro`."""
    from pyspark.sql import functions as f
    from pyspark.sql.avro.functions import to_avro

    fields = [{"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"]}]
    schema = json.dumps({"type": "record", "name": "Event", "fields": fields})
    path = tmp_path / "event.avsc"
    path.write_text(schema)
    plain = spark.range(6).select(
        "id", f.when(f.col("id") % 2 == 0, f.concat(f.lit("n"), "id")).alias("name")
    )
    encoded = plain.select(to_avro(f.struct("id", "name"), schema).alias("v")).collect()
    values = [b"\0\0\0\0\7" + bytes(row.v) for row in encoded]
    sink_options = sink.Options(
        bootstrap_server=broker.bootstrap,
        topic_pattern=f"{topic}-[ab]",
        table=str(tmp_path / "table"),
        value_format="avro",
        schema_file=str(path),
        avro_framing="confluent",
    )
    expected = []
    for name, start in (("a", 0), ("b", 3), ("c", 0)):
        create_topic(broker.bootstrap, f"{topic}-{name}")
        records = [Record(value) for value in values[start : start + 3]]
        produce(broker.bootstrap, f"{topic}-{name}", [*records, Record(b"\0\0\0\0\7")])
        if name != "c":
            expected += [
                (f"{topic}-{name}", n, f"n{n}" if n % 2 == 0 else None)
                for n in range(start, start + 3)
            ]
        assert run(spark, sink_options).details["rejects"] == (0 if name == "c" else 1)
        table = spark.read.format("delta").load(sink_options.table)
        found = table.select("kafka.topic", "id", "name").collect()
        assert sorted(tuple(row) for row in found) == sorted(expected)


def test_lost_records_are_an_error_that_says_so(
    spark: SparkSession, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    sink_options = options(broker, topic, tmp_path)
    with pytest.raises(SparkError, match="partition_by: there is no column day"):
        run(spark, options(broker, topic, tmp_path, partition_by=("day",)))
    schema = tmp_path / "schema.json"
    schema.write_text('{"properties": {"Date": {"type": "string"}}}')
    dated = options(broker, topic, tmp_path, value_format="json", schema_file=str(schema))
    with pytest.raises(SparkError, match="partition_by: date is written Date in the value"):
        run(spark, replace(dated, partition_by=("date",)))
    with pytest.raises(SparkError, match="needs schema_file"):
        run(spark, options(broker, topic, tmp_path, value_format="json"))
    with pytest.raises(SparkError, match="UnknownTopicOrPartition|does not exist"):
        run(spark, sink_options)
