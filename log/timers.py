"""Deadlines of a state machine: which is next, and which have expired. Pure.

Postponing a deadline, as every heartbeat does, only sets a number: its entry stays in the heap
and is checked again when its old time comes.
"""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from typing import Final, TypeAlias

Key: TypeAlias = Hashable

SPARE_MAX: Final = 1000
"""Entries of cancelled deadlines that may stay in the heap, besides one for each deadline."""


class Deadline:
    """The deadline of a key; changed only by its `Timers`."""

    __slots__ = ("at_ms", "key", "queued_ms")

    def __init__(self, key: Key) -> None:
        self.key: Final = key
        self.at_ms: int | None = None
        """Without the shifts of the clock; None after it has expired or was cancelled."""
        self.queued_ms: int | None = None
        """The time of its valid entry in the heap; entries with other times are ignored."""


class Timers:
    """Deadlines in ms of any clock, by key; each key has at most one."""

    __slots__ = ("_deadlines", "_heap", "_number", "clock_shift_ms")

    def __init__(self) -> None:
        self.clock_shift_ms = 0
        """The sum of all shifts of the clock; it is subtracted from all times kept here."""
        self._deadlines: dict[Key, Deadline] = {}
        self._heap: list[tuple[int, int, Deadline]] = []
        self._number = 0

    def __len__(self) -> int:
        return len(self._deadlines)

    def __contains__(self, key: Key) -> bool:
        return key in self._deadlines

    def set(self, key: Key, at_ms: int) -> Deadline:
        """Set the deadline of `key` to `at_ms`, replacing an earlier one."""
        at_ms -= self.clock_shift_ms
        deadline = self._deadlines.get(key)
        if deadline is None:
            deadline = self._deadlines[key] = Deadline(key)
        deadline.at_ms = at_ms
        if deadline.queued_ms is None or at_ms < deadline.queued_ms:
            self._push(deadline, at_ms)
        return deadline

    def postpone(self, deadline: Deadline, at_ms: int) -> bool:
        """A fast `set` for a later time. False, without effect, if the deadline has expired, was
        cancelled, or `at_ms` is before its entry in the heap."""
        at_ms -= self.clock_shift_ms
        if deadline.at_ms is None or deadline.queued_ms is None or at_ms < deadline.queued_ms:
            return False
        deadline.at_ms = at_ms
        return True

    def cancel(self, key: Key) -> None:
        """Cancel the deadline of `key`; does nothing if there is none."""
        deadline = self._deadlines.pop(key, None)
        if deadline is not None:
            deadline.at_ms = None

    def at(self, key: Key) -> int | None:
        """The deadline of `key`."""
        deadline = self._deadlines.get(key)
        if deadline is None or deadline.at_ms is None:
            return None
        return deadline.at_ms + self.clock_shift_ms

    def clock_shifted(self, by_ms: int) -> None:
        """The wall clock was set forward by `by_ms` (back if negative): the remaining times of all
        deadlines stay the same."""
        self.clock_shift_ms += by_ms

    @property
    def queued(self) -> int:
        """The size of the heap, including entries of cancelled deadlines."""
        return len(self._heap)

    def wake_at(self) -> int | None:
        """When to call `due` next; None if there is nothing to wait for. May be earlier than the
        next deadline, never later."""
        return self._heap[0][0] + self.clock_shift_ms if self._heap else None

    def due(self, now_ms: int) -> Key | None:
        """The key of the earliest expired deadline, which is removed; None if there is none."""
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
            self._push(deadline, at_ms)  # others may be earlier, even if it has expired too
        return None

    def _push(self, deadline: Deadline, at_ms: int) -> None:
        # the number makes entries with equal times comparable, in order of insertion
        self._number += 1
        deadline.queued_ms = at_ms
        heappush(self._heap, (at_ms, self._number, deadline))
        if len(self._heap) > 2 * len(self._deadlines) + SPARE_MAX:
            self._remove_stale_entries()

    def _remove_stale_entries(self) -> None:
        """Remove invalid entries. Rare, since the heap must first grow to more than twice the
        number of deadlines."""
        self._heap[:] = [
            entry
            for entry in self._heap
            if entry[2].at_ms is not None and entry[2].queued_ms == entry[0]
        ]
        heapify(self._heap)
