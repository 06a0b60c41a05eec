"""The pipeline `sink` after a kill, and with a checkpoint that is lost, older than the table or not
there yet: what is in the topic is in its tables once.

What a kill leaves on disk the tests make themselves, as `test_sink` does.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from kavka.spark_it import reading
from kavka.spark_it.errors import SparkError
from kavka.spark_it.pipelines import sink
from support.process import BrokerProcess
from support.spark import Record, create_topic, numbered, produce
from support.spark_queries import offsets, uncommit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kavka.spark_it.progress import Summary

DELTA_AT_LEAST: Final = ("delta", pytest.param("parquet", marks=pytest.mark.whole))
NEW_QUERY: Final = "11111111-2222-3333-4444-555555555555"


def options(broker: BrokerProcess, topic: str, path: Path, kind: str = "delta") -> sink.Options:
    return sink.Options(
        bootstrap_server=broker.bootstrap,
        topics=(topic,),
        table=str(path / "table"),
        table_format=kind,
    )


def run(spark: SparkSession, sink_options: sink.Options) -> Summary:
    return sink.run(sink_options, spark=spark, report=lambda line: None)


def checkpoint(sink_options: sink.Options) -> Path:
    return Path(sink_options.table, "_checkpoint")


def places(spark: SparkSession, sink_options: sink.Options, path: str) -> list[tuple[int, int]]:
    """Partitions and offsets of a table's rows, as a reader that knows nothing of the sink has
    them; none if there is no table."""
    if not any(name.name != "_checkpoint" for name in Path(path).glob("*")):
        return []
    rows = spark.read.format(sink_options.table_format).load(path)
    return sorted(tuple(row) for row in rows.select("kafka.partition", "kafka.offset").collect())


def lose_rows(sink_options: sink.Options) -> None:
    """Leave the first batch as a kill does that comes before its rows."""
    for path in Path(sink_options.table).iterdir():
        if path.name != "_checkpoint":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    uncommit(str(checkpoint(sink_options)))


def test_a_query_killed_before_it_knows_its_first_offsets(
    spark: SparkSession, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    """Its checkpoint was lost before, so they come from the table: also in the run after."""
    create_topic(broker.bootstrap, topic)
    produce(broker.bootstrap, topic, numbered(3, partitions=1))
    sink_options = options(broker, topic, tmp_path)
    run(spark, sink_options)
    shutil.rmtree(checkpoint(sink_options))
    checkpoint(sink_options).mkdir()
    # what Spark writes when a query starts
    (checkpoint(sink_options) / "metadata").write_text(json.dumps({"id": NEW_QUERY}))
    produce(broker.bootstrap, topic, numbered(1, partitions=1, start=3))
    run(spark, sink_options)
    assert places(spark, sink_options, sink_options.table) == [(0, offset) for offset in range(4)]


@pytest.mark.parametrize("kind", DELTA_AT_LEAST)
def test_a_checkpoint_from_a_backup(
    spark: SparkSession, broker: BrokerProcess, topic: str, tmp_path: Path, kind: str
) -> None:
    """It would give other records the numbers of batches that the table has had."""
    create_topic(broker.bootstrap, topic)
    sink_options = options(broker, topic, tmp_path, kind)
    for offset in range(2):
        produce(broker.bootstrap, topic, numbered(1, partitions=1, start=offset))
        run(spark, sink_options)
        if offset == 0:
            shutil.copytree(checkpoint(sink_options), tmp_path / "backup")
    shutil.rmtree(checkpoint(sink_options))
    shutil.copytree(tmp_path / "backup", checkpoint(sink_options))
    produce(broker.bootstrap, topic, numbered(2, partitions=1, start=2))
    with pytest.raises(SparkError, match="older than the table.*remove the checkpoint"):
        run(spark, sink_options)
    shutil.rmtree(checkpoint(sink_options))
    run(spark, sink_options)
    assert places(spark, sink_options, sink_options.table) == [(0, offset) for offset in range(4)]


@pytest.mark.parametrize("kind", DELTA_AT_LEAST)
def test_a_schema_that_is_mended_after_a_kill(
    spark: SparkSession, broker: BrokerProcess, topic: str, tmp_path: Path, kind: str
) -> None:
    """The batch had written its rejects; now others are rejected, and after a second kill none."""
    schema = tmp_path / "schema.json"

    def write_schema(types: dict[str, str], *required: str) -> None:
        properties = {name: {"type": kind} for name, kind in types.items()}
        schema.write_text(json.dumps({"required": required, "properties": properties}))

    create_topic(broker.bootstrap, topic)
    values = [b'{"id": 1}', b'{"id": "x"}', b'{"name": "n"}']
    produce(broker.bootstrap, topic, [Record(value) for value in values])
    sink_options = options(broker, topic, tmp_path, kind)
    sink_options = replace(sink_options, value_format="json", schema_file=str(schema))
    rejects = f"{sink_options.table}_rejects"

    def found() -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        return places(spark, sink_options, sink_options.table), places(spark, sink_options, rejects)

    write_schema({"id": "integer", "name": "string"})
    run(spark, sink_options)
    assert found() == ([(0, 0), (0, 2)], [(0, 1)])
    lose_rows(sink_options)
    write_schema({"id": "integer", "name": "string"}, "id")
    run(spark, sink_options)
    assert found() == ([(0, 0)], [(0, 1), (0, 2)])
    lose_rows(sink_options)
    write_schema({"name": "string"})
    run(spark, sink_options)
    assert found() == ([(0, 0), (0, 1), (0, 2)], [])


def test_a_backfill_keeps_to_what_the_stream_has_passed(
    spark: SparkSession, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    """Before the first run that is not known; in the first batch, killed before its rows, it is
    nothing."""
    create_topic(broker.bootstrap, topic)
    produce(broker.bootstrap, topic, numbered(4, partitions=1))
    sink_options = options(broker, topic, tmp_path)
    everything = replace(sink_options, backfill_from="earliest")
    with pytest.raises(SparkError, match="run the sink without backfill_from first"):
        run(spark, replace(sink_options, backfill_from=offsets(topic, {0: 2})))
    run(spark, replace(sink_options, starting=offsets(topic, {0: 2})))
    lose_rows(sink_options)
    assert run(spark, everything).rows == 2
    run(spark, sink_options)
    assert places(spark, sink_options, sink_options.table) == [(0, offset) for offset in range(4)]


@pytest.mark.whole
def test_a_topic_that_has_fewer_partitions_than_the_table(
    spark: SparkSession, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    """The topic was recreated. Its checkpoint is lost, and the records are as many as before."""
    from pyspark.sql import functions as f

    create_topic(broker.bootstrap, topic)
    produce(broker.bootstrap, topic, numbered(1, partitions=1))
    sink_options = options(broker, topic, tmp_path)
    run(spark, sink_options)
    shutil.rmtree(checkpoint(sink_options))
    moved = f.col("kafka").withField("partition", f.lit(1))
    rows = spark.read.format("delta").load(sink_options.table).withColumn("kafka", moved)
    rows.write.format("delta").mode("append").save(sink_options.table)
    produce(broker.bootstrap, topic, numbered(1, partitions=1, start=1))
    run(spark, sink_options)
    assert places(spark, sink_options, sink_options.table) == [(0, 0), (0, 1), (1, 0)]


@pytest.mark.whole
def test_where_partitions_begin_that_the_table_does_not_know(
    spark: SparkSession, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    """As the option `starting` has it, also when it is a time or offsets."""
    create_topic(broker.bootstrap, topic, 4)
    sink_options = options(broker, topic, tmp_path)
    produce(broker.bootstrap, topic, numbered(2, partitions=1))
    run(spark, sink_options)
    shutil.rmtree(checkpoint(sink_options))
    hour_ms = 3_600_000
    records = [Record(b"v", None, 1, n * hour_ms) for n in range(3)]
    produce(broker.bootstrap, topic, [*records, Record(b"v", None, 2, 0)])
    by_time = replace(sink_options, starting="1970-01-01T02:00:00Z")
    ends = {topic: {1: 3, 2: 1, 3: 0}}
    assert reading.first_offsets(spark, by_time, ends) == {topic: {1: 2, 2: 1, 3: 0}}
    run(spark, replace(sink_options, starting=offsets(topic, {0: 0, 1: 1, 2: -1})))
    assert places(spark, sink_options, sink_options.table) == [(0, 0), (0, 1), (1, 1), (1, 2)]
