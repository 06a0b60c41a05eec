"""JSON values as columns, and why a value is none of its schema.

Spark's `from_json` is lenient: it reads the first document of a text and leaves the rest, turns a
number into a text or a time, completes a time with today's date, cuts a time off a date, and keeps
what it could read of a nested part. So the text is parsed a second time, without a schema, as a
variant; that one is strict JSON and keeps the types that were given, which are compared with the
schema's, part by part.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from kavka.spark_it.json_schema import Part

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

DOCUMENT: Final = "document"
"""The column of what from_json reads: a struct of FIELD and CORRUPT."""

VARIANT: Final = "variant"
"""The column of the strict parse: an array, because the text was put in brackets."""

FIELD: Final = "value"

CORRUPT: Final = "corrupt"
"""The whole text if anything in it did not fit, however deep; else null."""

OPTIONS: Final = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": CORRUPT,
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
}

PLAIN_NAME: Final = re.compile(r"[^'?]+")
"""Names that Spark's path language can have in quotes."""

TO_THE_SECOND: Final = r"^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d"
ZONE: Final = r"([Zz]|[+-]\d\d:\d\d)\z"
FORMS: Final = {
    "date-time": TO_THE_SECOND + r"(\.\d{1,6}0*)?" + ZONE,
    "date": r"^\d{4}-\d\d-\d\d\z",
}
"""Of RFC 3339, as JSON Schema has them, but for times that Spark would cut."""
FINER_THAN_MICROSECONDS: Final = TO_THE_SECOND + r"\.\d+" + ZONE

KINDS: Final = {
    "object": "OBJECT",
    "map": "OBJECT",
    "string": "STRING",
    "integer": "BIGINT",
    "number": "BIGINT|DECIMAL|DOUBLE",
    "boolean": "BOOLEAN",
}
"""How `schema_of_variant` begins, by the kind of JSON Schema."""

ESCAPE_OF_HALF: Final = r"\\u[dD][89a-fA-F]"
"""A character beyond U+FFFF is two escapes; one of them alone is no character."""
ESCAPES_OF_BOTH: Final = r"\\u[dD][89abAB]..\\u[dD][c-fC-F].."
OTHER_ESCAPE: Final = r"\\[^u]"


def parse(records: DataFrame, value: str, schema: Part) -> DataFrame:
    """`records` with the columns DOCUMENT and VARIANT, of the bytes in the column `value`.

    Each is made of the text between other delimiters: brackets, and a field's. What is well-formed
    in both has no delimiter too many, so that it is one or several whole documents.
    """
    from pyspark.sql import functions as f

    text = f.col(value).cast("string")
    return records.select(
        "*",
        _from_json(text, schema.data_type()).alias(DOCUMENT),
        f.try_parse_json(f.concat(f.lit("["), text, f.lit("]"))).alias(VARIANT),
    )


def parsed() -> Column:
    """Of `parse`: the struct of the schema's columns."""
    from pyspark.sql import functions as f

    return f.col(DOCUMENT).getField(FIELD)


def reason(value: str, schema: Part) -> Column:
    """Of `parse`: null, or why the text is no object of the schema.

    Most values fit, so most of the checks are made only where from_json or the strict parse found
    something; of the others, only those that from_json does not make.
    """
    from pyspark.sql import functions as f

    text = f.col(value).cast("string")
    corrupt = f.col(DOCUMENT).getField(CORRUPT)
    return (
        f.when(~f.is_valid_utf8(text), "is not UTF-8")
        .when(f.col(VARIANT).isNull() | corrupt.isNotNull(), _misfit(text, schema))
        .when(parsed().isNull(), "is not an object")
        .when(_has_half_a_character(text), "has an escape that is half a character")
        .otherwise(f.coalesce(*_unseen(schema, _Place(f.col(VARIANT), "$[0]"), ""), f.lit(None)))
    )


def _misfit(text: Column, schema: Part) -> Column:
    """Why a text was not accepted by both parsers (as JSON, and by the schema)."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import StringType

    variant = f.col(VARIANT)
    first = _Place(variant, "$[0]")
    well_formed = _from_json(f.concat(f.lit("["), text, f.lit("]")), StringType())
    is_json = well_formed.getField(CORRUPT).isNull()
    return (
        f.when(variant.isNull() & is_json, "has a field twice, or is too large")
        .when(variant.isNull() | first.given().isNull(), "is not JSON")
        .when(_Place(variant, "$[1]").given().isNotNull(), "is more than one document")
        .when(~first.kind().startswith("OBJECT"), "is not an object")
        .otherwise(
            f.coalesce(
                *_mistakes(schema, first, ""),
                f.when(is_json, "does not match the JSON Schema").otherwise("is not JSON"),
            )
        )
    )


def _from_json(text: Column, kind: DataType) -> Column:
    from pyspark.sql import functions as f
    from pyspark.sql.types import StringType, StructType

    whole = f.concat(f.lit(f'{{"{FIELD}":'), text, f.lit("}"))
    return f.from_json(whole, StructType().add(FIELD, kind).add(CORRUPT, StringType()), OPTIONS)


def _has_half_a_character(text: Column) -> Column:
    """Whether a JSON text has an escape that Spark would replace by a question mark."""
    from pyspark.sql import functions as f

    rest = f.regexp_replace(text, OTHER_ESCAPE, " ")
    rest = f.regexp_replace(rest, ESCAPES_OF_BOTH, " ")
    return f.when(text.rlike(ESCAPE_OF_HALF), rest.rlike(ESCAPE_OF_HALF)).otherwise(False)


class _Place(NamedTuple):
    """A value within a variant."""

    variant: Column
    path: str

    def get(self, kind: str) -> Column:
        """The value as a type of Spark; null if it is not there or has no such form."""
        from pyspark.sql import functions as f

        return f.try_variant_get(self.variant, self.path, kind)

    def given(self) -> Column:
        """The value as it was given; null if it is not there."""
        return self.get("variant")

    def kind(self) -> Column:
        """The name of the type that was given, VOID for null; null if it is not there."""
        from pyspark.sql import functions as f

        return f.schema_of_variant(self.given())

    def is_value(self) -> Column:
        """Whether it is there and not null."""
        from pyspark.sql import functions as f

        given = self.given()
        return given.isNotNull() & ~f.is_variant_null(given)

    def field(self, name: str) -> _Place:
        """A field of an object, whatever its name is."""
        if PLAIN_NAME.fullmatch(name):
            return _Place(self.variant, f"{self.path}['{name}']")
        return _Place(self.get("map<string,variant>").getItem(name), "$")


Find: TypeAlias = "Callable[[Part, _Place, str], Iterator[Column]]"


def _mistakes(part: Part, place: _Place, name: str) -> Iterator[Column]:
    """Columns of which each is null or says what is wrong at `place` or within it; a value that is
    missing or null is no mistake here."""
    from pyspark.sql import functions as f

    spark_type = part.data_type().simpleString()
    kinds = KINDS.get(part.kind)
    if kinds is not None:
        wrong = ~place.kind().rlike(f"^({kinds}|VOID)")
    elif part.kind == "array":
        wrong = place.is_value() & place.get("array<variant>").isNull()
    else:  # a time
        wrong = place.is_value() & place.get(spark_type).isNull()
    yield f.when(wrong, f"{name} is not of type {spark_type}")
    yield from _within(part, place, name, _mistakes)


def _unseen(part: Part, place: _Place, name: str) -> Iterator[Column]:
    """As `_mistakes`, but only those that from_json does not see."""
    from pyspark.sql import functions as f

    if _sees_all(part):
        return
    if part.kind == "string":
        wrong = ~place.kind().isin("STRING", "VOID")
        yield f.when(wrong, f"{name} is not of type string")
    if part.kind == "array" and part.items is not None and part.items.kind == "string":
        wrong = ~place.kind().isin("ARRAY<STRING>", "ARRAY<VOID>", "VOID")
        yield f.when(wrong, f"{name}[] is not of type string")
        return
    yield from _within(part, place, name, _unseen)


def _sees_all(part: Part) -> bool:
    """Whether from_json sees all that can be wrong with such values."""
    match part.kind:
        case "object":
            return not part.required and all(map(_sees_all, part.properties.values()))
        case "array" | "map":
            return part.items is not None and _sees_all(part.items)
        case kind:
            return kind in ("integer", "boolean")


def _within(part: Part, place: _Place, name: str, find: Find) -> Iterator[Column]:
    """What is wrong with the value but not its type, and, by `find`, with what it consists of."""
    from pyspark.sql import functions as f

    match part.kind:
        case "object":
            for field, inner in part.properties.items():
                inside, inner_name = place.field(field), f"{name}.{field}" if name else field
                if field in part.required:
                    missing = inside.given().isNull() if inner.nullable else ~inside.is_value()
                    there = place.is_value() if name else f.lit(True)
                    yield f.when(there & missing, f"{inner_name} is required and missing")
                yield from find(inner, inside, inner_name)
        case "array" if part.items is not None:
            yield _first(part.items, place.get("array<variant>"), f"{name}[]", find)
        case "map" if part.items is not None:
            values = f.map_values(place.get("map<string,variant>"))
            yield _first(part.items, values, f"{name}.*", find)
        case "number":
            infinite = place.get("double").isin(float("inf"), float("-inf"))
            yield f.when(infinite, f"{name} is too large for a double")
        case "date-time" | "date" as kind:  # what is not a text does not look like one either
            text = place.get("string")
            wrong = f.lit(f"{name} is not of type {part.data_type().simpleString()}")
            if kind == "date-time":
                finer = text.rlike(FINER_THAN_MICROSECONDS)
                wrong = f.when(finer, f"{name} is finer than a microsecond").otherwise(wrong)
            yield f.when(~text.rlike(FORMS[kind]), wrong)


def _first(part: Part, items: Column, name: str, find: Find) -> Column:
    """What is wrong with the first of `items` (an array of variants) that is none of `part`."""
    from pyspark.sql import functions as f

    found = f.transform(items, lambda item: f.coalesce(*find(part, _Place(item, "$"), name)))
    return f.get(f.filter(found, lambda mistake: mistake.isNotNull()), f.lit(0))
