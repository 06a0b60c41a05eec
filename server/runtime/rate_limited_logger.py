"""Rate limits log lines about events that any client can cause."""

from __future__ import annotations

import logging
from typing import Final

from kavka.seams import Tasks, Timer

LINES_MAX: Final = 20
"""Lines of one kind in one period; further ones are only counted."""

PERIOD_S: Final = 10.0


class RateLimitedLogger:
    """Logs the first LINES_MAX lines of each period, and at its end how many were suppressed.

    A period begins with its first line. `events` is what the lines are about, in
    the plural.
    """

    def __init__(self, logger: logging.Logger, level: int, events: str, tasks: Tasks) -> None:
        self._logger = logger
        self._level = level
        self._events = events
        self._tasks = tasks
        self._period: Timer | None = None
        self._lines = 0
        self.count = 0
        """Events since the start, logged or not."""

    def line(self, text: str, *values: object) -> None:
        """Log one event, in one line."""
        self.count += 1
        if self._period is None:
            self._period = self._tasks.call_later(PERIOD_S, self._end)
        self._lines += 1
        if self._lines <= LINES_MAX:
            self._logger.log(self._level, text, *values)

    def close(self) -> None:
        """End the period now, if there is one."""
        if self._period is not None:
            self._period.cancel()
            self._end()

    def _end(self) -> None:
        left_out = self._lines - LINES_MAX
        self._period = None
        self._lines = 0
        if left_out > 0:
            self._logger.log(
                self._level, "%d more %s in %d s", left_out, self._events, int(PERIOD_S)
            )
