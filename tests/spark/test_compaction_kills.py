"""A compaction of a Parquet table that is killed before, in the middle of and after each of its
steps: no reader sees a record twice, and the next run sees each record once."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kavka.spark_it.tables import BatchId, Files, ParquetTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERY = "a3c1e1de-0000-4000-8000-000000000000"
BATCHES = 4
BATCH_RECORDS = 3
EXPECTED = Counter(range(BATCHES * BATCH_RECORDS))


class KilledError(Exception):
    """The process ended here."""


class DyingFiles(Files):
    """Files of a process that is killed when it changes something for the `steps`th time.

    With `halfway` the last change is done in part: a directory loses the first half of its files.
    """

    def __init__(self, spark: SparkSession, steps: int, *, halfway: bool) -> None:
        super().__init__(spark)
        self._left = steps
        self._halfway = halfway

    def _step(self, path: str | None = None) -> None:
        if self._left > 0:
            self._left -= 1
            return
        if self._halfway and path is not None:
            files = sorted(file for file in Path(path).rglob("*") if file.is_file())
            for file in files[: (len(files) + 1) // 2]:
                file.unlink()
        raise KilledError

    def delete(self, path: str) -> None:
        self._step(path)
        super().delete(path)

    def rename(self, source: str, target: str) -> None:
        self._step()
        super().rename(source, target)

    def write_text(self, path: str, text: str) -> None:
        self._step()
        super().write_text(path, text)


@pytest.fixture(scope="module")
def written(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of four batches."""
    path = tmp_path_factory.mktemp("written") / "table"
    table = ParquetTable(spark, str(path), [])
    for number in range(BATCHES):
        start = number * BATCH_RECORDS
        rows = spark.range(start, start + BATCH_RECORDS).selectExpr(
            "named_struct('topic', 't', 'partition', 0, 'offset', id) AS kafka"
        )
        table.write(rows, BatchId(QUERY, number))
    return path


def offsets_of(spark: SparkSession, path: Path) -> Counter[int]:
    """How often each record is there for any reader of Parquet."""
    rows = spark.read.schema("kafka struct<offset: long>").parquet(str(path)).collect()
    return Counter(row.kafka.offset for row in rows)


def die(spark: SparkSession, path: Path, steps: int, *, halfway: bool) -> bool:
    """Open and compact; whether it was killed on the way."""
    try:
        table = ParquetTable(spark, str(path), [], DyingFiles(spark, steps, halfway=halfway))
        table.compact()
    except KilledError:
        return True
    return False


@pytest.mark.parametrize("halfway", [pytest.param(False, marks=pytest.mark.whole), True])
def test_a_killed_compaction_loses_and_duplicates_nothing(
    spark: SparkSession, written: Path, tmp_path: Path, halfway: bool
) -> None:
    killed, steps = True, 0
    while killed:
        path = tmp_path / str(steps)
        shutil.copytree(written, path)
        killed = die(spark, path, steps, halfway=halfway)
        assert max(offsets_of(spark, path).values()) == 1
        if killed:
            die(spark, path, 1, halfway=halfway)  # the next run is killed early
            assert max(offsets_of(spark, path).values()) == 1
        table = ParquetTable(spark, str(path), [])
        assert offsets_of(spark, path) == EXPECTED
        table.compact()
        assert offsets_of(spark, path) == EXPECTED
        assert len(table.batches()) == 2  # the compacted ones and the newest
        steps += 1
    assert steps > BATCHES


def test_a_new_directory_that_was_not_written_whole_is_written_again(
    spark: SparkSession, written: Path, tmp_path: Path
) -> None:
    path = tmp_path / "table"
    shutil.copytree(written, path)
    assert die(spark, path, 0, halfway=False)
    (path / "_compacting" / "_SUCCESS").unlink()
    next((path / "_compacting").glob("*.parquet")).unlink()
    table = ParquetTable(spark, str(path), [])
    assert offsets_of(spark, path) == EXPECTED
    table.compact()
    assert offsets_of(spark, path) == EXPECTED
