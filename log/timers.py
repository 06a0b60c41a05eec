"""Deadlines of a state machine: which comes next, and which have passed. Pure.

To move a deadline to a later time, which is what every heartbeat does, costs one number: where it
stood in the heap it stays, and is looked at again when that time comes.
"""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from typing import Final, TypeAlias

Key: TypeAlias = Hashable

SPARE_MAX: Final = 1000
"""Entries of the heap that may be left of deadlines cancelled, beside one for each that is set."""


class Deadline:
    """When a key is due, by its `Timers`, which alone change it."""

    __slots__ = ("at_ms", "key", "queued_ms")

    def __init__(self, key: Key) -> None:
        self.key: Final = key
        self.at_ms: int | None = None
        """As if the clock had never been set; None once it has passed or is cancelled, for good."""
        self.queued_ms: int | None = None
        """The time of its entry in the heap; of more than one, the one that counts."""


class Timers:
    """Deadlines in ms of any clock, by key; each key has at most one."""

    __slots__ = ("_deadlines", "_heap", "_number", "clock_shift_ms")

    def __init__(self) -> None:
        self.clock_shift_ms = 0
        """By how much the clock has been set in all; inside, times are told as if it had not."""
        self._deadlines: dict[Key, Deadline] = {}
        self._heap: list[tuple[int, int, Deadline]] = []
        self._number = 0

    def __len__(self) -> int:
        return len(self._deadlines)

    def __contains__(self, key: Key) -> bool:
        return key in self._deadlines

    def set(self, key: Key, at_ms: int) -> Deadline:
        """Let `key` be due at `at_ms`, and no more at the time it had before."""
        at_ms -= self.clock_shift_ms
        deadline = self._deadlines.get(key)
        if deadline is None:
            deadline = self._deadlines[key] = Deadline(key)
        deadline.at_ms = at_ms
        if deadline.queued_ms is None or at_ms < deadline.queued_ms:
            self._push(deadline, at_ms)
        return deadline

    def postpone(self, deadline: Deadline, at_ms: int) -> bool:
        """`set` of its key, but quicker; False, and nothing is done, where that is not all: it has
        passed, is cancelled, or would be sooner than it may be asked for."""
        at_ms -= self.clock_shift_ms
        if deadline.at_ms is None or deadline.queued_ms is None or at_ms < deadline.queued_ms:
            return False
        deadline.at_ms = at_ms
        return True

    def cancel(self, key: Key) -> None:
        """Let `key` not be due any more; nothing happens if it was not going to be."""
        deadline = self._deadlines.pop(key, None)
        if deadline is not None:
            deadline.at_ms = None

    def at(self, key: Key) -> int | None:
        """When `key` is due."""
        deadline = self._deadlines.get(key)
        if deadline is None or deadline.at_ms is None:
            return None
        return deadline.at_ms + self.clock_shift_ms

    def clock_shifted(self, by_ms: int) -> None:
        """The clock was set forward by so much, or back if that is below zero: what was to come
        in a minute still does."""
        self.clock_shift_ms += by_ms

    @property
    def queued(self) -> int:
        """How much room is taken: entries of the heap, those of cancelled deadlines included."""
        return len(self._heap)

    def wake_at(self) -> int | None:
        """When to ask `due` next; None if there is nothing to wait for. Perhaps earlier than
        anything is due, never later."""
        return self._heap[0][0] + self.clock_shift_ms if self._heap else None

    def due(self, now_ms: int) -> Key | None:
        """One key whose deadline has passed, the earliest; it has none any more."""
        heap = self._heap
        now_ms -= self.clock_shift_ms
        while heap and heap[0][0] <= now_ms:
            queued_ms, _, deadline = heappop(heap)
            if deadline.queued_ms != queued_ms:
                continue  # it was queued again for an earlier time
            deadline.queued_ms = None
            at_ms = deadline.at_ms
            if at_ms is None:
                continue
            if at_ms == queued_ms:
                deadline.at_ms = None
                del self._deadlines[deadline.key]
                return deadline.key
            self._push(deadline, at_ms)  # others are earlier perhaps, even if it has passed too
        return None

    def _push(self, deadline: Deadline, at_ms: int) -> None:
        # the number keeps the order of equals, which do not compare
        self._number += 1
        deadline.queued_ms = at_ms
        heappush(self._heap, (at_ms, self._number, deadline))
        if len(self._heap) > 2 * len(self._deadlines) + SPARE_MAX:
            self._tidy()

    def _tidy(self) -> None:
        """Let go of what is not waited for: with as many entries as deadlines at most, it takes a
        moment, and comes seldom."""
        self._heap[:] = [
            entry
            for entry in self._heap
            if entry[2].at_ms is not None and entry[2].queued_ms == entry[0]
        ]
        heapify(self._heap)
