"""The tests that rows of `docs/tools.md` are made of are there."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from commands.elsewhere import ROWS, Row
from support.paths import ROOT

HERE = "tests/commands"


def test_each_test_is_there() -> None:
    named = sorted({f"{HERE}/{test}" for row in ROWS for test in row.tests})
    assert len(named) > len(ROWS)
    words = ["--collect-only", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *named]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(named) <= set(done.stdout.splitlines())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.action)
def test_the_words_stand_in_the_tests(row: Row) -> None:
    text = "".join((ROOT / HERE / file).read_text() for file in row.files)
    assert [word for word in row.words if word not in text] == []
