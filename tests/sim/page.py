"""Prints `docs/simulation.md` with new tables of planted bugs: for `make pages`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from sim.cluster_planted import CLUSTER_BUGS
from sim.planted import BUGS, Bug

PAGE: Final = Path(__file__).parents[2] / "docs" / "simulation.md"
BLOCKS: Final = {"bugs": BUGS, "bugs of clusters": CLUSTER_BUGS}


def table(bugs: Sequence[Bug]) -> str:
    """The bugs, and within how many seeds each is found."""
    rows = ["| bug | seeds |", "|---|---|"]
    rows += [f"| {bug.name} | {bug.seeds_max} |" for bug in bugs]
    return "\n".join(rows) + "\n"


def page() -> str:
    """All of the page."""
    text = PAGE.read_text()
    for name, bugs in BLOCKS.items():
        before, rest = text.split(f"<!-- {name} -->\n\n")
        _, after = rest.split(f"\n<!-- end of {name} -->")
        text = f"{before}<!-- {name} -->\n\n{table(bugs)}\n<!-- end of {name} -->{after}"
    return text


if __name__ == "__main__":
    print(page(), end="")
