"""The options of Apache Kafka's tools: long names, exactly as they are spelt.

`--name value` and `--name=value` are the same. A tool's usage is a table of `Option`; what is wrong
with the words of a command line is said in one sentence (`Misused`). Tools with sub-commands have
other rules: see `sub_commands`.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from kavka.tools.admin.errors import Misused

HELP_WIDTH: Final = 78
NUMBER: Final = re.compile(r"[+-]?[0-9]+")
DIGITS_MAX: Final = 1000
"""Of a number, zeros in front included: Python reads no more than 4300."""


class Option(NamedTuple):
    """One option. It takes a value if `value` names one."""

    name: str
    help: str
    value: str = ""
    is_number: bool = False
    choices: tuple[str, ...] = ()
    """The values that it may have; any if empty."""
    is_optional: bool = False
    """It may also be given without its value."""
    is_list: bool = False
    """All words up to the next option are values."""
    bits: int = 32
    """The size of a number: that of Java's type."""
    short: str = ""
    """A letter that is another name, behind one dash. It and the next two: of sub-commands; -h also
    of tools that print their help without any word."""
    is_required: bool = False
    is_repeated: bool = False
    """All of its values count, and not the last one only."""
    text_only: bool = False
    """What it has the tool do is told as text, in no other form of --output."""


HELP: Final = (
    Option("debug", "Show where an error comes from."),
    Option("help", "Print this.", short="h"),
    Option("version", "Print Kavka's version.", short="v"),
)
"""What every tool has."""

BROKERS: Final = Option("bootstrap-server", "Brokers to connect to first.", "HOST:PORT,..")
CONTROLLERS: Final = Option(
    "bootstrap-controller", "KRaft controllers to connect to, instead of brokers.", "HOST:PORT,.."
)
CLIENT_CONFIG: Final = Option("command-config", "A Java client's properties file.", "FILE")

CONNECTION: Final = (BROKERS, CLIENT_CONFIG)
"""Those of every tool that asks brokers."""

OUTPUT: Final = Option(
    "output",
    "How to print: as Apache Kafka does, or for programs.",
    "FORM",
    choices=("text", "json", "csv"),
)
LINES: Final = OUTPUT._replace(
    help="How to print: text, or a line of JSON each.", choices=("text", "json")
)
"""In its place in the table of a tool whose lines are of several kinds, which are no table."""

GENERAL: Final = (OUTPUT, *HELP)
"""Those of every tool that prints lists."""

COMMON: Final = (*CONNECTION, *GENERAL)


class SubCommand(NamedTuple):
    """One of a tool's commands. Its options stand behind its name, the tool's before it."""

    name: str
    summary: str
    options: Sequence[Option] = ()
    run: Callable[[Given], int] | None = None
    """Instead of the tool's, where no broker is asked: the exit code."""
    text_only: bool = False
    """What it does is told as text, in no other form of --output."""


class Given:
    """The options of a command line."""

    def __init__(
        self,
        values: Mapping[str, Sequence[str]],
        in_order: Sequence[tuple[str, str]] = (),
        command: SubCommand | None = None,
    ) -> None:
        self._values = values
        self.command: Final = command
        self.in_order: Final = in_order
        """Each option as often as it was given, with its value, or "" if it takes none."""

    @property
    def names(self) -> Sequence[str]:
        """The options that were given, in their order."""
        return list(self._values)

    def has(self, name: str) -> bool:
        """Whether it was given."""
        return name in self._values

    @property
    def asks_for_help(self) -> bool:
        """Or for the version: nothing else is done then."""
        return self.has("help") or self.has("version")

    def text(self, name: str) -> str | None:
        """Its value; None without it. Misused if it was given twice."""
        values = self._values.get(name, ())
        if len(values) > 1:
            raise Misused(f"Found multiple arguments for option {name}, but you asked for only one")
        return values[0] if values else None

    def texts(self, name: str) -> Sequence[str]:
        """Its values, in their order."""
        return self._values.get(name, ())

    def last(self, name: str) -> str | None:
        """Its last value; None without it."""
        values = self._values.get(name, ())
        return values[-1] if values else None

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


def meant(name: str, known: Iterable[str], prefix: str = "") -> str:
    """The known name that was probably meant, if there is one, as the end of a sentence."""
    from difflib import get_close_matches  # only then

    near = get_close_matches(name, [*known], n=1, cutoff=0.75)
    return f" (did you mean {prefix}{near[0]}?)" if near else ""


def parse(
    words: Sequence[str],
    table: Sequence[Option],
    common: Sequence[Option] = COMMON,
    *,
    plain: str = "",
    keeps_empty: bool = False,
) -> Given:
    """The options that the words give, of the tool's table and the common ones. Misused.

    `plain`: the name under which words that are no option's are given; without it they are refused.
    `keeps_empty`: an option without its optional value has an empty one.
    """
    known = {option.name: option for option in (*common, *table)}
    values: dict[str, list[str]] = {}
    in_order: list[tuple[str, str]] = []
    left = list(reversed(words))
    while left:
        word = left.pop()
        name, equals, text = word.removeprefix("--").partition("=")
        if plain and not word.startswith("--"):
            values.setdefault(plain, []).append(word)
            continue
        if not word.startswith("--"):
            raise Misused(f"{word!r} is no option: options begin with --")
        option = known.get(name)
        if option is None:
            raise Misused(f"{name} is not a recognized option{meant(name, known, '--')}")
        if not option.value:
            if equals:
                raise Misused(f"--{name} takes no value")
            values[name] = []
            in_order.append((name, ""))
            continue
        if not equals:
            dash = "--" if keeps_empty else "-"
            is_number = option.is_number and left and is_whole(left[-1], option.bits)
            if option.is_optional and not is_number and (not left or left[-1].startswith(dash)):
                values.setdefault(name, []).extend([""] if keeps_empty else [])
                continue
            if not left:
                raise Misused(f"Option {name} requires an argument")
            text = left.pop()
        check_value(option, text)
        values.setdefault(name, []).append(text)
        in_order.append((name, text))
        while option.is_list and left and not left[-1].startswith("-"):
            values[name].append(left.pop())
    found = Given(values, in_order)
    check_form(
        found,
        [f"--{offered.name}" for offered in table if offered.text_only and offered.name in values],
    )
    return found


def check_form(given: Given, text_only: Sequence[str]) -> None:
    """Misused if a form of --output is asked for that there is not: what lists or describes has
    each of them, what only acts has text (`text_only` names it, if that is asked for)."""
    form = given.last(OUTPUT.name)
    if text_only and form not in (None, OUTPUT.choices[0]) and not given.asks_for_help:
        raise Misused(f"{text_only[0]} prints text only: it has no --output {form}")


def usage(
    command: str,
    summary: str,
    table: Sequence[Option],
    common: Sequence[Option] = COMMON,
    short: Collection[str] = (),
) -> str:
    """What --help prints. `short`: the options that have a letter, too."""
    asks = any(option.name == "bootstrap-server" for option in (*table, *common))
    needed = " --bootstrap-server HOST:PORT" if asks else ""
    lines = [summary, "", f"usage: {command}{needed} [options]", ""]
    own = {option.name for option in table}
    for option in (*table, *(other for other in common if other.name not in own)):
        value = f"[{option.value}]" if option.is_optional else option.value
        letter = f"-{option.short}, " if option.name in short else ""
        lines.append(f"  {letter}--{option.name} {value}".rstrip())
        lines += indented(option.help)
    return "\n".join(lines)


def indented(text: str) -> list[str]:
    """The lines of a text below the name of what it explains."""
    return textwrap.wrap(text, HELP_WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 6)


def is_whole(text: str, bits: int) -> bool:
    """Whether it is a whole number of so many bits."""
    limit = 1 << bits - 1
    is_number = NUMBER.fullmatch(text) is not None and len(text) <= DIGITS_MAX
    return is_number and -limit <= int(text) < limit


def check_value(option: Option, text: str) -> None:
    """Misused if the option can't have this value."""
    if option.is_number and not is_whole(text, option.bits):
        size = f" of {option.bits} bits" if NUMBER.fullmatch(text) else ""
        raise Misused(
            f"Cannot parse argument '{text}' of option {option.name}: it is no number{size}"
        )
    if option.choices and text not in option.choices:
        raise Misused(f"--{option.name} is one of {', '.join(option.choices)}, not {text!r}")
