"""How late the event loop is: the time by which a timer misses its moment.

Whatever holds the loop delays everybody. Measured only while somebody may ask for it; four timers a
second cost less than a thousandth of a core.
"""

from __future__ import annotations

from typing import Final

from kavka.seams import Clock, Tasks, Timer
from kavka.server.runtime.histogram import Histogram

PERIOD_S: Final = 0.25


class LoopLag:
    """Runs from `start` to `stop`."""

    def __init__(self, clock: Clock, tasks: Tasks) -> None:
        self._clock = clock
        self._tasks = tasks
        self._timer: Timer | None = None
        self._due_s = 0.0
        self.last_ms = 0.0
        self.histogram = Histogram()
        """In milliseconds."""

    def start(self) -> None:
        """Begin to measure."""
        self._due_s = self._clock.monotonic_s() + PERIOD_S
        self._timer = self._tasks.call_later(PERIOD_S, self._tick)

    def _tick(self) -> None:
        now_s = self._clock.monotonic_s()
        self.last_ms = max(0.0, (now_s - self._due_s) * 1000)
        self.histogram.add(self.last_ms, now_s)
        self._due_s = now_s + PERIOD_S
        self._timer = self._tasks.call_later(PERIOD_S, self._tick)

    def stop(self) -> None:
        """Measure no more."""
        if self._timer is not None:
            self._timer.cancel()
