"""Quantiles, and readings of rows."""

from __future__ import annotations

import pytest
from bench.run import Results, quantile


@pytest.mark.parametrize(
    ("share", "expected"), [(0.5, 50), (0.99, 99), (0.999, 100), (1.0, 100), (0.0, 1)]
)
def test_a_quantile_is_the_smallest_that_so_many_do_not_exceed(share: float, expected: int) -> None:
    assert quantile(list(range(100, 0, -1)), share) == expected


def test_the_quantile_of_one_value_is_that() -> None:
    assert quantile([7], 0.5) == quantile([7], 0.999) == 7


def test_the_worst_of_a_row_is_one_reading_of_another() -> None:
    results = Results("Kavka")
    for seconds, worst in ((0.2, 0.2), (0.9, 0.9), (0.1, 0.9)):
        results.add("x.after", seconds)
        results.note_worst("x.worst", "x.after")
        assert results.values["x.worst"] == [worst]
    assert results.as_json()["values"]["x.after"] == {"median": 0.2, "runs": [0.2, 0.9, 0.1]}
