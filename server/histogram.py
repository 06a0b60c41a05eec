"""How values are spread, over about the last minutes: for quantiles of times.

Like Apache Kafka's histograms (which favour the last five minutes) it forgets, so that what was
slow yesterday does not hide what is slow now; count and sum never go back.
"""

from __future__ import annotations

from typing import Final

WINDOW_S: Final = 150.0
"""Quantiles are of one to two windows: two and a half to five minutes."""

_STEPS: Final = 8
"""Buckets between a power of two and the next: a quantile is right to about 6 %."""

_STEP_BITS: Final = 3


class Histogram:
    """Values from 0 on, in any unit, kept to a thousandth of it."""

    __slots__ = ("_before", "_now", "_turns_s", "count", "maximum", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self.maximum = 0.0
        """The greatest value ever."""
        self._now: dict[int, int] = {}
        self._before: dict[int, int] = {}
        self._turns_s = float("-inf")

    def add(self, value: float, now_s: float, weight: int = 1) -> None:
        """Count `value`, which stands for `weight` of its kind; `now_s` never goes back."""
        if value < 0.0:
            value = 0.0
        if value > self.maximum:
            self.maximum = value
        if now_s >= self._turns_s:
            self._turn(now_s)
        self.count += weight
        self.total += value * weight
        bucket = _bucket(int(value * 1000))
        self._now[bucket] = self._now.get(bucket, 0) + weight

    def _turn(self, now_s: float) -> None:
        """Begin a window; what is older than the last one is forgotten."""
        passed = now_s - self._turns_s
        self._before = self._now if passed < WINDOW_S else {}
        self._now = {}
        self._turns_s = now_s + WINDOW_S

    def quantiles(self, wanted: tuple[float, ...], now_s: float) -> list[float]:
        """The values below which these parts (rising, 0 to 1) of the recent values lie; zeros
        when there are none."""
        if now_s >= self._turns_s:
            self._turn(now_s)
        merged = dict(self._before)
        for bucket, count in self._now.items():
            merged[bucket] = merged.get(bucket, 0) + count
        size = sum(merged.values())
        if not size:
            return [0.0] * len(wanted)
        buckets = sorted(merged.items())
        found, seen, at = [], 0, -1
        for part in wanted:
            while at < 0 or (seen < part * size and at + 1 < len(buckets)):
                at += 1
                seen += buckets[at][1]
            found.append(_middle(buckets[at][0]) / 1000)
        return found


def _bucket(value: int) -> int:
    """The bucket of a whole number: itself below 8, then by its highest bit and the 3 behind it."""
    if value < _STEPS:
        return value
    shift = value.bit_length() - 1 - _STEP_BITS
    return (shift + 1) * _STEPS + (value >> shift) - _STEPS


def _middle(bucket: int) -> float:
    """The middle of what falls into a bucket."""
    if bucket < _STEPS:
        return bucket
    shift, step = divmod(bucket - _STEPS, _STEPS)
    least: int = (step + _STEPS) << shift
    return least + ((1 << shift) - 1) / 2
