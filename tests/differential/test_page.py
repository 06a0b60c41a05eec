"""`docs/conformance.md` is what the tables give, and the tables hold what they promise."""

from __future__ import annotations

from differential.page import page
from kavka.compat_tests.raw.cases import tables
from kavka.server.connections.dispatch import HANDLERS
from support.paths import ROOT

PAGE = ROOT / "docs" / "conformance.md"
RUNS_MIN = 1500


def test_the_page_is_current() -> None:
    hint = f"run: PYTHONPATH=src:tests python -m differential.page > {PAGE}"
    assert PAGE.read_text("utf-8") == page(), hint


def test_every_version_of_every_served_api_has_cases() -> None:
    served = {
        (api.name, version)
        for api, _ in HANDLERS.values()
        for version in range(api.lowest, api.highest + 1)
    }
    covered = {(case.api, version) for cases in tables() for case, version in cases.runs()}
    assert served <= covered, sorted(served - covered)


def test_there_are_as_many_runs_as_promised() -> None:
    assert sum(len(list(cases.runs())) for cases in tables()) >= RUNS_MIN
