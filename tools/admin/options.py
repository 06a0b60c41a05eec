"""The options of Apache Kafka's tools: long names, exactly as they are spelt.

`--name value` and `--name=value` are the same. A tool's usage is a table of `Option`; what is wrong
with the words of a command line is said in one sentence (`Misused`).
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from kavka.tools.admin.errors import Misused

HELP_WIDTH: Final = 78


class Option(NamedTuple):
    """One option. It takes a value if `value` names one."""

    name: str
    help: str
    value: str = ""
    is_number: bool = False
    choices: tuple[str, ...] = ()
    """The values that it may have; any if empty."""


COMMON: Final = (
    Option("bootstrap-server", "Brokers to connect to first.", "HOST:PORT,.."),
    Option("command-config", "A Java client's properties file.", "FILE"),
    Option(
        "output",
        "How to print: as Apache Kafka does, or for programs.",
        "FORM",
        choices=("text", "json", "csv"),
    ),
    Option("debug", "Show where an error comes from."),
    Option("help", "Print this."),
    Option("version", "Print Kavka's version."),
)


class Given:
    """The options of a command line."""

    def __init__(self, values: Mapping[str, Sequence[str]]) -> None:
        self._values = values

    def has(self, name: str) -> bool:
        """Whether it was given."""
        return name in self._values

    def text(self, name: str) -> str | None:
        """Its value; None without it. Misused if it was given twice."""
        values = self._values.get(name, ())
        if len(values) > 1:
            raise Misused(f"Found multiple arguments for option {name}, but you asked for only one")
        return values[0] if values else None

    def texts(self, name: str) -> Sequence[str]:
        """Its values, in their order."""
        return self._values.get(name, ())

    def number(self, name: str) -> int | None:
        """Its value as a number."""
        text = self.text(name)
        return None if text is None else int(text)

    def needs(self, *names: str) -> None:
        """Misused unless all were given."""
        for name in names:
            if not self.has(name):
                raise Misused(f'Missing required argument "[{name}]"')

    def excludes(self, name: str, others: Iterable[str]) -> None:
        """Misused if one of the others was given beside `name`."""
        for other in others if self.has(name) else ():
            if self.has(other):
                raise Misused(f'Option "[{name}]" can\'t be used with option "[{other}]"')


def parse(words: Sequence[str], table: Sequence[Option]) -> Given:
    """The options that the words give. Misused."""
    known = {option.name: option for option in (*table, *COMMON)}
    values: dict[str, list[str]] = {}
    left = list(reversed(words))
    while left:
        word = left.pop()
        name, equals, text = word.removeprefix("--").partition("=")
        if not word.startswith("--"):
            raise Misused(f"{word!r} is no option: options begin with --")
        option = known.get(name)
        if option is None:
            raise Misused(f"{name} is not a recognized option")
        if not option.value:
            if equals:
                raise Misused(f"--{name} takes no value")
            values[name] = []
            continue
        if not equals:
            if not left:
                raise Misused(f"Option {name} requires an argument")
            text = left.pop()
        _check(option, text)
        values.setdefault(name, []).append(text)
    return Given(values)


def usage(command: str, summary: str, table: Sequence[Option]) -> str:
    """What --help prints."""
    lines = [summary, "", f"usage: {command} --bootstrap-server HOST:PORT [options]", ""]
    for option in (*table, *COMMON):
        lines.append(f"  --{option.name} {option.value}".rstrip())
        lines += textwrap.wrap(
            option.help, HELP_WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 6
        )
    return "\n".join(lines)


def _check(option: Option, text: str) -> None:
    if option.is_number and not text.lstrip("-").isdigit():
        raise Misused(f"Cannot parse argument '{text}' of option {option.name}: it is no number")
    if option.choices and text not in option.choices:
        raise Misused(f"--{option.name} is one of {', '.join(option.choices)}, not {text!r}")
