"""Options of pipelines: from TOML, from the command line, and into the commented example."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kavka.spark_it import example
from kavka.spark_it.errors import SparkError
from kavka.spark_it.options import NO_TEXTS, build, converted, option, read_file, rows


@dataclass(frozen=True, kw_only=True)
class Options:
    """One option of each kind."""

    topic: str = option("the topic", example="events")
    rate: float = option("records a second", default=0.0)
    count: int = option("how many", default=7)
    follow: bool = option("go on", default=False)
    columns: tuple[str, ...] = option("which columns", default=(), example="a, b")
    output: str | None = option("where to", default=None)
    mode: str = option("how", default="append", choices=("append", "update"))
    kafka: Mapping[str, str] = option(
        "settings of the clients", default=NO_TEXTS, example="security.protocol=SASL_SSL"
    )


def test_values_of_toml_and_of_the_command_line_are_the_same() -> None:
    toml = {
        "topic": "t",
        "rate": 1,
        "count": 3,
        "follow": True,
        "columns": ["a", "b"],
        "mode": "update",
        "kafka": {"security": {"protocol": "SSL"}, "retries": 3, "acks.x": True},
    }
    texts = {
        "topic": "t",
        "rate": "1",
        "count": "3",
        "follow": "true",
        "columns": "a, b",
        "mode": "update",
        "kafka": ["security.protocol=SSL", "retries=3", "acks.x=true"],
    }
    assert build(Options, toml) == build(Options, texts)
    expected = {"security.protocol": "SSL", "retries": "3", "acks.x": "true"}
    assert build(Options, toml).kafka == expected


def test_dashes_are_underscores() -> None:
    @dataclass(frozen=True)
    class Two:
        max_rows: int = option("at most", default=0)

    assert build(Two, {"max-rows": 5}).max_rows == 5


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"topc": "t"}, "x.toml: unknown option topc, did you mean topic?"),
        ({"zzz": 1}, "x.toml: unknown option zzz"),
        ({"topic": 5}, "x.toml: topic: 5 is not a text"),
        ({"count": 1.5}, "x.toml: count: 1.5 is not a whole number"),
        ({"count": True}, "x.toml: count: True is not a whole number"),
        ({"count": "many"}, "x.toml: count: 'many' is not a whole number"),
        ({"rate": "fast"}, "x.toml: rate: 'fast' is not a number"),
        ({"follow": "yes"}, "x.toml: follow: 'yes' is neither true nor false"),
        ({"columns": [1]}, "x.toml: columns: [1] is not a list of texts"),
        ({"mode": "new"}, "x.toml: mode: 'new' is not one of append, update"),
        ({"kafka": ["a"]}, "x.toml: kafka: 'a' is not of the form key=value"),
        ({"kafka": {"a": [1]}}, "x.toml: kafka: [1] is not a text, a number or a truth value"),
    ],
)
def test_a_wrong_value_names_itself(given: dict[str, Any], error: str) -> None:
    with pytest.raises(SparkError) as raised:
        converted(Options, given, source="x.toml")
    assert str(raised.value) == error


def test_missing_options_are_named_with_their_flags() -> None:
    with pytest.raises(SparkError, match=r"^missing: topic \(--topic\)$"):
        build(Options, {})


@pytest.mark.parametrize(
    ("text", "error"), [(None, "No such file"), ("a = ", "is not TOML"), ("a = 1\na = 2", "TOML")]
)
def test_a_file_that_cannot_be_read(tmp_path: Path, text: str | None, error: str) -> None:
    path = tmp_path / "p.toml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SparkError, match=error) as raised:
        read_file(str(path))
    assert str(path) in str(raised.value)


def test_the_example_is_valid_and_has_every_option() -> None:
    text = example.example("copy", "copies", Options)
    assert build(Options, tomllib.loads(text)) == build(Options, {"topic": "events"})
    commented = [line.removeprefix("# ") for line in text.splitlines() if " = " in line]
    tables = [line.removeprefix("# ") for line in text.splitlines() if line.startswith("# [")]
    everything = tomllib.loads("\n".join([*commented[:-1], *tables, commented[-1]]))
    assert set(converted(Options, everything)) == {row.name for row in rows(Options)}


def test_the_table_of_the_options() -> None:
    lines = example.table(Options).splitlines()
    assert lines[2] == "| `topic` | required | the topic |"
    assert "| `count` | `7` | how many |" in lines
    assert "| `output` | none | where to |" in lines
    assert "| `mode` | `append` | how (`append`, `update`) |" in lines
