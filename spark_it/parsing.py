"""Values of records as columns: raw, JSON with a schema, Avro with a schema.

What is parsed has the columns of the value and `kafka`, a struct of where the record came from:
topic, partition, offset, timestamp, key, headers. A record that does not parse has a reason
instead.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from kavka.spark_it import json_schema, json_values
from kavka.spark_it.errors import SparkError
from kavka.spark_it.expressions import check_distinct
from kavka.spark_it.options import option

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

PLACE: Final = "kafka"
"""The column of where a record came from."""

REASON: Final = "reason"
"""Of rejects: why it does not parse."""

VALUE: Final = "value"

PARSED: Final = "parsed"
"""Of a record that is judged: the struct of its value's columns."""

TOMBSTONE: Final = "has no value (a tombstone)"

AVRO_PREFIX_BYTES: Final = 5
"""In the form of Confluent's serializers: a zero byte and the schema's id, big-endian."""

READ: Final = "read"
"""Of an Avro value: the struct of what Spark reads."""

AVRO_FIELD: Final = "value"
AVRO_END: Final = "end"
AVRO_END_BYTES: Final = 16


@dataclass(frozen=True, kw_only=True)
class ValueOptions:
    """What values are."""

    value_format: str = option(
        "what the values are: raw keeps the bytes in a column `value`; json and avro give a column "
        "a field, by the schema",
        default="raw",
        choices=("raw", "json", "avro"),
    )
    schema_file: str | None = option(
        "the schema of the values: a file of JSON Schema or Avro",
        default=None,
        example="event.json",
    )
    avro_framing: str = option(
        "what precedes a value of avro: nothing, or the five bytes of Confluent's serializers; the "
        "schema is that of schema_file, a registry is not asked",
        default="none",
        choices=("none", "confluent"),
    )
    avro_schema_ids: tuple[str, ...] = option(
        "with avro_framing=confluent: the ids under which the registry has the schema of "
        "schema_file; records with other ids are rejected. Any id is taken for it if not set",
        default=(),
        example="7",
    )


class Parsed(NamedTuple):
    """A topic's records, parsed: each record is in one of the two."""

    rows: DataFrame
    """`kafka` and the value's columns."""
    rejects: DataFrame | None
    """`kafka`, `value` (the bytes) and `reason`; None when every value parses (raw)."""
    common: DataFrame
    """What both are made from, to be persisted by who reads both."""


def place() -> Column:
    """The struct of where a record came from, out of the columns of Spark's Kafka source."""
    from pyspark.sql import functions as f

    return f.struct("topic", "partition", "offset", "timestamp", "key", "headers").alias(PLACE)


class Parser:
    """Parses values as the options say; reads the schema once."""

    def __init__(self, options: ValueOptions) -> None:
        self._options = options
        self._schema_ids = _schema_ids(options)
        if options.value_format == "raw":
            if options.schema_file is not None:
                raise SparkError("schema_file is of value_format json and avro; this is raw")
            return
        if options.schema_file is None:
            raise SparkError(f"value_format {options.value_format} needs schema_file")
        if options.value_format == "json":
            self._schema = json_schema.read_schema(options.schema_file)
            self._check_names(self._schema.properties)
        else:
            self._avro_end = secrets.token_bytes(AVRO_END_BYTES)
            self._avro = _with_end(options.schema_file)

    @property
    def may_reject(self) -> bool:
        """Whether there are values that do not parse."""
        return self._options.value_format != "raw"

    def parse(self, records: DataFrame) -> Parsed:
        """`records` of Spark's Kafka source as rows and rejects."""
        from pyspark.sql import functions as f

        if not self.may_reject:
            rows = records.select(place(), VALUE)
            return Parsed(rows, None, rows)
        judged = self.judge(records)
        return Parsed(
            judged.where(f.col(REASON).isNull()).select(PLACE, f"{PARSED}.*"),
            judged.where(f.col(REASON).isNotNull()).select(PLACE, VALUE, REASON),
            judged,
        )

    def judge(self, records: DataFrame) -> DataFrame:
        """`records` of Spark's Kafka source, each with what became of it: the columns `kafka`,
        `value` (the bytes), `parsed` (a struct of the value's columns, for raw of the bytes) and
        `reason` (null when the value parses)."""
        from pyspark.sql import functions as f

        if not self.may_reject:
            never = f.lit(None).cast("string").alias(REASON)
            return records.select(place(), VALUE, f.struct(VALUE).alias(PARSED), never)
        records = records.select(place(), VALUE)
        if self._options.value_format == "json":
            read = json_values.parse(records, VALUE, self._schema)
            parsed, reason = json_values.parsed(), json_values.reason(VALUE, self._schema)
        else:
            read = records.withColumn(READ, self._read_avro())
            self._check_avro_type(read.schema[READ].dataType)
            parsed, reason = f.col(READ).getField(AVRO_FIELD), self._avro_reason()
        reason = f.when(f.col(VALUE).isNull(), TOMBSTONE).otherwise(reason)
        return read.select(PLACE, VALUE, parsed.alias(PARSED), reason.alias(REASON))

    def _read_avro(self) -> Column:
        """A struct of AVRO_FIELD and AVRO_END, both null if Spark cannot read the value.

        Spark reads a record and leaves the bytes behind it. So the value is followed by bytes that
        no value has, and they must be read as what follows the record.
        """
        from pyspark.sql import functions as f
        from pyspark.sql.avro.functions import from_avro

        value = f.col(VALUE)
        if self._options.avro_framing == "confluent":
            value = f.expr(f"substring({VALUE}, {AVRO_PREFIX_BYTES + 1})")
        whole = f.concat(value, f.lit(bytearray(self._avro_end)))
        return from_avro(whole, self._avro, {"mode": "PERMISSIVE"})

    def _avro_reason(self) -> Column:
        """Null, or why a value is not one of the schema."""
        from pyspark.sql import functions as f

        end = f.col(READ).getField(AVRO_END)
        whole = end.eqNullSafe(f.lit(bytearray(self._avro_end)))
        unmatched = f.when(~whole, "does not match the Avro schema")
        if self._options.avro_framing == "none":
            return unmatched
        prefix = f.expr(f"substring({VALUE}, 1, {AVRO_PREFIX_BYTES})")
        framed = (f.length(prefix) == AVRO_PREFIX_BYTES) & (
            f.expr(f"hex(substring({VALUE}, 1, 1))") == "00"
        )
        schema_id = f.conv(f.hex(prefix), 16, 10).cast("long")
        reason = f.when(~framed, "does not begin with a zero byte and the id of a schema")
        if self._schema_ids:
            wrong = f.concat(f.lit("has the schema id "), schema_id)
            reason = reason.when(~schema_id.isin(*self._schema_ids), wrong)
        return reason.otherwise(unmatched)

    def _check_avro_type(self, read: DataType) -> None:
        from pyspark.sql.types import StructType

        assert isinstance(read, StructType)
        schema = read[AVRO_FIELD].dataType
        if not isinstance(schema, StructType):
            raise SparkError(f"{self._options.schema_file}: the schema must be of a record")
        self._check_names(schema.fieldNames())

    @staticmethod
    def _check_names(names: Iterable[str]) -> None:
        names = tuple(names)
        check_distinct(names, "schema_file")
        if PLACE in (name.casefold() for name in names):  # as tables do, whatever the capitals
            raise SparkError(
                f"the schema has a field `{PLACE}`, the name of the column that says where a "
                "record came from"
            )


def _with_end(schema_file: str) -> str:
    """The Avro schema of a value that is followed by AVRO_END_BYTES bytes."""
    try:
        schema = Path(schema_file).read_text()  # as it is: Avro's parser takes comments, too
    except OSError as failure:
        raise SparkError(f"{schema_file}: {failure.strerror}") from failure
    return f"""{{"type": "record", "name": "KavkaWhole", "fields": [
        {{"name": "{AVRO_FIELD}", "type": {schema}
        }},
        {{"name": "{AVRO_END}", "type":
            {{"type": "fixed", "name": "KavkaEnd", "size": {AVRO_END_BYTES}}}
        }}
    ]}}"""


def _schema_ids(options: ValueOptions) -> tuple[int, ...]:
    if options.avro_schema_ids and options.avro_framing != "confluent":
        raise SparkError("avro_schema_ids are of avro_framing confluent; this is none")
    try:
        return tuple(int(text) for text in options.avro_schema_ids)
    except ValueError as failure:
        raise SparkError(f"avro_schema_ids: {failure}") from failure
