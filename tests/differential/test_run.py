"""Judging findings: what the list allows, what of it is outdated, and how it is reported."""

from __future__ import annotations

import pytest

from differential import run
from differential.run import Finding, outdated, report, unexplained
from kavka.compat_tests.raw.allowed import ANYTHING, Allowed
from kavka.compat_tests.raw.case import Case
from kavka.compat_tests.raw.differences import Difference
from kavka.compat_tests.raw.judges import NEW
from kavka.compat_tests.raw.playing import ranges

CASE = Case("Fetch", "a case of mine", lambda on: {}, 4, 18, ())
ENTRY = Allowed("Fetch", "a case *", (4, 6), "topics.*.error_code", 0, ANYTHING, "why not")


def finding(version: int, path: str = "topics.0.error_code", kavka: object = 0) -> Finding:
    return Finding(CASE, version, 1, NEW, Difference(path, kavka, 3))


@pytest.fixture(autouse=True)
def one_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "ALLOWED", (ENTRY,))


def test_an_entry_allows_its_versions_path_and_values_only() -> None:
    assert not unexplained([finding(4), finding(6)])
    others = [finding(7), finding(5, "topics.0.name"), finding(5, kavka=1)]
    assert unexplained(others) == others


def test_an_entry_must_occur_in_its_first_and_its_last_version() -> None:
    assert not outdated("Fetch", [finding(4), finding(6)])
    assert "version 6" in outdated("Fetch", [finding(4), finding(5)])[0]
    assert "version 4" in outdated("Fetch", [])[0]
    assert not outdated("Produce", [])


def test_the_same_in_several_versions_is_reported_once() -> None:
    text = report([finding(4), finding(5), finding(9, "topics.0.name"), finding(8)])
    assert text.count("Fetch v") == 2
    assert text.startswith("Fetch v4-5,8 'a case of mine', step 1, topics.0.error_code:\n")


def test_ranges() -> None:
    assert ranges([3, 1, 2, 7, 9, 10]) == "1-3,7,9-10"
