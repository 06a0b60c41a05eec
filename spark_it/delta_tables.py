"""Tables of Delta Lake whose rows change: by SQL alone, so that it works on Spark Connect too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def table_name(path: str) -> str:
    """A table at a path, as SQL names it."""
    return f"delta.{quoted(path)}"


def quoted(name: str) -> str:
    """A name of SQL, whatever it has in it."""
    return "`" + name.replace("`", "``") + "`"


def properties(spark: SparkSession, path: str) -> dict[str, str] | None:
    """The properties of a table of Delta; None if there is none at the path."""
    from pyspark.errors import AnalysisException

    try:
        (row,) = spark.sql(f"DESCRIBE DETAIL {table_name(path)}").collect()
    except AnalysisException as failure:
        if "DELTA_MISSING_DELTA_TABLE" in str(failure):
            return None
        raise
    return dict(row["properties"])


def create(spark: SparkSession, path: str, schema: StructType, own: dict[str, str]) -> None:
    """Create an empty table with properties of its own."""
    writer = spark.createDataFrame([], schema).writeTo(table_name(path)).using("delta")
    for name, value in own.items():
        writer = writer.tableProperty(name, value)
    writer.create()


def create_if_missing(rows: DataFrame, path: str) -> None:
    """Create an empty table with the columns of `rows`, unless there is one."""
    rows.limit(0).write.format("delta").mode("ignore").save(path)


def merge(rows: DataFrame, path: str, condition: str, clauses: Sequence[str]) -> None:
    """MERGE `rows`, as `s`, into the table at `path`, as `t`.

    `rows` are computed once, and all of them even when there are none: state that a stream keeps
    is written by that computation.
    """
    view = "kavka_changes"
    rows.persist()
    try:
        if rows.count():
            rows.createOrReplaceTempView(view)
            statement = f"MERGE INTO {table_name(path)} t USING {view} s ON {condition}"
            rows.sparkSession.sql(" ".join([statement, *clauses])).collect()
    finally:
        rows.unpersist()


def upsert(rows: DataFrame, path: str, keys: Sequence[str]) -> None:
    """Insert rows, or replace those that have the same values in the columns `keys`.

    The table is created when it is missing. Done twice it changes nothing more.
    """
    create_if_missing(rows, path)
    condition = " AND ".join(f"t.{quoted(key)} <=> s.{quoted(key)}" for key in keys)
    merge(
        rows,
        path,
        condition,
        ["WHEN MATCHED THEN UPDATE SET *", "WHEN NOT MATCHED THEN INSERT *"],
    )
