"""The examples in the README and in docs do what they say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.broker import kavka_environment
from support.paths import ROOT
from support.process import BrokerProcess

TIMEOUT_S = 120
FENCED = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"# (\w+\.py)\n")
PRINTED = re.compile(r"(\d) (\d+) key (\d) hello")

OUTPUT_OF_PROGRAMS = [
    "1 0 b'apples'\n",
    "0 {0: 1}\n",
    "orders b'apples'\n",
    "[b'before', b'during']\n",
]
"""What those on the page about tests print, in order."""


def examples(page: str) -> list[str]:
    """The Python of a page."""
    found: list[str] = FENCED.findall((ROOT / page).read_text("utf-8"))
    return found


def run(command: list[str], environment: dict[str, str], directory: Path | None = None) -> str:
    """Run a command that ends well; what it prints."""
    done = subprocess.run(
        command,
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env={**kavka_environment(), **environment},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_example_writes_and_reads(broker: BrokerProcess) -> None:
    example = examples("README.md")[0]
    said = run([sys.executable, "-c", example], {"BOOTSTRAP_SERVERS": broker.bootstrap})
    lines = [PRINTED.fullmatch(line) for line in said.splitlines()]
    assert all(lines), said
    assert sorted(line[3] for line in lines if line) == [str(number) for number in range(10)]


def run_pytest(directory: Path) -> str:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "kavka.testing.plugin"]
    return run(command, {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}, directory)


def test_the_readmes_test_passes(tmp_path: Path) -> None:
    example = examples("README.md")[1]
    (tmp_path / "test_readme.py").write_text(example)
    assert "1 passed" in run_pytest(tmp_path)


def test_the_tests_on_the_page_about_tests_pass(tmp_path: Path) -> None:
    files = 0
    for example in examples("docs/testing.md"):
        if named := NAMED.match(example):
            (tmp_path / named[1]).write_text(example)
            files += 1
    assert files == 4
    assert "3 passed" in run_pytest(tmp_path)


@pytest.mark.parametrize("number", range(len(OUTPUT_OF_PROGRAMS)))
def test_the_programs_on_the_page_about_tests_do_what_they_say(number: int) -> None:
    programs = [example for example in examples("docs/testing.md") if not NAMED.match(example)]
    assert len(programs) == len(OUTPUT_OF_PROGRAMS)
    assert run([sys.executable, "-c", programs[number]], {}) == OUTPUT_OF_PROGRAMS[number]


def test_the_program_on_the_page_about_groups_does_what_it_says() -> None:
    [program] = examples("docs/groups.md")
    orders = [f"order {number}" for number in range(6)]
    assert run([sys.executable, "-c", program], {}) == f"{orders}\n"


def test_the_program_on_the_page_about_transactions_does_what_it_says() -> None:
    [program] = examples("docs/transactions.md")
    bills = [f"bill of order {number}" for number in range(3)]
    assert run([sys.executable, "-c", program], {}) == f"3 {bills}\n"
