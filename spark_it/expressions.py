"""Columns that a user writes as expressions of Spark's SQL: `sum(amount) as total`.

They are analysed before anything starts, so that a mistake is named with its option and its text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from kavka.spark_it.errors import SparkError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

NAME: Final = re.compile(r"[^\W\d]\w*")
"""Names that every table takes as they are."""


class Named(NamedTuple):
    """A column and its name."""

    name: str
    column: Column


def whole(texts: Sequence[str], option: str) -> list[str]:
    """Expressions in one piece, out of a list that has been split at every comma.

    On the command line the commas of a list and those between a function's arguments look alike:
    what ends within parentheses goes on in the next text. A text in quotes cannot be put together
    again (blanks beside its comma are gone), so that is a SparkError.
    """
    found: list[str] = []
    open_piece = ""
    for text in texts:
        piece = f"{open_piece}, {text}" if open_piece else text
        depth = _depth(piece, option)
        open_piece = piece if depth > 0 else ""
        if not open_piece:
            found.append(piece)
    if open_piece:
        raise SparkError(f"{option}: {open_piece!r} has a parenthesis that is not closed")
    return found


def _depth(text: str, option: str) -> int:
    """How many parentheses are open at the end."""
    depth, quote, escaped = 0, "", False
    for char in text:
        if escaped:
            escaped = False
        elif quote:
            escaped = char == "\\" and quote != "`"
            quote = "" if char == quote else quote
        elif char in "'\"`":
            quote = char
        else:
            depth += (char == "(") - (char == ")")
    if quote:
        raise SparkError(
            f"{option}: {text!r} ends within {quote}; an expression with a comma in quotes has to "
            "be given in a file (--config), as one text of the list"
        )
    return depth


def grouping(frame: DataFrame, texts: Sequence[str], option: str) -> list[Named]:
    """Expressions over the columns of a frame."""
    return _named(texts, option, lambda column: frame.select(column))


def aggregates(frame: DataFrame, texts: Sequence[str], option: str) -> list[Named]:
    """Expressions that make one value of many rows."""
    return _named(texts, option, lambda column: frame.groupBy().agg(column))


def _named(texts: Sequence[str], option: str, use: Callable[[Column], DataFrame]) -> list[Named]:
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as f

    found = []
    for text in whole(texts, option):
        try:
            column = f.expr(text)
            names = use(column).schema.names
        except PySparkException as failure:
            raise SparkError(f"{option}: {text!r}: {first_line(failure)}") from failure
        if len(names) != 1 or not NAME.fullmatch(names[0]):
            raise SparkError(f"{option}: {text!r} has no plain name; write it as `{text} as NAME`")
        found.append(Named(names[0], column))
    return found


def check_distinct(names: Iterable[str], option: str) -> None:
    """SparkError for a name that two columns have; Spark does not tell capitals apart."""
    seen: set[str] = set()
    for name in names:
        if name.casefold() in seen:
            raise SparkError(f"{option}: there are two columns of the name {name}")
        seen.add(name.casefold())


def first_line(failure: Exception) -> str:
    """Spark's message without its plans, its code of SQLSTATE and the text of the expression."""
    text = str(failure).strip().partition(" SQLSTATE:")[0]
    return text.partition("\n")[0].rstrip(";")
