"""The runner of scenario files sees each difference, and writes what the code does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.scenarios import DIRECTORY, LINE_MAX, Command, Scenario, duration_ms

LONG = "x" * LINE_MAX

TEXT = f"""\
# A sum.

== two numbers
add 1 by=2 -> 3
# nothing changes
add 0

count 2
  0
  1

say {LONG}
  {LONG}

== none
add 0
"""


class Sum:
    """Adds what it is given, and says the sum unless it stays the same."""

    def __init__(self) -> None:
        self.sum = 0

    def do_add(self, command: Command) -> Iterator[str]:
        before = self.sum
        self.sum += int(command.words[0]) + command.number("by")
        if self.sum != before:
            yield str(self.sum)

    def do_count(self, command: Command) -> Iterator[str]:
        yield from map(str, range(int(command.words[0])))

    def do_say(self, command: Command) -> Iterator[str]:
        yield command.words[0]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "sum.txt"
    path.write_text(TEXT)
    return path


def test_what_is_written_holds(path: Path) -> None:
    for title in ("two numbers", "none"):
        Scenario(path, title).check(Sum(), rewrite=False)
        Scenario(path, title).check(Sum(), rewrite=True)
    assert path.read_text() == TEXT


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (" -> 3", ""),
        (" -> 3", " -> 4"),
        (" -> 3", "\n  3"),
        ("add 0\n\ncount", "add 0 -> 0\n\ncount"),
        ("  0\n  1\n", ""),
        ("  0\n", ""),
        ("  1\n", "  1\n  2\n"),
        (f"say {LONG}\n  {LONG}", f"say {LONG} -> {LONG}"),
    ],
)
def test_a_difference_fails_and_is_rewritten(path: Path, old: str, new: str) -> None:
    path.write_text(TEXT.replace(old, new, 1))
    scenario = Scenario(path, "two numbers")
    with pytest.raises(AssertionError, match="rewrite-scenarios"):
        scenario.check(Sum(), rewrite=False)
    scenario.check(Sum(), rewrite=True)
    assert path.read_text() == TEXT


def test_an_option_that_does_nothing_is_an_error(path: Path) -> None:
    path.write_text(TEXT.replace("by=2", "by=2 buy=3"))
    with pytest.raises(AssertionError, match="add takes no buy"):
        Scenario(path, "two numbers").check(Sum(), rewrite=False)


@pytest.mark.parametrize(
    ("text", "ms"), [("0ms", 0), ("5ms", 5), ("10s", 10_000), ("2m", 120_000), ("7d", 604_800_000)]
)
def test_times(text: str, ms: int) -> None:
    assert duration_ms(text) == ms


def test_every_scenario_file_is_run() -> None:
    sources = [path.read_text() for path in DIRECTORY.parent.glob("unit/**/test_*.py")]
    calls = [call for text in sources for call in re.findall(r"scenario_files\(([^)]*)\)", text)]
    named = set(re.findall(r'"([^"]+)"', "".join(calls)))
    for path in DIRECTORY.glob("**/*.txt"):
        name = path.relative_to(DIRECTORY).with_suffix("")
        assert {str(name), name.parts[0]} & named, f"no test module runs {path.name}"
