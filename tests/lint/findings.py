"""What both lints share: a finding, and which files of the repository are Python sources."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]

GENERATED: Final = frozenset({"build", "dist", "data"})
"""Directories at the root that `make` fills and git ignores."""


class Finding(NamedTuple):
    """One thing to mend, in the form that editors and terminals turn into a link."""

    path: str
    """Relative to the repository's root."""
    line: int
    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.message}"


def python_files(top: Path) -> Iterator[Path]:
    """Every Python source under `top` in a fixed order, each once: links are not followed, nor are
    environments entered, under any name."""
    for directory, below, names in os.walk(top):
        if "pyvenv.cfg" in names:
            below.clear()
            continue
        skipped = GENERATED if Path(directory) == ROOT else frozenset()
        below[:] = sorted(
            name
            for name in below
            if not name.startswith(".") and name != "__pycache__" and name not in skipped
        )
        yield from (Path(directory, name) for name in sorted(names) if name.endswith(".py"))


def relative(path: Path) -> str:
    """`path` as a finding names it."""
    return path.relative_to(ROOT).as_posix()
