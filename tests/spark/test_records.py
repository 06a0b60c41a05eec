"""The records of a table: which rows, and where its columns are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kavka.spark_it import SparkError
from kavka.spark_it.records import of_table, read_table
from kavka.spark_it.tables import COMPACTION

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def sink_rows(spark: SparkSession, *offsets: int, columns: str = "'{}' as id") -> DataFrame:
    """Rows as the sink writes them whose values it has parsed: there is no column `value`."""
    place = "named_struct('topic', 't', 'partition', 0, 'offset', id) as kafka"
    frame = spark.createDataFrame([(offset,) for offset in offsets], "id bigint")
    return frame.selectExpr(place, columns)


def offsets(frame: DataFrame) -> list[int]:
    return sorted(row[0] for row in frame.select("kafka.offset").collect())


def test_what_a_table_does_not_have_is_null_unless_it_is_needed(spark: SparkSession) -> None:
    table = sink_rows(spark, 7)
    (row,) = of_table(table, {}).collect()
    assert (row.offset, row.key, row.value, row.headers) == (7, None, None, None)
    said = r"second: no column value: say in second_columns.value .*\(second_columns.value=null\)"
    with pytest.raises(SparkError, match=said):
        of_table(table, {}, needed=("value",), source="second", option="second_columns")
    for expression, value in (("null", None), ("id", b"{}")):
        (row,) = of_table(table, {"value": expression}, needed=("value",)).collect()
        assert row.value == value
    with pytest.raises(SparkError, match=r"no column kafka.partition: .* of a record$"):
        of_table(table.select("id"), {})


def test_a_table_is_read_as_it_was_at_first(spark: SparkSession, tmp_path: Path) -> None:
    """However often the frame is read: a replay numbers the records in one job and writes them in
    another."""
    for format in ("delta", "parquet"):
        path = str(tmp_path / format)
        sink_rows(spark, 1).write.format(format).save(path)
        frame = read_table(spark, path, format)
        sink_rows(spark, 2).write.format(format).mode("append").save(path)
        assert offsets(frame) == [1], format
        assert offsets(read_table(spark, path, format)) == [1, 2]
        with pytest.raises(SparkError, match=f"nothing cannot be read as {format}"):
            read_table(spark, str(tmp_path / "nothing"), format)


def test_of_a_parquet_table_only_complete_batches_are_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    """With the columns of all of them."""
    path = tmp_path / "table"
    batches = (
        sink_rows(spark, 1),
        sink_rows(spark, 2, columns="'new' as added"),
        sink_rows(spark, 3),
    )
    for number, rows in enumerate(batches):
        rows.write.parquet(f"{path}/kafka_batch=12345678-{number:010}")
    (path / "kafka_batch=12345678-0000000002" / "_SUCCESS").unlink()
    found = read_table(spark, str(path), "parquet")
    assert offsets(found) == [1, 2]
    assert {(row.id, row.added) for row in found.collect()} == {("{}", None), (None, "new")}

    (path / COMPACTION).write_text("{}")
    with pytest.raises(SparkError, match="compaction was cut short"):
        read_table(spark, str(path), "parquet")
    (path / COMPACTION).unlink()
    for batch in path.glob("*/_SUCCESS"):
        batch.unlink()
    with pytest.raises(SparkError, match="no complete batch"):
        read_table(spark, str(path), "parquet")
