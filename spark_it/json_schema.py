"""JSON Schema as Spark's types: the part of the standard that says what a table's columns are.

object → struct (with only additionalProperties: map), array → array, string → string (format
date-time → timestamp, date → date), integer → bigint, number → double, boolean → boolean. A type
list with null and a required list say what may be missing; Spark's columns may all be null, so the
required ones are given apart. `$ref` to the same document is followed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kavka.spark_it.errors import SparkError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

DEPTH_MAX: Final = 64
"""Of nested types: a `$ref` to itself would never end."""


def read_schema(path: str) -> Mapping[str, Any]:
    """The document in a file. SparkError when it is not one of an object."""
    try:
        document = json.loads(Path(path).read_text())
    except OSError as failure:
        raise SparkError(f"{path}: {failure.strerror}") from failure
    except ValueError as failure:
        raise SparkError(f"{path} is not JSON: {failure}") from failure
    if not isinstance(document, dict):
        raise SparkError(f"{path}: a JSON Schema is an object")
    return document


def struct_type(document: Mapping[str, Any]) -> StructType:
    """The columns of a schema whose type is object. SparkError names what Spark has no type for."""
    from pyspark.sql.types import StructType

    found = _Converter(document).type_of(document, "$", 0)
    if not isinstance(found, StructType):
        raise SparkError("$: the values of a topic must be objects with properties")
    return found


def required(document: Mapping[str, Any]) -> tuple[str, ...]:
    """The properties at the top that must be there and not null."""
    names = document.get("required", ())
    properties = document.get("properties", {})
    return tuple(name for name in names if not _nullable(properties.get(name, {})))


def _nullable(schema: Mapping[str, Any]) -> bool:
    kinds = schema.get("type", ())
    return "null" in ([kinds] if isinstance(kinds, str) else kinds)


class _Converter:
    """Converts the types of one document."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document

    def type_of(self, schema: Any, path: str, depth: int) -> DataType:
        """Spark's type of the part of the document at `path`."""
        from pyspark.sql import types

        schema = self._resolved(schema, path, depth)
        kinds = schema.get("type", "object" if "properties" in schema else None)
        named = [kind for kind in ([kinds] if isinstance(kinds, str) else kinds or ()) if kind]
        named = [kind for kind in named if kind != "null"]
        if len(named) != 1:
            raise SparkError(f"{path}: a column needs one type, and the schema gives {kinds!r}")
        match named[0]:
            case "object":
                return self._object(schema, path, depth)
            case "array":
                items = self.type_of(schema.get("items", {}), f"{path}[]", depth + 1)
                return types.ArrayType(items)
            case "string":
                formats = {"date-time": types.TimestampType(), "date": types.DateType()}
                return formats.get(schema.get("format", ""), types.StringType())
            case "integer":
                return types.LongType()
            case "number":
                return types.DoubleType()
            case "boolean":
                return types.BooleanType()
        raise SparkError(f"{path}: {named[0]!r} is no type of JSON Schema")

    def _object(self, schema: Mapping[str, Any], path: str, depth: int) -> DataType:
        from pyspark.sql import types

        properties = schema.get("properties")
        if properties:
            return types.StructType(
                [
                    types.StructField(name, self.type_of(part, f"{path}.{name}", depth + 1))
                    for name, part in properties.items()
                ]
            )
        values = schema.get("additionalProperties")
        if isinstance(values, dict) and values:
            return types.MapType(types.StringType(), self.type_of(values, f"{path}.*", depth + 1))
        raise SparkError(f"{path}: an object needs properties, or additionalProperties with a type")

    def _resolved(self, schema: Any, path: str, depth: int) -> Mapping[str, Any]:
        if depth > DEPTH_MAX:
            raise SparkError(
                f"{path}: nested deeper than {DEPTH_MAX} (does a $ref lead to itself?)"
            )
        if not isinstance(schema, dict):
            raise SparkError(f"{path}: {schema!r} is not a schema")
        reference = schema.get("$ref")
        if reference is None:
            return schema
        if not isinstance(reference, str) or not reference.startswith("#/"):
            raise SparkError(f"{path}: $ref {reference!r} leads out of the document")
        found: Any = self._document
        for part in reference[2:].split("/"):
            name = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or name not in found:
                raise SparkError(f"{path}: $ref {reference!r} leads nowhere")
            found = found[name]
        return self._resolved(found, path, depth + 1)
