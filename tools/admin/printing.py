"""What the tools' tables have in common."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Sequence, Sized
from typing import Final

from kavka.tools.java_text import length, padded

PROGRAM_FORMS: Final = ("json", "csv")
"""The values of --output that are for programs."""


def print_failure(text: str, form: str | None) -> None:
    """What went wrong, where Apache Kafka's tools print it, on standard output; unless a program
    reads that."""
    print(text, file=sys.stderr if form in PROGRAM_FORMS else sys.stdout)


def print_csv(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """A table as CSV, below a line with the names of its columns."""
    csv.writer(_Lines(), lineterminator="\r\n").writerows([columns, *rows])


class _Lines:
    r"""Standard output. Before Python 3.13 the csv module quotes a CR or LF only if its line
    terminator has it: so that is \r\n, of which \n is printed."""

    def write(self, row: str) -> None:
        sys.stdout.write(row.removesuffix("\r\n") + "\n")


def print_rows(
    name: str, columns: Sequence[str], rows: Iterable[Sequence[object]], form: str | None
) -> None:
    """A table for programs: {name: [{column: value}]} or CSV, where None is nothing at all."""
    if form == "json":
        found = [dict(zip(columns, row, strict=True)) for row in rows]
        print(json.dumps({name: found}))
    else:
        print_csv(columns, rows)


def print_table(widths: Sequence[int], rows: Iterable[Iterable[object]]) -> None:
    """A table for people: each column at least so wide, as Java counts, and a space between."""
    for row in rows:
        cells = zip(widths, map(str, row), strict=True)
        print(" ".join(padded(cell, width) for width, cell in cells))


def print_tabbed(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table for people: each column as wide as its widest cell, a tab behind each."""
    cells = [list(map(str, row)) for row in (columns, *rows)]
    widths = [max(map(length, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        print("".join(f"{padded(cell, width)}\t" for cell, width in zip(row, widths, strict=True)))


def joined(numbers: Iterable[int]) -> str:
    """With commas between."""
    return ",".join(map(str, numbers))


def plural(many: Sized) -> str:
    """The "s" of a word, unless there is just one."""
    return "" if len(many) == 1 else "s"
