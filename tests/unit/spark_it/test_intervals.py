"""Lengths of time, as windows take them."""

import pytest

from kavka.spark_it import SparkError
from kavka.spark_it.intervals import interval_ms


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("10 minutes", 600_000),
        ("1 minute", 60_000),
        ("1 hour 30 minutes", 5_400_000),
        ("  2   Days ", 172_800_000),
        ("1 week 250 milliseconds", 604_800_250),
        ("0 seconds", 0),
    ],
)
def test_a_length_in_milliseconds(text: str, expected_ms: int) -> None:
    assert interval_ms(text, "window") == expected_ms


@pytest.mark.parametrize(
    "text", ["", " ", "10", "minutes", "1 month", "-1 second", "1.5 hours", "10 minutes and"]
)
def test_what_is_no_length_is_named_with_its_option(text: str) -> None:
    with pytest.raises(SparkError, match="slide: .*units: millisecond, second"):
        interval_ms(text, "slide")
