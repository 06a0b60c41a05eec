"""Reads the reports that test runners write in JUnit's form."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple
from xml.etree import ElementTree

FAILURE: Final = "failure"
ERROR: Final = "error"
SKIPPED: Final = "skipped"


class Case(NamedTuple):
    """One test."""

    name: str
    outcome: str | None
    """FAILURE, ERROR or SKIPPED; None if it has passed."""
    why: str
    """What the report says of that."""


def cases(report: Path) -> list[Case]:
    """The tests of a report, in its order."""
    return [_case(element) for element in ElementTree.parse(report).getroot().iter("testcase")]


def _case(test: ElementTree.Element) -> Case:
    name = test.get("name", "")
    for outcome in (FAILURE, ERROR, SKIPPED):
        found = test.find(outcome)
        if found is not None:
            why = found.get("message") or found.get("type") or found.text or ""
            return Case(name, outcome, why)
    return Case(name, None, "")
