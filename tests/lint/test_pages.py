"""`.ci/page`, with which `make pages` makes pages: a page stays whole when a step fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lint.findings import ROOT

OLD = "# The page\n"


def run(
    place: Path, program: str, python: str = sys.executable
) -> subprocess.CompletedProcess[str]:
    """Make docs/page.md of what a module with that code prints."""
    (place / "docs").mkdir()
    (place / "docs" / "page.md").write_text(OLD)
    (place / "src").mkdir()
    (place / "src" / "printer.py").write_text(program)
    return subprocess.run(
        [ROOT / ".ci" / "page", python, "page.md", "printer"],
        cwd=place,
        capture_output=True,
        text=True,
    )


def left(place: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in (place / "docs").iterdir()}


def test_a_page_is_replaced(tmp_path: Path) -> None:
    done = run(tmp_path, "print('# Newer')")
    assert done.returncode == 0
    assert done.stdout == "docs/page.md: made anew\n"
    assert left(tmp_path) == {"page.md": "# Newer\n"}


def test_a_page_without_changes_is_left_alone(tmp_path: Path) -> None:
    assert run(tmp_path, f"print({OLD!r}, end='')").stdout == "docs/page.md: as it was\n"
    assert left(tmp_path) == {"page.md": OLD}


@pytest.mark.parametrize(
    ("program", "python"),
    [
        ("print('half'); import nothing_there", sys.executable),
        ("pass", sys.executable),
        ("print('# Newer')", "/nowhere/bin/python"),
    ],
)
def test_a_page_outlives_a_failure(tmp_path: Path, program: str, python: str) -> None:
    done = run(tmp_path, program, python)
    assert done.returncode != 0
    assert done.stderr
    assert left(tmp_path) == {"page.md": OLD}
