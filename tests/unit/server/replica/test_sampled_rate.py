"""The rate against Apache Kafka's own rules, and when it falls below a limit, by trying."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kavka.server.replica.sampled_rate import SampledRate

WINDOWS, WINDOW_MS = 3, 10


@dataclass
class Sample:
    start_ms: int
    last_ms: int
    value: float = 0.0

    def reset(self, now_ms: int) -> None:
        self.start_ms = self.last_ms = now_ms
        self.value = 0.0


class KafkasRate:
    """`SimpleRate` on `SampledStat`, line by line as in Apache Kafka 3.9: a ring with one sample
    more than windows, in which an obsolete sample is not removed but begins again."""

    def __init__(self) -> None:
        self.samples: list[Sample] = []
        self.current = 0
        self.was_reset = False
        """Whether a sample has begun again that others were older than."""

    def record(self, amount: int, now_ms: int) -> None:
        if not self.samples:
            self.samples.append(Sample(now_ms, now_ms))
        sample = self.samples[self.current]
        if now_ms - sample.start_ms >= WINDOW_MS:
            self.current = (self.current + 1) % (WINDOWS + 1)
            if self.current >= len(self.samples):
                self.samples.append(Sample(now_ms, now_ms))
            sample = self.samples[self.current]
            sample.reset(now_ms)
        sample.value += amount
        sample.last_ms = now_ms

    def measure(self, now_ms: int) -> float:
        for sample in self.samples:
            if now_ms - sample.last_ms >= WINDOWS * WINDOW_MS:
                sample.reset(now_ms)
                self.was_reset = True
        if not self.samples:
            return 0.0
        elapsed_ms = now_ms - min(sample.start_ms for sample in self.samples)
        return 1000 * sum(sample.value for sample in self.samples) / max(elapsed_ms, WINDOW_MS)


class Listed:
    """All that was ever recorded, sorted into samples anew for each question."""

    def __init__(self) -> None:
        self.recorded: list[tuple[int, int]] = []

    def measure(self, now_ms: int) -> float:
        samples: list[list[tuple[int, int]]] = []
        for at_ms, amount in self.recorded:
            if samples and at_ms - samples[-1][-1][0] >= WINDOWS * WINDOW_MS:
                samples = []  # all older ones are gone
            if not samples or at_ms - samples[-1][0][0] >= WINDOW_MS:
                samples.append([])
            samples[-1].append((at_ms, amount))
        samples = [sample for sample in samples if now_ms - sample[-1][0] < WINDOWS * WINDOW_MS]
        if not samples:
            return 0.0
        total = sum(amount for sample in samples for _, amount in sample)
        return 1000 * total / max(now_ms - samples[0][0][0], WINDOW_MS)


STEPS = st.lists(st.tuples(st.integers(0, 35), st.integers(0, 1000)), max_size=40)


@given(STEPS)
def test_the_rate_is_that_of_the_samples(steps: list[tuple[int, int]]) -> None:
    rate, model, kafkas = SampledRate(WINDOWS, WINDOW_MS), Listed(), KafkasRate()
    now_ms = 0
    for pause_ms, amount in steps:
        now_ms += pause_ms
        assert rate.per_s(now_ms) == pytest.approx(model.measure(now_ms))
        # A sample that begins again counts as time without records in Apache Kafka.
        theirs = kafkas.measure(now_ms)
        assert rate.per_s(now_ms) >= theirs - 1e-9
        if not kafkas.was_reset:
            assert rate.per_s(now_ms) == pytest.approx(theirs)
        rate.record(amount, now_ms)
        model.recorded.append((now_ms, amount))
        kafkas.record(amount, now_ms)


@given(STEPS, st.integers(0, 60), st.integers(0, 100_000))
@example([(0, 1)], 0, 0)
@example([(0, 5), (10, 900), (10, 1)], 0, 20_000)
def test_when_it_is_within_a_limit(
    steps: list[tuple[int, int]], pause_ms: int, limit_per_s: int
) -> None:
    rate, model = SampledRate(WINDOWS, WINDOW_MS), Listed()
    now_ms = 0
    for pause, amount in steps:
        now_ms += pause
        rate.record(amount, now_ms)
        model.recorded.append((now_ms, amount))
    now_ms += pause_ms
    by_trying = now_ms
    while model.measure(by_trying) > limit_per_s:
        by_trying += 1
    assert rate.within_at_ms(limit_per_s, now_ms) == by_trying


def test_what_is_kept_is_bounded() -> None:
    rate = SampledRate(WINDOWS, WINDOW_MS)
    for now_ms in range(5000):
        rate.record(1, now_ms)
    assert len(rate._samples) <= WINDOWS + 2
    assert rate.per_s(4999) == pytest.approx(1000, rel=0.1)
