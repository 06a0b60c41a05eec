from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.server.config.value_types import BadValue, Type, Value, parse, to_text


def answer(type_: Type, text: str) -> list[str | None]:
    try:
        return ["ok", to_text(parse("key", type_, text))]
    except BadValue as error:
        return ["refused", str(error)]


def test_values_as_kafka_reads_them(recorded: Callable[[str], list[list[str | None]]]) -> None:
    expected = recorded("values.tsv")
    ours = [[name, text, *answer(Type[str(name)], str(text))] for name, text, *_ in expected]
    assert ours == expected


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        (Type.BOOLEAN, "False", False),
        (Type.INT, " 12 ", 12),
        (Type.DOUBLE, "0.25", 0.25),
        (Type.LIST, "a, b", ("a", "b")),
        (Type.LIST, "a,b,,c d", ("a", "b", "", "c d")),
        (Type.LIST, " a,\tb \n,c\v,\fd\r", ("a", "b", "c", "d")),
        (Type.LIST, "", ()),
        (Type.STRING, " a ", "a"),
        (Type.PASSWORD, " a ", "a"),
    ],
)
def test_python_values(type_: Type, text: str, value: Value) -> None:
    parsed = parse("key", type_, text)
    assert parsed == value
    assert type(parsed) is type(value)


@settings(deadline=None)
@given(st.floats(allow_nan=False))
def test_doubles_survive_their_text(number: float) -> None:
    text = to_text(number)
    assert text is not None
    assert parse("key", Type.DOUBLE, text) == number


def test_null_has_no_text() -> None:
    assert to_text(None) is None
