"""Prints findings: for people, as JSON and as CSV."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from collections.abc import Sequence
from typing import Final

from kavka.tools.admin.printing import print_csv
from kavka.tools.doctor.findings import Finding, Level, worst

WIDTH: Final = 100
INDENT: Final = " " * 9
COLUMNS: Final = ("level", "step", "problem", "subject", "found", "advice")


def print_findings(findings: Sequence[Finding], form: str | None) -> None:
    """All of them in their order; as text with a summary."""
    if form == "json":
        shown = [dict(zip(COLUMNS, _row(finding), strict=True)) for finding in findings]
        level = worst(findings).name.lower()
        print(json.dumps({"level": level, "findings": shown}, ensure_ascii=False))
    elif form == "csv":
        print_csv(COLUMNS, map(_row, findings))
    else:
        for finding in findings:
            print_one(finding)
        print_summary(findings)


def print_summary(findings: Sequence[Finding]) -> None:
    """How many errors and warnings there are."""
    print(f"\n{_summary(findings)}")


def print_one(finding: Finding) -> None:
    """What was found, and below it what to do."""

    def fill(line: str, first: str, rest: str) -> str:
        return textwrap.fill(
            line,
            WIDTH,
            initial_indent=first,
            subsequent_indent=rest,
            break_long_words=False,
            break_on_hyphens=False,
        )

    level = finding.level.name if finding.level > Level.NOTE else finding.level.name.lower()
    head = f"{level:{len(INDENT)}}"
    text = f"{finding.step}: {finding.subject} {finding.found}"
    print(fill(text, head, INDENT))
    for number, line in enumerate(finding.advice.splitlines()):
        print(fill(line, INDENT + ("   " if number else "-> "), INDENT + "   "))


def _row(finding: Finding) -> Sequence[str]:
    return (
        finding.level.name.lower(),
        finding.step,
        finding.problem,
        finding.subject,
        finding.found,
        finding.advice,
    )


def _summary(findings: Sequence[Finding]) -> str:
    counts = Counter(finding.level for finding in findings)
    errors, warnings = counts[Level.ERROR], counts[Level.WARNING]
    if not errors and not warnings:
        return "Nothing is wrong."
    return f"{_counted(errors, 'error')}, {_counted(warnings, 'warning')}."


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number != 1 else ''}"
