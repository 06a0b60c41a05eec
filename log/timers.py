"""Deadlines of a state machine: which comes next, and which have passed. Pure.

To move a deadline to a later time, which is what every heartbeat does, costs one entry in a dict:
where it stood in the heap it stays, and is looked at again when that time comes.
"""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from typing import Final, TypeAlias

Key: TypeAlias = Hashable

SPARE_MAX: Final = 1000
"""Entries of the heap that may be left of deadlines cancelled, beside one for each that is set."""


class Timers:
    """Deadlines in ms of any clock, by key; each key has at most one."""

    __slots__ = ("_at", "_heap", "_number", "_queued", "set_by_ms")

    def __init__(self) -> None:
        self.set_by_ms = 0
        """By how much the clock has been set in all; inside, times are told as if it had not."""
        self._at: dict[Key, int] = {}
        self._queued: dict[Key, int] = {}
        self._heap: list[tuple[int, int, Key]] = []
        self._number = 0

    def __len__(self) -> int:
        return len(self._at)

    def __contains__(self, key: Key) -> bool:
        return key in self._at

    def set(self, key: Key, at_ms: int) -> None:
        """Let `key` be due at `at_ms`, and no more at the time it had before."""
        at_ms -= self.set_by_ms
        self._at[key] = at_ms
        queued = self._queued.get(key)
        if queued is None or at_ms < queued:
            self._push(key, at_ms)

    def cancel(self, key: Key) -> None:
        """Let `key` not be due any more; nothing happens if it was not going to be."""
        self._at.pop(key, None)

    def at(self, key: Key) -> int | None:
        """When `key` is due."""
        at_ms = self._at.get(key)
        return None if at_ms is None else at_ms + self.set_by_ms

    def clock_set(self, by_ms: int) -> None:
        """The clock was set forward by so much, or back if that is below zero: what was to come
        in a minute still does."""
        self.set_by_ms += by_ms

    @property
    def queued(self) -> int:
        """How much room is taken: entries of the heap, those of cancelled deadlines included."""
        return len(self._heap)

    def wake_at(self) -> int | None:
        """When to ask `due` next; None if there is nothing to wait for. Perhaps earlier than
        anything is due, never later."""
        return self._heap[0][0] + self.set_by_ms if self._heap else None

    def due(self, now_ms: int) -> Key | None:
        """One key whose deadline has passed, the earliest; it has none any more."""
        heap = self._heap
        now_ms -= self.set_by_ms
        while heap and heap[0][0] <= now_ms:
            queued, _, key = heappop(heap)
            if self._queued.get(key) != queued:
                continue  # it was queued again for an earlier time
            del self._queued[key]
            at = self._at.get(key)
            if at is None:
                continue
            if at == queued:
                del self._at[key]
                return key
            self._push(key, at)  # there are earlier ones perhaps, even if it has passed as well
        return None

    def _push(self, key: Key, at_ms: int) -> None:
        # the number keeps the order of equals, whose keys may not compare
        self._number += 1
        self._queued[key] = at_ms
        heappush(self._heap, (at_ms, self._number, key))
        if len(self._heap) > 2 * len(self._at) + SPARE_MAX:
            self._tidy()

    def _tidy(self) -> None:
        """Let go of what is not waited for: with as many entries as deadlines at most, it takes a
        moment, and comes seldom."""
        at, queued = self._at, self._queued
        self._heap[:] = [
            entry for entry in self._heap if entry[2] in at and queued.get(entry[2]) == entry[0]
        ]
        heapify(self._heap)
        self._queued = {key: at_ms for at_ms, _, key in self._heap}
