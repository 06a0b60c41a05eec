"""Purgatory: delayed responses, such as of a Fetch that waits for records, or of a Produce that
waits for replicas.

A waiter watches the keys (partitions) whose change may complete it; code that changes a partition
calls `changed`.

A thousand consumers may wait for one partition, and one consumer for thousands of partitions. So
waiters are checked in slices that yield to the loop, in rounds: first all waiters of the keys that
changed so far, each once and in order, then those of keys that changed later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Final, TypeAlias

from kavka.seams import Tasks, Timer
from kavka.server.runtime import cooperative
from kavka.wire.steps import PauseCounter, Steps

KEYS_PER_STEP: Final = 25
"""Keys of the waiters checked in one slice: 10 to 30 us each for a Fetch, and most completed
waiters then make a response in the same loop iteration, at 50 us."""

Ready: TypeAlias = Callable[[], bool | Steps[bool]]
"""Whether a waiter is complete; in slices if that takes long."""


class _Waiter:
    __slots__ = ("future", "keys", "operation", "ready", "timer")

    def __init__(
        self,
        future: asyncio.Future[Any],
        keys: Sequence[Hashable],
        ready: Ready,
        operation: str,
    ) -> None:
        self.future = future
        self.keys = keys
        self.ready = ready
        self.operation = operation
        self.timer: Timer | None = None


class Purgatory:
    """All delayed responses of a broker; bounded by connections times requests in flight."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._waiters: dict[Hashable, dict[_Waiter, None]] = {}
        self._changed: dict[Hashable, None] = {}
        self._is_checking = False
        self._noted: list[dict[Hashable, None]] = []
        self.waiting: dict[str, int] = {}
        """Number of waiters, by operation."""
        self.watched: dict[str, int] = {}
        """Number of keys they watch, by operation."""
        self.expired: dict[str, int] = {}
        """Waiters that reached their deadline so far, by operation."""

    def __len__(self) -> int:
        """Number of distinct watched keys."""
        return len(self._waiters)

    def note_changes(self) -> dict[Hashable, None]:
        """A dict that collects the keys that change from now on, until `end_notes`. For a caller
        that reads partitions in slices and then waits: pass it to `wait`."""
        noted: dict[Hashable, None] = {}
        self._noted.append(noted)
        return noted

    def end_notes(self, noted: dict[Hashable, None]) -> None:
        """Stop adding changed keys to `noted`, a dict from `note_changes`."""
        self._noted = [one for one in self._noted if one is not noted]

    def wait(
        self,
        keys: Sequence[Hashable],
        ready: Ready,
        timeout_s: float,
        operation: str = "",
        *,
        noted: dict[Hashable, None] | None = None,
    ) -> asyncio.Future[Any]:
        """A future that becomes True when `ready()` is true after a change of one of `keys`, or
        False at the deadline. Cancelling it ends the wait. `ready` must not raise. `operation`
        is its name in the metrics. Changes already in `noted` count too."""
        waiter = _Waiter(self._tasks.future(), keys, ready, operation)
        self.waiting[operation] = self.waiting.get(operation, 0) + 1
        self.watched[operation] = self.watched.get(operation, 0) + len(keys)
        for key in keys:
            self._waiters.setdefault(key, {})[waiter] = None
        waiter.timer = self._tasks.call_later(timeout_s, self._expire, waiter)
        waiter.future.add_done_callback(lambda _: self._forget(waiter))
        if noted:
            for key in keys:
                if key in noted:
                    self.changed(key)
                    break
        return waiter.future

    def watch(self, key: Hashable, seen: Callable[[], object]) -> asyncio.Future[Any]:
        """Call `seen` in the loop iteration after each change of `key`, until the returned future
        is cancelled. `seen` must not raise."""

        def ready() -> bool:
            seen()
            return False

        waiter = _Waiter(self._tasks.future(), (key,), ready, "")
        self._waiters.setdefault(key, {})[waiter] = None
        waiter.future.add_done_callback(lambda _: self._remove(waiter))
        return waiter.future

    def changed(self, key: Hashable) -> None:
        """Check the waiters of `key`, from the loop's next iteration on; changes until then are
        coalesced."""
        if self._noted:
            for noted in self._noted:
                noted[key] = None
        if key not in self._waiters:
            return
        self._changed[key] = None
        if not self._is_checking:
            self._is_checking = True
            self._tasks.call_soon(self._check)

    def _check(self) -> None:
        rest = cooperative.run(self._tasks, self._check_changed())
        if rest is not None:
            self._tasks.spawn(rest, name="checks of waiting requests")

    def _check_changed(self) -> Steps[None]:
        try:
            while self._changed:
                changed, self._changed = self._changed, {}
                yield from self._check_round(changed)
        finally:
            self._is_checking = False

    def _check_round(self, changed: Iterable[Hashable]) -> Steps[None]:
        waiters: dict[_Waiter, None] = {}
        pauses = PauseCounter()
        for key in changed:
            of_key = self._waiters.get(key, {})
            waiters |= of_key
            if pauses.is_due(len(of_key)):
                yield None
        room = KEYS_PER_STEP
        for waiter in waiters:
            if room <= 0:
                yield None
                room = KEYS_PER_STEP
            if waiter.future.done():
                continue
            room -= len(waiter.keys)
            try:
                yield from _check_one(waiter)
            except Exception as fault:  # of this waiter; the others are still checked
                self._tasks.call_soon(_raise, fault)

    def _expire(self, waiter: _Waiter) -> None:
        if not waiter.future.done():
            self.expired[waiter.operation] = self.expired.get(waiter.operation, 0) + 1
            waiter.future.set_result(False)

    def _forget(self, waiter: _Waiter) -> None:
        waiter.ready = _never  # a running round may still hold the waiter: free its closure
        self.waiting[waiter.operation] -= 1
        self.watched[waiter.operation] -= len(waiter.keys)
        if waiter.timer is not None:
            waiter.timer.cancel()
        self._remove(waiter)

    def _remove(self, waiter: _Waiter) -> None:
        for key in waiter.keys:
            waiters = self._waiters.get(key)
            if waiters is not None:
                waiters.pop(waiter, None)
                if not waiters:
                    del self._waiters[key]


def _never() -> bool:
    return False


def _check_one(waiter: _Waiter) -> Steps[None]:
    is_ready = waiter.ready()
    if not isinstance(is_ready, bool):
        is_ready = yield from _run_unless_done(waiter, is_ready)
    if is_ready and not waiter.future.done():
        waiter.future.set_result(True)


def _run_unless_done(waiter: _Waiter, work: Steps[bool]) -> Steps[bool]:
    """The result of `work`, which is abandoned if the wait ends meanwhile."""
    while True:
        try:
            wanted = next(work)
        except StopIteration as end:
            return bool(end.value)
        yield wanted
        if waiter.future.done():
            work.close()
            return False


def _raise(fault: Exception) -> None:
    raise fault
