"""How values are spread, over about the last minutes: for quantiles of times.

Like Apache Kafka's histograms (which favour the last five minutes) it forgets, so that what was
slow yesterday does not hide what is slow now; count and sum never go back.
"""

from __future__ import annotations

from typing import Final

WINDOW_S: Final = 150.0
"""Quantiles are of one to two windows: two and a half to five minutes."""

_STEP_BITS: Final = 3
_STEPS: Final = 1 << _STEP_BITS
"""Buckets between a power of two and the next: a quantile is right to about 6 %."""


class Histogram:
    """Values from 0 on, in any unit, kept to a thousandth of it."""

    __slots__ = ("_before", "_now", "_turn", "_turns_s", "count", "maximum", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self.maximum = 0.0
        """The greatest value ever."""
        self._now: dict[int, int] = {}
        self._before: dict[int, int] = {}
        self._turns_s = float("-inf")
        self._turn = 0  # how often a window has begun

    def add(self, value: float, now_s: float, weight: int = 1) -> None:
        """Count `value`, which stands for `weight` of its kind; `now_s` never goes back."""
        if now_s >= self._turns_s:
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
        if bucket >= _STEPS:  # by its highest bit and the three behind it
            shift = bucket.bit_length() - 1 - _STEP_BITS
            bucket = (shift << _STEP_BITS) + (bucket >> shift)
        now = self._now
        now[bucket] = now.get(bucket, 0) + weight

    def _begin_window(self, now_s: float) -> None:
        """What is older than the last window is forgotten."""
        self._turn += 1 if now_s - self._turns_s < WINDOW_S else 2
        self._before = self._now if now_s - self._turns_s < WINDOW_S else {}
        self._now = {}
        self._turns_s = now_s + WINDOW_S

    def quantiles(self, wanted: tuple[float, ...], now_s: float) -> list[float]:
        """The values below which these parts (rising, 0 to 1) of the recent values lie; zeros
        when there are none."""
        if now_s >= self._turns_s:
            self._begin_window(now_s)
        return _quantiles(wanted, self._recent())

    def _recent(self) -> dict[int, int]:
        """Counts by bucket, of both windows."""
        merged = dict(self._before)
        for bucket, count in self._now.items():
            merged[bucket] = merged.get(bucket, 0) + count
        return merged


class PartHistogram(Histogram):
    """Another value of the events that `whole` counts, often 0: zeros need not be added.

    An event is added to `whole` first.
    """

    __slots__ = ("_whole",)

    def __init__(self, whole: Histogram) -> None:
        super().__init__()
        self._whole = whole

    def add(self, value: float, now_s: float, weight: int = 1) -> None:
        """Count `value` of an event that is in `whole`."""
        if self._turn != self._whole._turn:
            self._follow()
        self._put(value, weight)

    def _follow(self) -> None:
        """Begin the window that `whole` is in."""
        whole = self._whole
        self._before = self._now if whole._turn == self._turn + 1 else {}
        self._now = {}
        self._turn = whole._turn

    def quantiles(self, wanted: tuple[float, ...], now_s: float) -> list[float]:
        whole = self._whole
        if now_s >= whole._turns_s:
            whole._begin_window(now_s)
        if self._turn != whole._turn:
            self._follow()
        counts = self._recent()
        missing = sum(whole._recent().values()) - sum(counts.values())
        counts[0] = counts.get(0, 0) + missing
        return _quantiles(wanted, counts)


def _quantiles(wanted: tuple[float, ...], counts: dict[int, int]) -> list[float]:
    size = sum(counts.values())
    if not size:
        return [0.0] * len(wanted)
    buckets = sorted(counts.items())
    found, seen, at = [], 0, -1
    for part in wanted:
        while at < 0 or (seen < part * size and at + 1 < len(buckets)):
            at += 1
            seen += buckets[at][1]
        found.append(_middle(buckets[at][0]) / 1000)
    return found


def _middle(bucket: int) -> float:
    """The middle of what falls into a bucket."""
    if bucket < _STEPS:
        return bucket
    shift, step = divmod(bucket - _STEPS, _STEPS)
    least: int = (step + _STEPS) << shift
    return least + ((1 << shift) - 1) / 2
