"""Times and durations of command lines."""

from __future__ import annotations

import pytest

from kavka.tools.admin.errors import Failed
from kavka.tools.admin.times import duration_ms, time_ms


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1970-01-01T00:00:01.002", 1002),
        ("1970-01-01T00:00:00.000Z", 0),
        ("1970-01-01T00:00:00.000+01:30", -5_400_000),
        ("1970-01-01T00:00:00.000-02", 7_200_000),
    ],
)
def test_a_time_is_in_utc_unless_it_says_otherwise(text: str, ms: int) -> None:
    assert time_ms(text) == ms


@pytest.mark.parametrize(
    ("text", "ms"),
    [("P1D", 86_400_000), ("PT1H2M3.5S", 3_723_500), ("-PT1S", -1000), ("pt-1m", -60_000)],
)
def test_a_duration_has_parts(text: str, ms: int) -> None:
    assert duration_ms(text) == ms


@pytest.mark.parametrize("text", ["", "P", "PT", "1h", "P1H", "P1DT"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(Failed, match="Text cannot be parsed to a Duration"):
        duration_ms(text)


@pytest.mark.parametrize("text", ["2024", "2024T", "1970-02-30T00:00:00.000", "1970-01-01T00:00"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(Failed, match=r"java\.text\.ParseException"):
        time_ms(text)
