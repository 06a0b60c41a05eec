"""JSON Schema as Spark's types: the part of the standard that says what a table's columns are.

object → struct (with only additionalProperties: map), array → array, string → string (format
date-time → timestamp, date → date), integer → bigint, number → double, boolean → boolean. A
property may be missing or null unless `required` names it, and null even then if its type list has
null. `$ref` to the same document is followed. Other keywords (minimum, pattern, enum) are not read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from kavka.spark_it.errors import SparkError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

DEPTH_MAX: Final = 64
"""Of nested types: a `$ref` to itself would never end."""

Kind: TypeAlias = Literal[
    "object", "map", "array", "string", "date-time", "date", "integer", "number", "boolean"
]


@dataclass(frozen=True, kw_only=True)
class Part:
    """What a schema says of one value."""

    kind: Kind
    nullable: bool = False
    """Whether the type list has null."""
    properties: Mapping[str, Part] = field(default_factory=dict)
    """Of an object, in the schema's order."""
    required: frozenset[str] = frozenset()
    """Of an object: the properties that must be there."""
    items: Part | None = None
    """Of an array its items, of a map its values."""

    def data_type(self) -> DataType:
        """Spark's type of such a value."""
        from pyspark.sql import types

        match self.kind:
            case "object":
                parts = self.properties.items()
                return types.StructType(
                    [types.StructField(name, part.data_type()) for name, part in parts]
                )
            case "array":
                assert self.items is not None
                return types.ArrayType(self.items.data_type())
            case "map":
                assert self.items is not None
                return types.MapType(types.StringType(), self.items.data_type())
            case "string":
                return types.StringType()
            case "date-time":
                return types.TimestampType()
            case "date":
                return types.DateType()
            case "integer":
                return types.LongType()
            case "number":
                return types.DoubleType()
            case "boolean":
                return types.BooleanType()


def read_schema(path: str) -> Part:
    """The schema in a file. SparkError when it is none of objects with properties, with the place
    of what Spark has no type for."""
    try:
        document = json.loads(Path(path).read_text())
    except OSError as failure:
        raise SparkError(f"{path}: {failure.strerror}") from failure
    except ValueError as failure:
        raise SparkError(f"{path} is not JSON: {failure}") from failure
    if not isinstance(document, dict):
        raise SparkError(f"{path}: a JSON Schema is an object")
    found = _Converter(document).part_of(document, "$", 0)
    if found.kind != "object":
        raise SparkError("$: the values of a topic must be objects with properties")
    return found


class _Converter:
    """Converts the parts of one document."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document

    def part_of(self, schema: Any, path: str, depth: int) -> Part:
        """What the document says at `path`."""
        schema = self._resolved(schema, path, depth)
        kinds = schema.get("type", "object" if "properties" in schema else None)
        named = [kind for kind in ([kinds] if isinstance(kinds, str) else kinds or ()) if kind]
        nullable = "null" in named
        named = [kind for kind in named if kind != "null"]
        if len(named) != 1:
            raise SparkError(f"{path}: a column needs one type, and the schema gives {kinds!r}")
        match named[0]:
            case "object":
                return self._object(schema, path, depth, nullable=nullable)
            case "array":
                items = self.part_of(schema.get("items", {}), f"{path}[]", depth + 1)
                return Part(kind="array", nullable=nullable, items=items)
            case "string":
                given = schema.get("format", "")
                kind: Kind = given if given in ("date-time", "date") else "string"
                return Part(kind=kind, nullable=nullable)
            case "integer" | "number" | "boolean" as kind:
                return Part(kind=kind, nullable=nullable)
        raise SparkError(f"{path}: {named[0]!r} is no type of JSON Schema")

    def _object(self, schema: Mapping[str, Any], path: str, depth: int, *, nullable: bool) -> Part:
        properties = schema.get("properties")
        if properties:
            parts = {
                name: self.part_of(part, f"{path}.{name}", depth + 1)
                for name, part in properties.items()
            }
            required = frozenset(schema.get("required", ())) & parts.keys()
            return Part(kind="object", nullable=nullable, properties=parts, required=required)
        values = schema.get("additionalProperties")
        if isinstance(values, dict) and values:
            items = self.part_of(values, f"{path}.*", depth + 1)
            return Part(kind="map", nullable=nullable, items=items)
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
