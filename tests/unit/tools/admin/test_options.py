"""Command lines: what is read from them, and how they are refused."""

from __future__ import annotations

import pytest

from kavka.tools.admin.errors import Misused
from kavka.tools.admin.options import BROKERS, Option, SubCommand, parse, usage
from kavka.tools.admin.sub_commands import command_usage, parse_command

TABLE = (
    Option("topic", "A topic.", "TOPIC"),
    Option("partitions", "How many.", "N", is_number=True),
    Option("list", "All of them."),
    Option("state", "Their state.", "STATE,..", is_optional=True),
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


def test_the_order_of_options_is_known() -> None:
    given = parse(["--list", "--topic", "b", "--list", "--topic=a"], TABLE)
    assert given.in_order == [("list", ""), ("topic", "b"), ("list", ""), ("topic", "a")]


@pytest.mark.parametrize(
    ("words", "state"),
    [
        (["--state"], None),
        (["--state", "--list"], None),
        (["--state", "stable"], "stable"),
        (["--state=stable", "--list"], "stable"),
    ],
)
def test_a_value_may_be_left_out_where_that_has_a_meaning(
    words: list[str], state: str | None
) -> None:
    given = parse(words, TABLE)
    assert given.has("state") and given.text("state") == state
    assert given.has("list") == ("--list" in words)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--topics"], r"topics is not a recognized option \(did you mean --topic\?\)"),
        (["--nothing"], "nothing is not a recognized option$"),
        (["list"], "'list' is no option"),
        (["--list=yes"], "--list takes no value"),
        (["--topic"], "Option topic requires an argument"),
        (["--partitions", "many"], "'many' of option partitions"),
        (["--partitions", "²"], "'²' of option partitions"),
        (["--partitions", "2147483648"], "no number of 32 bits"),
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
    for name in (
        "--topic TOPIC",
        "--partitions N",
        "--state [STATE,..]",
        "--list",
        "--bootstrap-server",
        "--output",
    ):
        assert f"  {name}" in text


COMMANDS = (
    SubCommand("list", "Print things."),
    SubCommand(
        "describe",
        "Print one.",
        (
            Option("name", "Which.", "NAME", short="n", is_required=True),
            Option("number", "How many.", "N", is_number=True, bits=16),
            Option("feature", "What it has.", "FEATURE", is_repeated=True),
            Option("dry-run", "Do nothing."),
        ),
    ),
    SubCommand("describe-all", "Print all."),
)


def test_options_stand_before_and_behind_a_command() -> None:
    words = "--bootstrap-server a:1 desc --output json".split()
    with pytest.raises(Misused, match="ambiguous command: desc could match describe, describe-all"):
        parse_command(words, [BROKERS], COMMANDS)
    words = "--boot a:1 describe -nx --num=-3 --number -4 --feature a --feature b --dry".split()
    given = parse_command(words, [BROKERS], COMMANDS)
    assert given.command is COMMANDS[1]
    assert (given.text("bootstrap-server"), given.text("name")) == ("a:1", "x")
    assert (given.number("number"), given.has("dry-run")) == (-4, True)
    assert list(given.texts("feature")) == ["a", "b"]
    assert parse_command(["l"], [BROKERS], COMMANDS).command is COMMANDS[0]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("", "a command is missing: one of list, describe, describe-all"),
        ("nothing", "'nothing' is no command"),
        ("list --bootstrap-server a:1", "'--bootstrap-server' is not a recognized option here"),
        ("--name x describe", "'--name' is not a recognized option here"),
        ("-name x list", "'-name' is not a recognized option here"),
        ("list describe", "'describe' is no option"),
        ("describe", "argument --name is required"),
        ("describe --name", "argument --name: expected one argument"),
        ("describe --name --number", "argument --name: expected one argument"),
        ("describe --n x", "ambiguous option: n could match name, number"),
        ("describe -n x --number 32768", "no number of 16 bits"),
        ("describe -n x --dry-run=yes", "--dry-run takes no value"),
    ],
)
def test_what_is_wrong_with_a_command_is_said(line: str, why: str) -> None:
    with pytest.raises(Misused, match=why):
        parse_command(line.split(), [BROKERS], COMMANDS)


def test_the_usage_of_a_tool_and_of_a_command() -> None:
    assert parse_command(["describe", "-h"], [BROKERS], COMMANDS).has("help")
    text = command_usage("kavka things", "Do things.", [BROKERS], COMMANDS, None)
    for name in ("--bootstrap-server", "-h, --help", "describe", "list"):
        assert f"\n  {name}" in text
    text = command_usage("kavka things", "Do things.", [BROKERS], COMMANDS, COMMANDS[1])
    assert "kavka things [options] describe [options]" in text
    assert "  -n, --name NAME" in text and "--bootstrap-server" not in text
