"""The histogram against a sorted list."""

from __future__ import annotations

import random

from fuzz.prober import STEP, Waits


def test_percentiles_are_those_of_a_sorted_list_but_for_the_width_of_a_class() -> None:
    chance = random.Random(1)
    times = [chance.expovariate(200) for _ in range(5000)]
    waits = Waits()
    for wait_s in times:
        waits.add(wait_s)
    times.sort()
    for percent in (50.0, 90.0, 99.0, 99.9):
        exact_ms = times[int(len(times) * percent / 100) - 1] * 1000
        assert exact_ms <= waits.percentile_ms(percent) <= exact_ms * STEP
    assert waits.percentile_ms(100) == times[-1] * 1000
