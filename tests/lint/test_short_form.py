"""tests/whole.txt names tests that exist, and what is left out is run with WHOLE=1."""

from __future__ import annotations

import re

import pytest

from support import short_form
from support.paths import ROOT


@pytest.mark.parametrize("pattern", short_form.patterns())
def test_a_pattern_names_a_test(pattern: str) -> None:
    path, _, name = pattern.partition("::")
    text = (ROOT / "tests" / path).read_text()
    function = re.match(r"test_\w+|\*", name)
    assert function is not None
    assert function[0] == "*" or f"def {function[0]}(" in text


def test_a_star_is_any_text_and_nothing_else_is_special() -> None:
    matches = short_form.matcher(["a/b.py::test_x[*-y]", "c.py::*"]).fullmatch
    for test_id in ("a/b.py::test_x[1-y]", "a/b.py::test_x[-y]", "c.py::test_z", "c.py::A::test"):
        assert matches(test_id)
    for test_id in ("a/b.py::test_x[1-yy]", "a/b.py::test_x1-y", "a/bXpy::test_x[1-y]", "c.py"):
        assert not matches(test_id)
    assert not short_form.matcher([]).fullmatch("")


def test_who_runs_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WHOLE", raising=False)
    monkeypatch.delenv("SPARK", raising=False)
    assert not short_form.runs_all_of("tests/spark/test_sink.py::test_x")
    monkeypatch.setenv("SPARK", "whole")
    assert short_form.runs_all_of("tests/spark/test_sink.py::test_x")
    assert not short_form.runs_all_of("tests/sim/test_world.py::test_x")
    monkeypatch.setenv("WHOLE", "1")
    assert short_form.runs_all_of("tests/sim/test_world.py::test_x")
