"""Holds a producer to a number of records a second."""

from __future__ import annotations

from collections.abc import Callable

from kavka.tools.perf.client import now_ms


class Throttle:
    """Waits where more was sent than the target allows by then."""

    def __init__(self, target: float, wait: Callable[[float], object]) -> None:
        """`target`: records a second, without limit if below 0, none at all at 0. `wait`: for so
        many seconds."""
        self._target = target
        self._wait = wait
        self._start_ms = now_ms()

    def after(self, count: int) -> None:
        """`count` were sent."""
        while self._target == 0:
            self._wait(1.0)
        if self._target < 0:
            return
        ahead_s = count / self._target - (now_ms() - self._start_ms) / 1000
        while ahead_s > 0:
            self._wait(min(ahead_s, 1.0))
            ahead_s = count / self._target - (now_ms() - self._start_ms) / 1000
