"""Command lines of tools with sub-commands: in Apache Kafka these have another parser (argparse4j).

Names of options and commands may be cut short where no other begins so; of an option that is given
twice the last value counts; no value begins with a dash, except numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar

from kavka.tools.admin.errors import Misused
from kavka.tools.admin.options import (
    GENERAL,
    HELP,
    Given,
    Option,
    SubCommand,
    check_form,
    check_value,
    indented,
)

NEGATIVE: Final = re.compile(r"-[0-9]+")
T = TypeVar("T")


def parse_command(
    words: Sequence[str], table: Sequence[Option], commands: Sequence[SubCommand]
) -> Given:
    """The tool's options, one of its commands and that one's options. Misused."""
    values: dict[str, list[str]] = {}
    left = list(reversed(words))
    _take_options(left, table, values)
    chosen = None
    if left:
        word = left.pop()
        chosen = _named(word, {command.name: command for command in commands}, "command")
        if chosen is None:
            raise Misused(f"{word!r} is no command: it is one of {_names(commands)}")
        _take_options(left, chosen.options, values)
    if left:
        raise Misused(f"{left[-1]!r} is no option: options begin with --")
    found = Given(values, command=chosen)
    if not found.asks_for_help:
        if chosen is None:
            raise Misused(f"a command is missing: one of {_names(commands)}")
        for option in (*table, *chosen.options):
            if option.is_required and option.name not in values:
                raise Misused(f"argument --{option.name} is required")
        check_form(found, [chosen.name] if chosen.text_only else [])
    return found


def command_usage(
    tool: str,
    summary: str,
    table: Sequence[Option],
    commands: Sequence[SubCommand],
    chosen: SubCommand | None,
) -> str:
    """What --help prints: of the tool, or behind one of its commands of that one."""
    before = " [options]" if table else ""
    name = "COMMAND" if chosen is None else chosen.name
    lines = [summary if chosen is None else chosen.summary, ""]
    lines += [f"usage: {tool}{before} {name} [options]", ""]
    common = HELP if chosen is not None and chosen.text_only else GENERAL
    for option in (*(table if chosen is None else chosen.options), *common):
        names = f"-{option.short}, " if option.short else ""
        lines.append(f"  {names}--{option.name} {option.value}".rstrip())
        lines += indented(option.help)
    if chosen is None:
        lines += ["", "commands:"]
        for command in commands:
            lines += [f"  {command.name}", *indented(command.summary)]
    return "\n".join(lines)


def _take_options(left: list[str], table: Sequence[Option], values: dict[str, list[str]]) -> None:
    """Take options from the end of `left` into `values`, up to what is none. Misused."""
    while left and left[-1].startswith("-"):
        word = left.pop()
        option, text = _option(word, table)
        if not option.value:
            if text is not None:
                raise Misused(f"--{option.name} takes no value")
            values[option.name] = []
            continue
        if text is None:
            if not left or left[-1].startswith("-") and not NEGATIVE.fullmatch(left[-1]):
                raise Misused(f"argument --{option.name}: expected one argument")
            text = left.pop()
        check_value(option, text)
        values[option.name] = [*(values.get(option.name, ()) if option.is_repeated else ()), text]


def _option(word: str, table: Sequence[Option]) -> tuple[Option, str | None]:
    """The option that a word names, and the value in the same word. Misused."""
    if not word.startswith("--"):
        for option in (*table, *GENERAL):
            if option.short and word[1:2] == option.short:
                return option, word[2:] or None
    name, equals, text = word.removeprefix("--").partition("=")
    found = _named(name, {option.name: option for option in table}, "option")
    if found is None:
        found = {option.name: option for option in GENERAL}.get(name)
    if found is None or not word.startswith("--"):
        raise Misused(f"{word!r} is not a recognized option here")
    return found, text if equals else None


def _named(word: str, known: Mapping[str, T], noun: str) -> T | None:
    """What has this name, or alone begins with it. Misused if several do."""
    if word in known:
        return known[word]
    found = sorted(name for name in known if name.startswith(word))
    if len(found) > 1:
        raise Misused(f"ambiguous {noun}: {word} could match {', '.join(found)}")
    return known[found[0]] if found else None


def _names(commands: Iterable[SubCommand]) -> str:
    return ", ".join(command.name for command in commands)
