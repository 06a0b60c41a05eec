"""The event loop's lag: how late a timer fires.

Whatever blocks the loop delays all clients. Measured only if the HTTP server runs; four timers a
second cost less than a thousandth of a core.
"""

from __future__ import annotations

from typing import Final

from kavka.seams import Clock, Tasks, Timer
from kavka.server.runtime.histogram import Histogram

PERIOD_S: Final = 0.25


class LoopLag:
    """Measures the lag from `start` to `stop`."""

    def __init__(self, clock: Clock, tasks: Tasks) -> None:
        self._clock = clock
        self._tasks = tasks
        self._timer: Timer | None = None
        self._due_s = 0.0
        self.last_ms = 0.0
        self.histogram = Histogram()
        """In milliseconds."""

    def start(self) -> None:
        """Start measuring."""
        self._due_s = self._clock.monotonic_s() + PERIOD_S
        self._timer = self._tasks.call_later(PERIOD_S, self._tick)

    def _tick(self) -> None:
        now_s = self._clock.monotonic_s()
        self.last_ms = max(0.0, (now_s - self._due_s) * 1000)
        self.histogram.add(self.last_ms, now_s)
        self._due_s = now_s + PERIOD_S
        self._timer = self._tasks.call_later(PERIOD_S, self._tick)

    def stop(self) -> None:
        """Stop measuring."""
        if self._timer is not None:
            self._timer.cancel()
