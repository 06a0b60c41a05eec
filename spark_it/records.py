"""Records in one form, whether they come from topics or from a table.

The form has the columns topic (text), partition (int), offset (long), timestamp (long, milliseconds
since 1970), key and value (binary), and headers (array of structs of key, a text, and value,
binary; null and an empty array are the same).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from kavka.spark_it.errors import SparkError
from kavka.spark_it.options import nearest

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

HEADERS: Final = "array<struct<key:string,value:binary>>"

TYPES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "topic": "string",
        "partition": "int",
        "offset": "bigint",
        "timestamp": "bigint",
        "key": "binary",
        "value": "binary",
        "headers": HEADERS,
    }
)
"""The columns of the form, and their types."""

SINK_COLUMNS: Final[Mapping[str, str]] = MappingProxyType(
    {name: "value" if name == "value" else f"kafka.{name}" for name in TYPES}
)
"""Where the tables of the pipeline `sink` have them."""

COLUMNS_DOC: Final = (
    "where the table has topic, partition, offset, timestamp, key, value and headers, if not where "
    "the sink pipeline puts them: SQL expressions over its columns"
)
COLUMNS_EXAMPLE: Final = "value=to_json(struct(id, name))"


def of_topics(source: DataFrame) -> DataFrame:
    """The rows of Spark's Kafka source (read with `includeHeaders`) in the form."""
    return source.select(*[_column(source, name, name) for name in TYPES])


def of_table(
    table: DataFrame, columns: Mapping[str, str], *, where: str | None = None, source: str = "table"
) -> DataFrame:
    """The rows of a table in the form; of those only for which `where` (SQL) holds.

    `columns` has SQL expressions by the names of the form, over the table's columns; the others are
    where the sink pipeline puts them. What the table does not have is null, but for partition and
    offset, without which a record has no place: SparkError, as for an expression that Spark
    refuses. Texts become bytes as UTF-8; a timestamp may also be a number of milliseconds.
    """
    for name in columns:
        if name not in TYPES:
            raise SparkError(
                f"columns: a record has no {name}{nearest(name, TYPES)}: {', '.join(TYPES)}"
            )
    if where is not None:
        _check(table, where, f"{source}: where")
        table = table.where(where)
    return table.select(*[_table_column(table, name, columns, source) for name in TYPES])


def read_table(spark: SparkSession, path: str, format: str) -> DataFrame:
    """A table in a directory. SparkError when it is not there or of another format."""
    from pyspark.errors import PySparkException

    from kavka.spark_it.running import reason

    try:
        return spark.read.format(format).load(path)
    except PySparkException as failure:
        raise SparkError(
            f"the table {path} cannot be read as {format}: {reason(failure)}"
        ) from failure


def _table_column(table: DataFrame, name: str, columns: Mapping[str, str], source: str) -> Column:
    from pyspark.sql import functions as f

    if name in columns:
        _check(table, columns[name], f"{source}: columns.{name}")
        return _column(table, name, columns[name])
    if not _resolves(table, SINK_COLUMNS[name]):
        if name in ("partition", "offset"):
            raise SparkError(
                f"{source}: no column {SINK_COLUMNS[name]}: say in columns.{name} where the table "
                f"has the {name} of a record"
            )
        return f.lit(None).cast(TYPES[name]).alias(name)
    return _column(table, name, SINK_COLUMNS[name])


def _column(frame: DataFrame, name: str, expression: str) -> Column:
    from pyspark.sql import functions as f
    from pyspark.sql.types import TimestampNTZType, TimestampType

    column = f.expr(expression)
    if name == "timestamp":
        kind = frame.select(column.alias(name)).schema[name].dataType
        if isinstance(kind, (TimestampType, TimestampNTZType)):
            column = f.unix_millis(column.cast("timestamp"))
    return column.cast(TYPES[name]).alias(name)


def _resolves(frame: DataFrame, expression: str) -> bool:
    try:
        _check(frame, expression, "")
    except SparkError:
        return False
    return True


def _check(frame: DataFrame, expression: str, what: str) -> None:
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as f

    from kavka.spark_it.running import reason

    try:
        frame.select(f.expr(expression)).schema  # noqa: B018 (analysed when asked for its schema)
    except PySparkException as failure:
        raise SparkError(f"{what}: {expression!r}: {reason(failure)}") from failure
