"""A rate, measured over the last few windows of time (KIP-13).

Amounts are added up in samples. A sample takes what comes within one window from its first amount
on, and counts until nothing in it is younger than all windows together. The rate is the sum of the
samples over the time since the oldest of them began, which counts as one window at least: the first
amounts of all do not give a rate that is too high. These are the rules of Apache Kafka's
`SimpleRate`.
"""

from __future__ import annotations

from collections import deque
from typing import Final


class _Sample:
    __slots__ = ("amount", "last_ms", "start_ms")

    def __init__(self, now_ms: int) -> None:
        self.start_ms = self.last_ms = now_ms
        self.amount = 0


class SampledRate:
    """The rate over `windows` windows of `window_ms` each. Times are of a monotonic clock, in ms;
    there are at most two samples more than windows."""

    def __init__(self, windows: int, window_ms: int) -> None:
        self._window_ms: Final = window_ms
        self._counts_ms: Final = windows * window_ms
        self._samples: deque[_Sample] = deque()
        self._total = 0

    def record(self, amount: int, now_ms: int) -> None:
        """Count an amount."""
        self._drop_old(now_ms)
        samples = self._samples
        if not samples or now_ms - samples[-1].start_ms >= self._window_ms:
            samples.append(_Sample(now_ms))
        samples[-1].amount += amount
        samples[-1].last_ms = now_ms
        self._total += amount

    def per_s(self, now_ms: int) -> float:
        """The rate in amounts a second."""
        self._drop_old(now_ms)
        if not self._samples:
            return 0.0
        elapsed_ms = max(now_ms - self._samples[0].start_ms, self._window_ms)
        return self._total * 1000 / elapsed_ms

    def within_at_ms(self, limit_per_s: int, now_ms: int) -> int:
        """The first time, from now on, at which the rate is not above the limit, if nothing more is
        recorded."""
        self._drop_old(now_ms)
        at_ms, total = now_ms, self._total
        for sample in self._samples:  # the oldest one that counts at that time
            if total * 1000 <= limit_per_s * self._window_ms:
                return at_ms
            gone_ms = sample.last_ms + self._counts_ms
            if limit_per_s > 0:
                needed_ms = -(-total * 1000 // limit_per_s)
                within_ms = max(at_ms, sample.start_ms + needed_ms)
                if within_ms < gone_ms:
                    return within_ms
            at_ms, total = max(at_ms, gone_ms), total - sample.amount
        return at_ms

    def _drop_old(self, now_ms: int) -> None:
        samples = self._samples
        while samples and now_ms - samples[0].last_ms >= self._counts_ms:
            self._total -= samples.popleft().amount
