"""Which tests `make test` leaves out: those of tests/whole.txt, unless WHOLE=1 is set."""

from __future__ import annotations

import os
import re
from pathlib import Path

WHOLE_LIST = Path(__file__).parents[1] / "whole.txt"


def patterns() -> list[str]:
    """The patterns of the list."""
    lines = map(str.strip, WHOLE_LIST.read_text().splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def matcher(lines: list[str]) -> re.Pattern[str]:
    """Matches the ids of tests, from below `tests/`, that one of the patterns means."""
    texts = [".*".join(map(re.escape, line.split("*"))) for line in lines]
    return re.compile("|".join(texts) or "(?!)")


def id_of(nodeid: str) -> str:
    """A test's id as the list has it."""
    return nodeid.removeprefix("tests/")


def runs_all_of(nodeid: str) -> bool:
    """Whether nothing is left out of a test's directory."""
    if os.environ.get("WHOLE") == "1":
        return True
    return os.environ.get("SPARK") == "whole" and id_of(nodeid).startswith("spark/")
