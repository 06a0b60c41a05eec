from __future__ import annotations

import pytest

from kavka.server.config.problems import ConfigError
from kavka.server.config.sources import Given, gather


def test_the_later_place_wins() -> None:
    given = gather(
        b"a.b=1\nc=2\nd=3\n",
        "x.properties",
        {"KAVKA_A_B": "4", "KAVKA_C": "5", "OTHER_D": "6"},
        ["a.b=7"],
    )
    assert given == {
        "a.b": Given("7", "--override"),
        "c": Given("5", "variable KAVKA_C"),
        "d": Given("3", "x.properties, line 3"),
    }


def test_the_last_of_a_repeated_key_counts() -> None:
    assert gather(b"a=1\na=2", "f", {}, ["b=1", "b=2"]) == {
        "a": Given("2", "f, line 2"),
        "b": Given("2", "--override"),
    }


def test_what_a_value_covers_is_remembered() -> None:
    """It would count if the value that wins were removed."""
    of_all = gather(b"a=1\na=2", "f", {"KAVKA_A": "3"}, ["a=4", "a=5"])["a"]
    assert of_all.covers is not None
    origins = []
    given: Given | None = of_all
    while given is not None:
        origins.append((given.value, given.origin, given.removal))
        given = given.covers
    assert origins == [
        ("5", "--override", "leave this --override out"),
        ("4", "--override", "leave this --override out"),
        ("3", "variable KAVKA_A", "unset KAVKA_A"),
        ("2", "f, line 2", "delete this line"),
        ("1", "f, line 1", "delete this line"),
    ]


def test_an_override_ends_its_key_at_the_first_equals() -> None:
    assert gather(b"", "f", {}, ["a = b=c"]) == {"a": Given(" b=c", "--override")}


@pytest.mark.parametrize("override", ["a", "=1", " =1", ""])
def test_an_override_needs_key_and_value(override: str) -> None:
    with pytest.raises(ConfigError, match="is not of the form key=value"):
        gather(b"", "f", {}, [override])


def test_a_broken_file_is_named() -> None:
    with pytest.raises(ConfigError, match="x.properties: not UTF-8 at byte 0"):
        gather(b"\xff", "x.properties", {}, [])
