"""The judging itself: what counts as a difference, and what a reason allows."""

from __future__ import annotations

import pytest

from admin.cells import OK, Outcome
from admin.reasons import Reason
from admin.run import Cell
from kavka.compat_tests.raw.differences import ABSENT, Difference, differences


def test_equal_values_do_not_differ() -> None:
    value = {"a": [1, {"b": None}], "c": "text"}
    assert list(differences(value, {"c": "text", "a": [1, {"b": None}]})) == []


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, [Difference("a.b.1", 2, 3)]),
        ({"a": 1}, {"b": 1}, [Difference("a", 1, ABSENT), Difference("b", ABSENT, 1)]),
        ([1], [], [Difference("0", 1, ABSENT)]),
        ({"a": [1]}, {"a": "1"}, [Difference("a", [1], "1")]),
    ],
)
def test_where_values_differ(left: object, right: object, expected: list[Difference]) -> None:
    assert list(differences(left, right)) == expected


def test_the_word_counts_before_all_else() -> None:
    cell = Cell("a client", "list topics", Outcome(OK, [1]), Outcome("Refused", [2]))
    assert cell.differences() == [Difference("", OK, "Refused")]


def cell_of(kavka: str, kafka: str) -> tuple[Cell, Difference]:
    cell = Cell("a client", "list topics", Outcome(OK, [kavka]), Outcome(OK, [kafka]))
    (difference,) = cell.differences()
    return cell, difference


@pytest.mark.parametrize(
    ("reason", "allowed"),
    [
        (Reason("why", "list topics", "0"), True),
        (Reason("why", "list *", "*"), True),
        (Reason("why", "delete *", "*"), False),
        (Reason("why", "*", "1"), False),
        (Reason("why", "*", "*", kavka="one=1"), True),
        (Reason("why", "*", "*", kavka="two"), False),
        (Reason("why", "*", "*", kafka="one=1"), False),
        (Reason("why", "*", "*", without=r",two=\d"), True),
        (Reason("why", "*", "*", without=r",three=\d"), False),
    ],
)
def test_what_a_reason_allows(reason: Reason, allowed: bool) -> None:
    assert reason.allows(*cell_of("one=1", "one=1,two=2")) == allowed
