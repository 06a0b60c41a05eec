from __future__ import annotations

import pytest

from kavka.server.config.sources import ConfigError, Given, gather


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


def test_an_override_ends_its_key_at_the_first_equals() -> None:
    assert gather(b"", "f", {}, ["a = b=c"]) == {"a": Given(" b=c", "--override")}


@pytest.mark.parametrize("override", ["a", "=1", " =1", ""])
def test_an_override_needs_key_and_value(override: str) -> None:
    with pytest.raises(ConfigError, match="is not of the form key=value"):
        gather(b"", "f", {}, [override])


def test_a_broken_file_is_named() -> None:
    with pytest.raises(ConfigError, match="x.properties: not UTF-8 at byte 0"):
        gather(b"\xff", "x.properties", {}, [])
