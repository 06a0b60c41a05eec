"""Deadlines of many waits of which few are reached, with one timer for all.

A timer of the loop for each wait would cost 5 us, as most are cancelled within a millisecond.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Final, Generic, TypeVar

from kavka.seams import TIMER_ROUNDING_S, Clock, Tasks, Timer

T = TypeVar("T")

NEVER_S: Final = float("inf")

LINGER_S: Final = 1.0
"""A timer that is due within this time is kept when the last wait has ended: the next one may need
it."""

OVER_MAX: Final = 64
"""How many ended waits are kept at least before they are removed."""


class Deadlines(Generic[T]):
    """Calls `expire` with each wait whose deadline is reached, unless `is_over` says that it has
    ended before. The order is that of the deadlines."""

    __slots__ = (
        "_armed_s",
        "_clock",
        "_count",
        "_expire",
        "_is_over",
        "_over",
        "_tasks",
        "_timer",
        "_waits",
    )

    def __init__(
        self,
        clock: Clock,
        tasks: Tasks,
        expire: Callable[[T], object],
        is_over: Callable[[T], bool],
    ) -> None:
        self._clock = clock
        self._tasks = tasks
        self._expire = expire
        self._is_over = is_over
        self._waits: list[tuple[float, int, T]] = []
        """A heap, by deadline and then by number."""
        self._count = 0
        self._over = 0
        """Waits in the heap that have ended."""
        self._timer: Timer | None = None
        self._armed_s = NEVER_S
        """When the timer is due."""

    def __len__(self) -> int:
        """How many waits are held, some of which may have ended."""
        return len(self._waits)

    def add(self, wait: T, within_s: float) -> None:
        """Expire `wait` after so many seconds."""
        due_s = self._clock.monotonic_s() + within_s
        self._count += 1
        heappush(self._waits, (due_s, self._count, wait))
        if due_s < self._armed_s:
            self._arm(due_s, within_s)

    def ended(self) -> None:
        """A wait that was added has ended before its deadline, and counts as over now."""
        self._over += 1
        if self._over == len(self._waits):
            self._waits.clear()
            self._over = 0
            if self._armed_s - self._clock.monotonic_s() > LINGER_S:
                self._disarm()
        elif self._over > OVER_MAX and self._over * 2 > len(self._waits):
            self._waits = [entry for entry in self._waits if not self._is_over(entry[2])]
            heapify(self._waits)
            self._over = 0

    def _disarm(self) -> None:
        self._armed_s = NEVER_S
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, due_s: float, within_s: float) -> None:
        self._disarm()
        self._armed_s = due_s
        self._timer = self._tasks.call_later(max(within_s, 0.0), self._reached)

    def _reached(self) -> None:
        self._disarm()
        now_s = self._clock.monotonic_s()
        while self._waits:
            due_s, _, wait = self._waits[0]
            is_over = self._is_over(wait)
            if not is_over and due_s > now_s + TIMER_ROUNDING_S:
                if due_s < self._armed_s:  # else a callback has added an earlier one
                    self._arm(due_s, due_s - now_s)
                return
            heappop(self._waits)
            if is_over:
                self._over -= 1
            else:
                self._expire(wait)
