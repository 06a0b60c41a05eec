"""Prints `docs/tools.md` with its tables of what was tested, and of what the doctor
finds, made anew: for `make pages`."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import Final

from commands import doctor_problems, elsewhere
from commands.exceptions import FORMATS, OWN_FORM, OWN_WORDS, is_refused
from commands.recorded import SESSIONS, Run, runs

PAGE: Final = Path(__file__).parents[2] / "docs" / "tools.md"
BEGIN: Final = "<!-- recorded sessions -->\n\n"
END: Final = "<!-- end of recorded sessions -->"
OTHERS: Final = "<!-- other tests -->\n\n"
END_OF_OTHERS: Final = "<!-- end of other tests -->"
PROBLEMS: Final = "<!-- problems of clusters -->\n\n"
END_OF_PROBLEMS: Final = "<!-- end of problems of clusters -->"

ACTION: Final = re.compile(
    r" (--(create|list|describe|alter|delete-offsets|delete|reset-offsets|add|remove|generate"
    r"|execute|verify|cancel)|cluster-id|list-endpoints|unregister|describe-producers|describe"
    r"|upgrade|downgrade|disable|list|find-hanging|abort|forceTerminateTransaction|random-uuid|info"
    r"|format|version-mapping|feature-dependencies|--validate-regex)(?= |$)"
)
HEAD: Final = (
    "| tool | command lines | Apache Kafka's tool on Kavka | Kavka's tool on Kavka"
    " | Kavka's tool on Apache Kafka |\n|---|---|---|---|---|\n"
)


def action(run: Run) -> str:
    """A run's tool, with what it is asked to do."""
    found = ACTION.search(run.line)
    return f"{run.tool.removeprefix('kafka-')}{f' `{found[1]}`' if found else ''}"


def marks(found: list[Run]) -> tuple[str, str, str]:
    """The three columns of some runs of one action."""
    own = [run for run in found if run.line in OWN_FORM or run.line in OWN_WORDS]
    on_kavka = "\u2713"
    if all(map(is_refused, found)):
        on_kavka = "refused: not built yet"
    elif any(map(is_refused, found)):
        on_kavka = "\u2713; users and quotas are refused: not built yet"
    elif own:
        on_kavka = f"\u2713; {OWN_FORM.get(own[0].line, 'what is true of Kavka')}"
    if found[0].line.startswith(FORMATS):
        return on_kavka, *2 * ("\u2713; what is true of Kavka",)
    return on_kavka, on_kavka, "\u2713"


def table() -> str:
    """A line for each action of each tool."""
    rows: defaultdict[str, list[Run]] = defaultdict(list)
    for session in SESSIONS:
        for run in runs(session):
            rows[action(run)].append(run)
    lines = (
        f"| {name} | {len(found)} | {' | '.join(marks(found))} |\n"
        for name, found in sorted(rows.items())
    )
    return HEAD + "".join(lines)


def page() -> str:
    """All of the page."""
    text = PAGE.read_text()
    for begin, made, end in (
        (BEGIN, table(), END),
        (OTHERS, elsewhere.table(), END_OF_OTHERS),
        (PROBLEMS, doctor_problems.table(), END_OF_PROBLEMS),
    ):
        before, rest = text.split(begin)
        text = f"{before}{begin}{made}\n{end}{rest.split(end)[1]}"
    return text


if __name__ == "__main__":
    print(page(), end="")
