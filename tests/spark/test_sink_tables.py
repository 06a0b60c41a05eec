"""The sink's tables without a topic: what compaction keeps, and what is made of a batch that an
earlier run has begun."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from kavka.spark_it import batches
from kavka.spark_it.checkpoints import Plan, Span
from kavka.spark_it.errors import SparkError
from kavka.spark_it.tables import BatchId, ParquetTable, Table, open_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMATS: Final = ("delta", "parquet")
QUERY: Final = "a3c1e1de-0000-4000-8000-000000000000"
OTHER_QUERY: Final = "b4d2f2ef-0000-4000-8000-000000000000"
Place = tuple[str, int, int]
"""Topic, partition and offset."""


def batch(spark: SparkSession, offset: int, columns: str) -> DataFrame:
    """A row of a sink's table: its place, and columns as a SELECT has them."""
    place = f"named_struct('topic', 't', 'partition', 0, 'offset', {offset}L) AS kafka"
    return spark.sql(f"SELECT {place}, {columns}")


def at(spark: SparkSession, places: Iterable[Place]) -> DataFrame:
    """Rows that have only their places."""
    rows = [(place,) for place in places]
    return spark.createDataFrame(rows, "kafka struct<topic:string,partition:int,offset:bigint>")


def places(table: Table) -> list[Place]:
    found = table.places()
    return [] if found is None else sorted(tuple(row) for row in found.collect())


def test_compaction_keeps_columns_that_came_later(spark: SparkSession, tmp_path: Path) -> None:
    table = ParquetTable(spark, str(tmp_path), [])
    table.write(batch(spark, 0, "0 AS id"), BatchId(QUERY, 0))
    for number in (1, 2, 3):
        rows = batch(spark, number, f"{number} AS id, 'new{number}' AS later")
        table.write(rows, BatchId(QUERY, number))
    table.compact()
    assert len(list(tmp_path.glob("kafka_batch=*"))) == 2
    found = spark.read.option("mergeSchema", "true").parquet(str(tmp_path)).select("id", "later")
    expected = [(0, None), (1, "new1"), (2, "new2"), (3, "new3")]
    assert sorted(tuple(row) for row in found.collect()) == expected


def test_compaction_keeps_the_names_of_directories(spark: SparkSession, tmp_path: Path) -> None:
    """Texts that all look like numbers, or are null."""
    table = ParquetTable(spark, str(tmp_path), ["zip"])
    for number, text in enumerate(["01234", "00999", "7", None, "8"]):
        column = "CAST(NULL AS STRING)" if text is None else f"'{text}'"
        table.write(batch(spark, number, f"{column} AS zip"), BatchId(QUERY, number))
    before = {path.name for path in tmp_path.glob("*/zip=*")}
    table.compact()
    assert len(list(tmp_path.glob("kafka_batch=*"))) == 2
    assert {path.name for path in tmp_path.glob("*/zip=*")} == before
    assert "zip=01234" in before


def test_batches_whose_types_differ_are_not_compacted(spark: SparkSession, tmp_path: Path) -> None:
    table = ParquetTable(spark, str(tmp_path), [])
    for number, column in enumerate(("1 AS id", "'one' AS id", "'two' AS id")):
        table.write(batch(spark, number, column), BatchId(QUERY, number))
    assert "not compacted" in table.compact()
    assert places(table) == [("t", 0, 0), ("t", 0, 1), ("t", 0, 2)]


def tables(spark: SparkSession, kind: str, path: Path) -> tuple[Table, Table]:
    """Of rows and of rejects."""
    rows, rejects = (open_table(spark, kind, str(path / name), ()) for name in ("rows", "rejects"))
    return rows, rejects


FIRST_END: Final = {"t": {"0": 2, "1": 2}}
SECOND_END: Final = {"t": {"0": 5, "1": 3}}
FIRST: Final = BatchId(QUERY, 0, Span({"t": {"0": 0}}, FIRST_END))
SECOND: Final = BatchId(QUERY, 1, Span(FIRST_END, SECOND_END))


@pytest.mark.parametrize("kind", FORMATS)
def test_only_rejects_whose_batch_was_cut_short_are_removed(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    """The checkpoint is lost. A topic may have dropped the records that were rejected, and another
    topic's sink may write its rejects to the same table."""
    rows, rejects = tables(spark, kind, tmp_path)
    other = BatchId(OTHER_QUERY, 0, Span({"u": {"0": 0}}, {"u": {"0": 9}}))
    rejects.write(at(spark, [("t", 1, 0), ("t", 1, 1)]), FIRST)
    rows.write(at(spark, [("t", 0, 0), ("t", 0, 1)]), FIRST)
    assert batches.resume(rows, rejects, ["t"])["t"] == {0: 2, 1: 2}
    assert places(rejects) == [("t", 1, 0), ("t", 1, 1)]
    rejects.write(at(spark, [("t", 0, 3), ("t", 1, 2)]), SECOND)
    rejects.write(at(spark, [("u", 0, 8)]), other)
    assert batches.resume(rows, rejects, ["t"])["t"] == {0: 2, 1: 2}
    assert places(rejects) == [("t", 1, 0), ("t", 1, 1), ("u", 0, 8)]


@pytest.mark.parametrize("kind", FORMATS)
def test_a_batch_is_written_again_in_place_of_what_it_left(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    """Rejected was 3 at the first attempt, 4 at the second, which is cut short too, none at the
    third."""
    rows, rejects = tables(spark, kind, tmp_path)
    rejects.write(at(spark, [("t", 1, 1)]), FIRST)
    rows.write(at(spark, [("t", 0, 0)]), FIRST)
    rejects.write(at(spark, [("t", 0, 3)]), SECOND)
    plan = Plan(1, SECOND_END)
    for rejected in ([("t", 0, 4)], []):
        rows, rejects = tables(spark, kind, tmp_path)  # another run
        assert not batches.repeated(rows, QUERY, plan, "c").whole
        batches.discard(rows, rejects, SECOND)
        if rejected:
            rejects.write(at(spark, rejected), SECOND)
        assert places(rejects) == sorted([("t", 1, 1), *rejected])
    rows.write(at(spark, [("t", 0, 3), ("t", 0, 4)]), SECOND)
    assert places(rows) == [("t", 0, 0), ("t", 0, 3), ("t", 0, 4)]


@pytest.mark.parametrize("kind", FORMATS)
def test_a_checkpoint_older_than_the_table(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    rows, _ = tables(spark, kind, tmp_path)
    for plan in (FIRST, SECOND):
        rows.write(at(spark, [("t", 0, plan.number)]), plan)
    for number in (-1, 0):
        with pytest.raises(SparkError, match="older than the table"):
            batches.repeated(rows, QUERY, Plan(number, FIRST_END), "c")
    whole = batches.repeated(rows, QUERY, Plan(1, SECOND_END), "c").whole
    assert whole == (kind == "delta")  # a directory is overwritten
    assert not batches.repeated(rows, OTHER_QUERY, Plan(0, FIRST_END), "c").whole
    if kind == "delta":
        with pytest.raises(SparkError, match="with other offsets"):
            batches.repeated(rows, QUERY, Plan(1, {"t": {"0": 7, "1": 3}}), "c")


def test_what_a_backfill_left_when_it_was_killed(spark: SparkSession, tmp_path: Path) -> None:
    """Directories without _SUCCESS, which are data to other readers, and rejects without rows; but
    what the query of the checkpoint left stays for it."""
    rows, rejects = tables(spark, "parquet", tmp_path)
    for query in (QUERY, OTHER_QUERY):
        rejects.write(at(spark, [("t", 0, 0)]), BatchId(query, 0))
        rows.write(at(spark, [("t", 0, 1)]), BatchId(query, 0))
        Path(rows.path, f"kafka_batch={BatchId(query, 0).directory}", "_SUCCESS").unlink()
    batches.remove_unfinished(rows, rejects, ["t"], but_of=QUERY)
    for table in (rows, rejects):
        (left,) = Path(table.path).iterdir()
        assert left.name == f"kafka_batch={BatchId(QUERY, 0).directory}"
