"""Values of records that do not fit their schema: each is rejected with the reason, and none is
changed, cut or accepted in part. The expected rows are the values as Python's json reads them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from kavka.spark_it.errors import SparkError
from kavka.spark_it.parsing import Parser, ValueOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCE: Final = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, "
    "headers array<struct<key:string,value:binary>>"
)
MOMENT: Final = datetime(2026, 1, 1, tzinfo=UTC)

SCHEMA: Final = {
    "type": "object",
    "properties": {
        "s": {"type": "string"},
        "d": {"type": "number"},
        "at": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date"},
        "place": {
            "type": "object",
            "required": ["x"],
            "properties": {
                "x": {"type": "number"},
                "n": {"type": "integer"},
                "in": {"properties": {"s": {"type": "string"}}},
            },
        },
        "objs": {
            "type": "array",
            "items": {
                "required": ["q"],
                "properties": {"q": {"type": "integer"}, "s": {"type": "string"}},
            },
        },
        "tags": {"type": "array", "items": {"type": "string"}},
        "days": {"type": "array", "items": {"type": "string", "format": "date"}},
        "more": {"type": "object", "additionalProperties": {"type": ["number", "null"]}},
        "grid": {"type": "array", "items": {"type": "array", "items": {"type": "boolean"}}},
    },
}

ACCEPTED: Final = (
    b"{}",
    b' {"s": "1.00", "unknown": {"s": 1}}\n',
    b'{"s": "] } , 0 {", "d": 1}',
    '{"s": "\u00e9 \\ud83d\\ude00 \\\\ud800 \\u00e9", "d": -2.5e-3}'.encode(),
    b'{"place": {"x": 1, "n": -9223372036854775808, "in": {"s": "t"}}, "objs": []}',
    b'{"place": {"x": 12345678901234567890123}, "objs": [{"q": 1, "s": "a"}, {"q": 2}]}',
    b'{"days": ["2024-02-29", null], "more": {"a": 0.1, "b": null, "c": 3}, "d": 1e300}',
    b'{"tags": ["a", null, ""], "grid": []}',
    b'{"tags": [null], "more": {}}',
    b'{"tags": [], "objs": [null]}',
    b'{"grid": [[true, false], []], "place": null, "s": null}',
    b'{"at": "2026-01-31T12:00:00Z", "day": "2026-01-31"}',
    b'{"at": "2026-01-31T12:00:00.123456000+02:00"}',
    b'{"at": "0001-01-02 00:00:00.5Z"}',
)

REJECTED: Final = {
    b'{"d": 1}{"d": 2}': "is not JSON",
    b'{"d": 1} garbage': "is not JSON",
    b'{"d": 1}, {"d": 2}': "is more than one document",
    b'{"d": 1}] garbage': "is not JSON",
    b'{"d": 1}, 0] garbage': "is more than one document",
    b'{"d": 1}} garbage': "is not JSON",
    b'{"d": 1}, "corrupt": null} garbage': "is not JSON",
    b"{'d': 1}": "is not JSON",
    b'{"d": NaN}': "is not JSON",
    b'\xef\xbb\xbf{"d": 1}': "is not JSON",
    '{"d": 1}'.encode("utf-16-le"): "is not JSON",
    b" ": "is not JSON",
    b"null": "is not an object",
    b'{"d": 1, "d": 2}': "has a field twice, or is too large",
    b'{"place": {"x": 1, "x": 2}}': "has a field twice, or is too large",
    b'{"s": "a\xffb"}': "is not UTF-8",
    b'{"s": "\\ud83d"}': "has an escape that is half a character",
    b'{"s": "\\\\\\ude00\\ud83d"}': "has an escape that is half a character",
    b'{"s": 1.00}': "s is not of type string",
    b'{"s": 12345678901234567890123.10}': "s is not of type string",
    b'{"s": {"x": 1}}': "s is not of type string",
    b'{"s": true}': "s is not of type string",
    b'{"d": 1e999}': "d is too large for a double",
    b'{"d": "NaN"}': "d is not of type double",
    b'{"d": "1"}': "d is not of type double",
    b'{"at": 1700000000000}': "at is not of type timestamp",
    b'{"at": "9223372036"}': "at is not of type timestamp",
    b'{"at": "12:00"}': "at is not of type timestamp",
    b'{"at": "2024-01-01"}': "at is not of type timestamp",
    b'{"at": "2024-01-01T00:00:00"}': "at is not of type timestamp",
    b'{"at": "2024-01-01T25:00:00Z"}': "at is not of type timestamp",
    b'{"at": "2024-01-01T00:00:00.123456789Z"}': "at is finer than a microsecond",
    b'{"day": 19000}': "day is not of type date",
    b'{"day": "2024-02-30"}': "day is not of type date",
    b'{"day": "2024-01-01T23:00:00"}': "day is not of type date",
    b'{"day": "2024-01"}': "day is not of type date",
    b'{"place": {"x": 1.0, "n": "wrong"}}': "place.n is not of type bigint",
    b'{"place": {"x": 1.5, "n": 9223372036854775808}}': "place.n is not of type bigint",
    b'{"place": {"x": 1.5, "n": 1.0}}': "place.n is not of type bigint",
    b'{"place": {"x": 1.5, "in": {"s": 5}}}': "place.in.s is not of type string",
    b'{"place": {"x": 1.5, "in": [{}]}}': "place.in is not of type struct<s:string>",
    b'{"place": {"n": 1}}': "place.x is required and missing",
    b'{"place": {"x": null}}': "place.x is required and missing",
    b'{"objs": [{"q": 1}, {"q": "x"}]}': "objs[].q is not of type bigint",
    b'{"objs": [{"q": 1}, {"q": 2, "s": 3}]}': "objs[].s is not of type string",
    b'{"objs": [{"q": 1}, {}]}': "objs[].q is required and missing",
    b'{"objs": {"q": 1}}': "objs is not of type array<struct<q:bigint,s:string>>",
    b'{"tags": ["a", 1]}': "tags[] is not of type string",
    b'{"tags": ["a", "b", {}]}': "tags[] is not of type string",
    b'{"days": ["2024-01-01", "2024-1-1"]}': "days[] is not of type date",
    b'{"more": {"a": 1, "b": "x"}}': "more.* is not of type double",
    b'{"more": {"a": 1, "b": -1e999}}': "more.* is too large for a double",
    b'{"more": []}': "more is not of type map<string,double>",
    b'{"grid": [[true], [false, 0]]}': "grid[][] is not of type boolean",
    b'{"grid": [[true], 1]}': "grid[] is not of type array<boolean>",
}


def parsed(
    spark: SparkSession, options: ValueOptions, values: Iterable[bytes]
) -> tuple[dict[bytes, dict[str, Any]], dict[bytes, str]]:
    """Rows by their value, and reasons of the rejects by theirs."""
    given = list(values)
    records = [(None, value, "t", 0, n, MOMENT, None) for n, value in enumerate(given)]
    found = Parser(options).parse(spark.createDataFrame(records, SOURCE))
    assert found.rejects is not None
    rows = {
        given[row["kafka"]["offset"]]: {
            name: part for name, part in row.asDict(recursive=True).items() if name != "kafka"
        }
        for row in found.rows.collect()
    }
    rejects = {bytes(row["value"]): row["reason"] for row in found.rejects.collect()}
    assert len(rows) + len(rejects) == len(given)
    return rows, rejects


def json_options(path: Path, schema: Mapping[str, Any]) -> ValueOptions:
    file = path / "schema.json"
    file.write_text(json.dumps(schema))
    return ValueOptions(value_format="json", schema_file=str(file))


def as_python_reads(value: bytes) -> dict[str, Any]:
    """The row that a value of SCHEMA gives."""
    document = json.loads(value, parse_int=float)  # as the columns are, but for bigint
    row: dict[str, Any] = {name: document.get(name) for name in SCHEMA["properties"]}
    if row["at"] is not None:
        moment = datetime.fromisoformat(row["at"].replace("000+", "+"))
        row["at"] = moment.astimezone(UTC).replace(tzinfo=None)
    row["day"] = row["day"] and date.fromisoformat(row["day"])
    row["days"] = row["days"] and [day and date.fromisoformat(day) for day in row["days"]]
    if row["place"] is not None:
        row["place"] = {"n": None, "in": None, **row["place"]}
    row["objs"] = row["objs"] and [part and {"s": None, **part} for part in row["objs"]]
    return row


def test_json_that_does_not_fit_is_rejected(spark: SparkSession, tmp_path: Path) -> None:
    rows, rejects = parsed(spark, json_options(tmp_path, SCHEMA), [*ACCEPTED, *REJECTED])
    assert rejects == REJECTED
    assert rows == {value: as_python_reads(value) for value in ACCEPTED}


def test_json_properties_of_any_name(spark: SparkSession, tmp_path: Path) -> None:
    names = ("we'ird", 'q"x', "a'b\"c", "a?b", "a.b", "a b", "a`b", "a\\b", "$[0]")
    schema = {"type": "object", "properties": {name: {"type": "integer"} for name in names}}
    good = [json.dumps({name: n}).encode() for n, name in enumerate(names)]
    bad = {json.dumps({name: "x"}).encode(): f"{name} is not of type bigint" for name in names}
    rows, rejects = parsed(spark, json_options(tmp_path, schema), [*good, *bad])
    assert rejects == bad
    assert rows == {value: dict.fromkeys(names) | json.loads(value) for value in good}


def test_json_schemas_whose_columns_collide(tmp_path: Path) -> None:
    for names, message in ((("Kafka",), "kafka"), (("id", "ID"), "two columns of the name ID")):
        schema = {"properties": {name: {"type": "integer"} for name in names}}
        with pytest.raises(SparkError, match=message):
            Parser(json_options(tmp_path, schema))


AVRO: Final = {
    "type": "record",
    "name": "Event",
    "fields": [
        {"name": "n", "type": ["null", "long"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}


def test_avro_is_a_whole_record_of_the_schema(spark: SparkSession, tmp_path: Path) -> None:
    """Bytes are written by hand, after Avro's specification."""
    file = tmp_path / "event.avsc"
    file.write_text(json.dumps(AVRO) + "  // as Avro allows it")
    nothing = b"\0\0"
    plain = b"\2\x08\4\2a\2b\0"
    in_sized_blocks = b"\2\x08\1\4\2a\1\4\2b\0"  # as some writers do; two bytes more for each
    wrong = [b"", b"\0", plain[:-1], plain + b"\0", plain + b"more", plain + plain, b"\4" + plain]
    accepted = {
        nothing: {"n": None, "tags": []},
        plain: {"n": 4, "tags": ["a", "b"]},
        in_sized_blocks: {"n": 4, "tags": ["a", "b"]},
    }
    options = ValueOptions(value_format="avro", schema_file=str(file))
    rows, rejects = parsed(spark, options, [*accepted, *wrong])
    assert rows == accepted
    assert rejects == dict.fromkeys(wrong, "does not match the Avro schema")

    options = ValueOptions(
        value_format="avro",
        schema_file=str(file),
        avro_framing="confluent",
        avro_schema_ids=("7", "4294967295"),
    )
    framed = {b"\0\0\0\0\7" + plain, b"\0\xff\xff\xff\xff" + plain}
    unframed = "does not begin with a zero byte and the id of a schema"
    expected = {
        b"\0\0\0\0\x08" + plain: "has the schema id 8",
        b"{\0\0\0\7" + plain: unframed,
        b"\0\0\0\7": unframed,
        b"": unframed,
        b"\0\0\0\0\7": "does not match the Avro schema",
        b"\0\0\0\0\7" + plain + b"more": "does not match the Avro schema",
    }
    rows, rejects = parsed(spark, options, [*framed, *expected])
    assert rows == dict.fromkeys(framed, accepted[plain])
    assert rejects == expected


def test_avro_schema_ids_are_checked(tmp_path: Path) -> None:
    for given, message in (
        ({"avro_schema_ids": ("7",)}, "avro_framing confluent"),
        ({"avro_schema_ids": ("x",), "avro_framing": "confluent"}, "avro_schema_ids: .*'x'"),
    ):
        with pytest.raises(SparkError, match=message):
            Parser(ValueOptions(value_format="avro", schema_file="event.avsc", **given))
