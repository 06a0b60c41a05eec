"""Quantiles beside those of the sorted values."""

from __future__ import annotations

import random

import pytest

from kavka.server.runtime.histogram import WINDOW_S, Histogram, PartHistogram

PARTS = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
TOLERANCE = 0.07


def exact(values: list[float], part: float) -> float:
    """The smallest value that at least this part of all is not above."""
    ordered = sorted(values)
    at = next(index for index in range(len(ordered)) if index + 1 >= part * len(ordered))
    return ordered[at]


@pytest.mark.parametrize("seed", range(20))
def test_quantiles_are_right_to_six_percent(seed: int) -> None:
    chance = random.Random(seed)
    scale = 10 ** chance.uniform(-1, 6)
    values = [chance.expovariate(1) * scale for _ in range(chance.choice([1, 7, 1000]))]
    histogram = Histogram()
    for value in values:
        histogram.add(value, 0.0)
    for part, found in zip(PARTS, histogram.quantiles(PARTS, 1.0), strict=True):
        assert found == pytest.approx(exact(values, part), rel=TOLERANCE, abs=0.001)
    assert histogram.count == len(values)
    assert histogram.total == pytest.approx(sum(values))
    assert histogram.maximum == max(values)


def test_without_values_all_is_zero() -> None:
    histogram = Histogram()
    assert histogram.quantiles(PARTS, 5.0) == [0.0] * len(PARTS)
    assert (histogram.count, histogram.total, histogram.maximum) == (0, 0.0, 0.0)


def test_a_weight_counts_like_as_many_values() -> None:
    weighed, single = Histogram(), Histogram()
    for value, weight in ((3.0, 1), (50.0, 97), (900.0, 2)):
        weighed.add(value, 0.0, weight)
        for _ in range(weight):
            single.add(value, 0.0)
    assert weighed.quantiles(PARTS, 0.0) == single.quantiles(PARTS, 0.0)
    assert (weighed.count, weighed.total) == (single.count, single.total)


def test_what_is_old_is_forgotten_but_for_count_and_sum() -> None:
    histogram = Histogram()
    histogram.add(1000.0, 0.0)
    histogram.add(1.0, WINDOW_S)
    assert histogram.quantiles((0.99,), WINDOW_S)[0] == pytest.approx(1000.0, rel=TOLERANCE)
    histogram.add(1.0, 2 * WINDOW_S)
    assert histogram.quantiles((0.99,), 2 * WINDOW_S)[0] == pytest.approx(1.0, rel=TOLERANCE)
    assert histogram.quantiles((0.99,), 9 * WINDOW_S) == [0.0]
    assert (histogram.count, histogram.total, histogram.maximum) == (3, 1002.0, 1000.0)


def test_a_clock_s_rounding_below_zero_is_zero() -> None:
    histogram = Histogram()
    histogram.add(-0.001, 0.0)
    assert histogram.quantiles((0.5,), 0.0) == [0.0]
    assert histogram.total == 0.0


@pytest.mark.parametrize("seed", range(5))
def test_zeros_that_are_left_out_count(seed: int) -> None:
    """A part of events, most of them 0, beside all of them in a histogram of its own."""
    chance = random.Random(seed)
    whole, every = Histogram(), Histogram()
    part = PartHistogram(whole)
    now_s = 0.0
    for _ in range(2000):
        now_s += chance.choice([0.1, 0.1, 1.0, 40.0])
        value = chance.choice([0.0, 0.0, 0.0, chance.uniform(1, 100)])
        weight = chance.choice([1, 1, 127])
        whole.add(value + 1, now_s, weight)
        if value:
            part.add(value, now_s, weight)
        every.add(value, now_s, weight)
        if chance.random() < 0.05:
            assert part.quantiles(PARTS, now_s) == every.quantiles(PARTS, now_s)
    for later_s in (0, WINDOW_S, 2 * WINDOW_S, 9 * WINDOW_S):
        at_s = now_s + later_s
        assert part.quantiles(PARTS, at_s) == every.quantiles(PARTS, at_s)
    assert part.total == pytest.approx(every.total)


def test_an_old_part_of_new_events_is_forgotten() -> None:
    whole = Histogram()
    part = PartHistogram(whole)
    whole.add(5.0, 0.0)
    part.add(5.0, 0.0)
    for window in range(1, 4):
        whole.add(1.0, window * WINDOW_S)
    assert part.quantiles((0.999,), 3 * WINDOW_S) == [0.0]
