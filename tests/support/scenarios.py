"""Scenario files: what goes into a state machine and all that comes out, as text.

A file in `tests/scenarios/` is a list of scenarios, each on a machine of its own. A scenario is a
title and commands; behind each command, after ` -> `, stands all that it does, or, if that has
several lines or is long, indented below it:

    # Comments are kept.

    == a member that leaves makes the others rejoin
    join a session=10s -> a: generation 1, leader a
    leave a
    join b
      log: a is gone
      b: generation 2, leader b

A command is a name, words, and `key=value` options. A test module names its files and its machine:

    @scenario_files("classic_groups")
    def test_scenarios(scenario: Scenario, rewrite: bool) -> None:
        scenario.check(ClassicGroups(), rewrite)

where the machine has a method `do_<name>(command) -> Iterable[str]` for each command.

With `pytest --rewrite-scenarios` the files get the outputs of the code as it is: read the diff,
each changed line is a change of behaviour.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

DIRECTORY: Final = Path(__file__).parent.parent / "scenarios"

_TITLE: Final = "== "
_OUTPUT: Final = " -> "

LINE_MAX: Final = 100
"""Characters; a longer output stands below its command."""


@dataclass
class Command:
    """One line of input."""

    name: str
    words: list[str]
    options: dict[str, str]
    rest: str = ""
    """All that stands behind the name, as it is."""

    _used: set[str] = field(default_factory=set)

    def __contains__(self, key: str) -> bool:
        return self.get(key) is not None

    def get(self, key: str) -> str | None:
        """An option."""
        self._used.add(key)
        return self.options.get(key)

    def text(self, key: str, default: str = "") -> str:
        """An option, by default `default`."""
        found = self.get(key)
        return default if found is None else found

    def number(self, key: str, default: int = 0) -> int:
        """An option that is a whole number."""
        found = self.get(key)
        return default if found is None else int(found)

    def ms(self, key: str, default: int = 0) -> int:
        """An option that is a time, as 5ms, 10s or 2m; in ms."""
        found = self.get(key)
        return default if found is None else duration_ms(found)

    def list(self, key: str, default: str = "") -> list[str]:
        """An option that is a list, as a,b."""
        return [word for word in self.text(key, default).split(",") if word]

    @property
    def unused(self) -> set[str]:
        """Options that nothing asked for."""
        return self.options.keys() - self._used


def duration_ms(text: str) -> int:
    """A time such as 5ms, 10s, 2m, 1h or 7d, in ms."""
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz")
    factors = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
    return int(number) * factors[text[len(number) :]]


def _parse(line: str) -> Command:
    name, *rest = line.split()
    pairs = [word.partition("=") for word in rest]
    return Command(
        name,
        [key for key, equals, _ in pairs if not equals],
        {key: value for key, equals, value in pairs if equals},
        line.removeprefix(name).strip(),
    )


@dataclass(frozen=True)
class Scenario:
    """One scenario of a file."""

    path: Path
    title: str

    def check(self, machine: Any, rewrite: bool) -> None:
        """Do the commands with `machine` and compare the outputs with the file's."""
        expected = _sections(self.path.read_text())[self.title]
        actual = "\n".join(_replay(expected.splitlines(), machine)).rstrip("\n")
        if rewrite and actual != expected:
            text = self.path.read_text()
            head, _, rest = text.partition(f"{_TITLE}{self.title}\n")
            rest = rest.removeprefix(expected)
            self.path.write_text(f"{head}{_TITLE}{self.title}\n{actual}{rest}")
            return
        assert actual == expected, f"{self.path}: see --rewrite-scenarios"


def _sections(text: str) -> dict[str, str]:
    """The body of each scenario, without the newline at its end, by title."""
    found: dict[str, str] = {}
    for section in f"\n{text}".split(f"\n{_TITLE}")[1:]:
        title, _, body = section.partition("\n")
        assert title not in found, f"two scenarios are called {title!r}"
        found[title] = body.rstrip("\n")
    return found


def _replay(lines: list[str], machine: Any) -> Iterator[str]:
    """A scenario's lines with the outputs that `machine` gives."""
    for line in lines:
        if not line or line.startswith("#"):
            yield line
        elif not line.startswith(" "):
            text = line.partition(_OUTPUT)[0]
            output = _do(_parse(text), machine)
            inline = _OUTPUT.join([text, *output])
            if len(output) > 1 or len(inline) > LINE_MAX:
                yield from (text, *(f"  {line}" for line in output))
            else:
                yield inline


def _do(command: Command, machine: Any) -> list[str]:
    made: Iterable[str] = getattr(machine, f"do_{command.name}")(command)
    output = [line for line in made if line]
    assert not command.unused, f"{command.name} takes no {', '.join(command.unused)}"
    return output


def scenario_files(*names: str) -> pytest.MarkDecorator:
    """Run the test with each scenario of these files or directories of files."""
    found = [
        Scenario(path, title)
        for name in names
        for path in sorted([*DIRECTORY.glob(f"{name}.txt"), *DIRECTORY.glob(f"{name}/*.txt")])
        for title in _sections(path.read_text())
    ]
    assert found, f"no scenarios in {', '.join(names)}"
    ids = [f"{scenario.path.stem}: {scenario.title}" for scenario in found]
    return pytest.mark.parametrize("scenario", found, ids=ids)


def may_rewrite(config: pytest.Config) -> bool:
    """Whether --rewrite-scenarios was given; only by hand and in one process."""
    if not config.getoption("--rewrite-scenarios"):
        return False
    if "CI" in os.environ or hasattr(config, "workerinput"):
        raise pytest.UsageError("--rewrite-scenarios is for one process, and not for CI")
    return True
