"""Histograms of the last few minutes, for quantiles of times.

Like Apache Kafka's histograms (which favour the last five minutes) they drop old values, so that
yesterday's slow requests do not hide today's; count and sum never decrease.
"""

from __future__ import annotations

from typing import Final

WINDOW_S: Final = 150.0
"""Quantiles cover one to two windows: two and a half to five minutes."""

_STEP_BITS: Final = 3
_STEPS: Final = 1 << _STEP_BITS
"""Buckets between a power of two and the next: the error of a quantile is about 6 %."""


class Histogram:
    """Values from 0 on, in any unit, with a resolution of a thousandth of it."""

    __slots__ = ("_before", "_now", "_window", "_window_ends_s", "count", "maximum", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self.maximum = 0.0
        """The greatest value ever."""
        self._now: dict[int, int] = {}
        self._before: dict[int, int] = {}
        self._window_ends_s = float("-inf")
        self._window = 0  # how often a window has begun

    def add(self, value: float, now_s: float, weight: int = 1) -> None:
        """Count `value` with a weight; `now_s` must not decrease."""
        if now_s >= self._window_ends_s:
            self._begin_window(now_s)
        self._put(value, weight)

    def _put(self, value: float, weight: int) -> None:
        if value > self.maximum:
            self.maximum = value
        elif value < 0.0:
            value = 0.0
        self.count += weight
        self.total += value * weight
        bucket = int(value * 1000)
        if bucket >= _STEPS:  # by its highest bit and the three bits after it
            shift = bucket.bit_length() - 1 - _STEP_BITS
            bucket = (shift << _STEP_BITS) + (bucket >> shift)
        now = self._now
        now[bucket] = now.get(bucket, 0) + weight

    def _begin_window(self, now_s: float) -> None:
        """Drop values older than the last window."""
        self._window += 1 if now_s - self._window_ends_s < WINDOW_S else 2
        self._before = self._now if now_s - self._window_ends_s < WINDOW_S else {}
        self._now = {}
        self._window_ends_s = now_s + WINDOW_S

    def quantiles(self, fractions: tuple[float, ...], now_s: float) -> list[float]:
        """The quantiles of the recent values for `fractions` (ascending, 0 to 1); zeros if
        there are none."""
        if now_s >= self._window_ends_s:
            self._begin_window(now_s)
        return _quantiles(fractions, self._recent())

    def _recent(self) -> dict[int, int]:
        """Counts by bucket, of both windows."""
        merged = dict(self._before)
        for bucket, count in self._now.items():
            merged[bucket] = merged.get(bucket, 0) + count
        return merged


class PartHistogram(Histogram):
    """A second value of the events that `whole` counts, such as a part of the total time.

    An event must be added to `whole` first. Zeros, which are frequent, need not be added here.
    """

    __slots__ = ("_whole",)

    def __init__(self, whole: Histogram) -> None:
        super().__init__()
        self._whole = whole

    def add(self, value: float, now_s: float, weight: int = 1) -> None:
        """Count `value` of an event that is in `whole`."""
        if self._window != self._whole._window:
            self._follow()
        self._put(value, weight)

    def _follow(self) -> None:
        """Begin the current window of `whole`."""
        whole = self._whole
        self._before = self._now if whole._window == self._window + 1 else {}
        self._now = {}
        self._window = whole._window

    def quantiles(self, fractions: tuple[float, ...], now_s: float) -> list[float]:
        whole = self._whole
        if now_s >= whole._window_ends_s:
            whole._begin_window(now_s)
        if self._window != whole._window:
            self._follow()
        counts = self._recent()
        missing = sum(whole._recent().values()) - sum(counts.values())
        counts[0] = counts.get(0, 0) + missing
        return _quantiles(fractions, counts)


def _quantiles(fractions: tuple[float, ...], counts: dict[int, int]) -> list[float]:
    size = sum(counts.values())
    if not size:
        return [0.0] * len(fractions)
    buckets = sorted(counts.items())
    found, seen, at = [], 0, -1
    for fraction in fractions:
        while at < 0 or (seen < fraction * size and at + 1 < len(buckets)):
            at += 1
            seen += buckets[at][1]
        found.append(_middle(buckets[at][0]) / 1000)
    return found


def _middle(bucket: int) -> float:
    """The middle of a bucket's range."""
    if bucket < _STEPS:
        return bucket
    shift, step = divmod(bucket - _STEPS, _STEPS)
    least: int = (step + _STEPS) << shift
    return least + ((1 << shift) - 1) / 2
