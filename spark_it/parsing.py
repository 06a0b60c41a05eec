"""Values of records as columns: raw, JSON with a schema, Avro with a schema.

What is parsed has the columns of the value and `kafka`, a struct of where the record came from:
topic, partition, offset, timestamp, key, headers. A record that does not parse has a reason
instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from kavka.spark_it import json_schema
from kavka.spark_it.errors import SparkError
from kavka.spark_it.options import option

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

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
        if options.value_format == "raw":
            if options.schema_file is not None:
                raise SparkError("schema_file is of value_format json and avro; this is raw")
            return
        if options.schema_file is None:
            raise SparkError(f"value_format {options.value_format} needs schema_file")
        if options.value_format == "json":
            self._document = json_schema.read_schema(options.schema_file)
            self._type = json_schema.struct_type(self._document)
            self._check_names(self._type.fieldNames())
        else:
            try:
                self._avro = Path(options.schema_file).read_text()
            except OSError as failure:
                raise SparkError(f"{options.schema_file}: {failure.strerror}") from failure

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
        parsed = records.select(place(), VALUE, self._parse().alias(PARSED))
        if self._options.value_format == "json":
            reason = self._json_reason()
        else:
            reason = self._avro_reason(records)
        reason = f.when(f.col(VALUE).isNull(), TOMBSTONE).otherwise(reason)
        return parsed.withColumn(REASON, reason)

    def _parse(self) -> Column:
        from pyspark.sql import functions as f

        if self._options.value_format == "json":
            return f.from_json(f.col(VALUE).cast("string"), self._type, {"mode": "PERMISSIVE"})
        from pyspark.sql.avro.functions import from_avro

        return from_avro(self._avro_value(), self._avro, {"mode": "PERMISSIVE"})

    def _avro_value(self) -> Column:
        from pyspark.sql import functions as f

        if self._options.avro_framing == "confluent":
            return f.expr(f"substring({VALUE}, {AVRO_PREFIX_BYTES + 1})")
        return f.col(VALUE)

    def _avro_reason(self, records: DataFrame) -> Column:
        """Null, or that a value is not of the schema.

        Spark gives a row of nulls for such a value. It is also what a record of nulls gives, if
        every field may be null; its bytes are those that Spark writes.
        """
        from pyspark.sql import functions as f
        from pyspark.sql.avro.functions import from_avro, to_avro
        from pyspark.sql.types import StructType

        strict = from_avro(f.col(VALUE), self._avro, {"mode": "FAILFAST"})  # keeps what may be null
        schema = records.select(strict.alias(PARSED)).schema[PARSED].dataType
        if not isinstance(schema, StructType):
            raise SparkError(f"{self._options.schema_file}: the schema must be of a record")
        self._check_names(schema.fieldNames())
        parsed = f.col(PARSED)
        wrong = f.lit(True)
        for field in schema.fields:
            wrong = wrong & parsed.getField(field.name).isNull()
        if all(field.nullable for field in schema.fields):
            wrong = wrong & (to_avro(parsed, self._avro) != self._avro_value())
        return f.when(wrong, "does not match the Avro schema")

    def _json_reason(self) -> Column:
        """Null, or why a text is no such object.

        Spark gives null for a field of another type than the schema's, and for one that is not
        there. The text itself, parsed without a schema, shows which it is.
        """
        from pyspark.sql import functions as f

        text = f.col(VALUE).cast("string")
        variant = f.try_parse_json(text)
        reason = f.when(variant.isNull(), "is not JSON")
        reason = reason.when(~f.schema_of_variant(variant).startswith("OBJECT"), "is not an object")
        must = set(json_schema.required(self._document))
        for field in self._type.fields:
            given = f.try_variant_get(variant, _path(field.name), "variant")
            there = given.isNotNull() & (f.schema_of_variant(given) != "VOID")
            column = f.col(PARSED).getField(field.name)
            wrong = f"{field.name} is not of type {field.dataType.simpleString()}"
            reason = reason.when(there & column.isNull(), wrong)
            if field.name in must:
                reason = reason.when(~there, f"{field.name} is required and missing")
        return reason

    @staticmethod
    def _check_names(names: list[str]) -> None:
        if PLACE in names:
            raise SparkError(
                f"the schema has a field `{PLACE}`, the name of the column that says where a "
                "record came from"
            )


def _path(name: str) -> str:
    """A field of an object in Spark's path language, whatever its name is."""
    escaped = name.replace("'", "\\'")
    return f"$['{escaped}']"
