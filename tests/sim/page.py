"""Prints `docs/simulation.md` with a new table of planted bugs: for `make pages`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from sim.planted import BUGS

PAGE: Final = Path(__file__).parents[2] / "docs" / "simulation.md"
_BLOCK: Final = re.compile(r"(?<=<!-- bugs -->\n\n).*(?=\n<!-- end of bugs -->)", re.DOTALL)


def table() -> str:
    """The bugs, and within how many seeds each is found."""
    rows = ["| bug | seeds |", "|---|---|"]
    rows += [f"| {bug.name} | {bug.seeds_max} |" for bug in BUGS]
    return "\n".join(rows) + "\n"


def page() -> str:
    """All of the page."""
    return _BLOCK.sub(lambda _: table(), PAGE.read_text())


if __name__ == "__main__":
    print(page(), end="")
