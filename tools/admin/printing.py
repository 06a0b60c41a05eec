"""What the tools' tables have in common."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable


def print_csv(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """A table as CSV, below a line with the names of its columns."""
    csv.writer(sys.stdout, lineterminator="\n").writerows([columns, *rows])


def joined(numbers: Iterable[int]) -> str:
    """With commas between."""
    return ",".join(map(str, numbers))
