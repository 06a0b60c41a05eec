"""Records in one form, whether they come from topics or from a table.

The form has the columns topic (text), partition (int), offset (long), timestamp (long, milliseconds
since 1970), key and value (binary), and headers (array of structs of key, a text, and value,
binary; null and an empty array are the same).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from kavka.spark_it.errors import SparkError
from kavka.spark_it.options import nearest

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.readwriter import DataFrameReader

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

REQUIRED: Final = ("partition", "offset")
"""What every table must have."""

COLUMNS_DOC: Final = (
    "where the table has topic, partition, offset, timestamp, key, value and headers, if not where "
    "the sink pipeline puts them: SQL expressions over its columns"
)
COLUMNS_EXAMPLE: Final = "value=to_json(struct(id, name))"


def of_topics(source: DataFrame) -> DataFrame:
    """The rows of Spark's Kafka source (read with `includeHeaders`) in the form."""
    return source.select(*[_column(source, name, name) for name in TYPES])


def of_table(
    table: DataFrame,
    columns: Mapping[str, str],
    *,
    where: str | None = None,
    source: str = "table",
    needed: Sequence[str] = (),
    option: str = "columns",
) -> DataFrame:
    """The rows of a table in the form; of those only for which `where` (SQL) holds.

    `columns` has SQL expressions by the names of the form, over the table's columns; the others are
    where the sink pipeline puts them. What the table does not have is null, but for what is
    `needed`, and for partition and offset, without which a record has no place: SparkError, as for
    an expression that Spark refuses. Texts become bytes as UTF-8; a timestamp may also be a number
    of milliseconds. `source` and `option` name the table and `columns` in errors.
    """
    for name in columns:
        if name not in TYPES:
            raise SparkError(
                f"{option}: a record has no {name}{nearest(name, TYPES)}: {', '.join(TYPES)}"
            )
    if where is not None:
        _check(table, where, f"{source}: where")
        table = table.where(where)

    def expression(name: str) -> str:
        if name in columns:
            _check(table, columns[name], f"{source}: {option}.{name}")
            return columns[name]
        if _resolves(table, SINK_COLUMNS[name]):
            return SINK_COLUMNS[name]
        if name not in (*REQUIRED, *needed):
            return "null"
        null = "" if name in REQUIRED else f", or that it has none ({option}.{name}=null)"
        raise SparkError(
            f"{source}: no column {SINK_COLUMNS[name]}: say in {option}.{name} where the table has "
            f"the {name} of a record{null}"
        )

    return table.select(*[_column(table, name, expression(name)) for name in TYPES])


def read_table(spark: SparkSession, path: str, format: str) -> DataFrame:
    """A table in a directory, as it is now: what is added later is not in it, however often the
    frame is read. SparkError when it is not there or of another format."""
    from pyspark.errors import PySparkException

    from kavka.spark_it.running import reason

    reader = spark.read.format(format)
    try:
        if format == "parquet":
            return _read_parquet(spark, reader.option("mergeSchema", "true"), path)
        reader.load(path)  # else it is the history that is not there
        return reader.option("versionAsOf", _version(spark, path)).load(path)
    except PySparkException as failure:
        raise SparkError(
            f"the table {path} cannot be read as {format}: {reason(failure)}"
        ) from failure


def _version(spark: SparkSession, path: str) -> int:
    """The newest version of a table of Delta Lake."""
    from kavka.spark_it.delta_tables import table_name

    (newest,) = spark.sql(f"DESCRIBE HISTORY {table_name(path)} LIMIT 1").collect()
    return int(newest["version"])


def _read_parquet(spark: SparkSession, reader: DataFrameReader, path: str) -> DataFrame:
    """The files in a directory; of the sink's batches only the complete ones, as the others will be
    written again."""
    from kavka.spark_it.sessions import is_connect
    from kavka.spark_it.tables import COMPACTION, Files, batch_directories, is_complete

    if is_connect(spark):
        return reader.load(path)
    files = Files(spark)
    batches = batch_directories(files, path)
    if not batches:
        return reader.load(path)
    if files.exists(f"{path}/{COMPACTION}"):
        raise SparkError(
            f"the table {path} is being compacted, or its compaction was cut short: read it again "
            "later; the next run of its sink ends the compaction"
        )
    complete = [f"{path}/{name}" for name in batches if is_complete(files, f"{path}/{name}")]
    if not complete:
        raise SparkError(f"the table {path} has no complete batch: run its sink first")
    return reader.option("basePath", path).load(complete)


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


def _check(frame: DataFrame, expression: str, prefix: str) -> None:
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as f

    from kavka.spark_it.running import reason

    try:
        frame.select(f.expr(expression)).schema  # noqa: B018 (analysed when asked for its schema)
    except PySparkException as failure:
        raise SparkError(f"{prefix}: {expression!r}: {reason(failure)}") from failure
