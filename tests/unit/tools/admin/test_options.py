"""Command lines: what is read from them, and how they are refused."""

from __future__ import annotations

import pytest

from kavka.tools.admin.errors import Misused
from kavka.tools.admin.options import Option, parse, usage

TABLE = (
    Option("topic", "A topic.", "TOPIC"),
    Option("partitions", "How many.", "N", is_number=True),
    Option("list", "All of them."),
)


def test_values_are_words_of_their_own_or_behind_an_equals_sign() -> None:
    given = parse(["--topic", "a=b", "--partitions=-3", "--list"], TABLE)
    assert (given.text("topic"), given.number("partitions"), given.has("list")) == ("a=b", -3, True)
    assert not given.has("output") and given.text("output") is None


def test_an_option_may_come_twice_where_that_has_a_meaning() -> None:
    given = parse(["--topic", "a", "--topic", "b"], TABLE)
    assert list(given.texts("topic")) == ["a", "b"]
    with pytest.raises(Misused, match="multiple arguments for option topic"):
        given.text("topic")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--topics"], "topics is not a recognized option"),
        (["list"], "'list' is no option"),
        (["--list=yes"], "--list takes no value"),
        (["--topic"], "Option topic requires an argument"),
        (["--partitions", "many"], "'many' of option partitions"),
        (["--output", "xml"], "one of text, json, csv, not 'xml'"),
    ],
)
def test_what_is_wrong_is_said(words: list[str], why: str) -> None:
    with pytest.raises(Misused, match=why):
        parse(words, TABLE)


def test_what_does_not_go_together() -> None:
    given = parse(["--list", "--topic", "t"], TABLE)
    with pytest.raises(Misused, match=r'Missing required argument "\[partitions\]"'):
        given.needs("topic", "partitions")
    with pytest.raises(Misused, match=r'"\[list\]" can\'t be used with option "\[topic\]"'):
        given.excludes("list", ["partitions", "topic"])


def test_the_usage_names_every_option() -> None:
    text = usage("kavka things", "Do things.", TABLE)
    for name in ("--topic TOPIC", "--partitions N", "--list", "--bootstrap-server", "--output"):
        assert f"  {name}" in text
