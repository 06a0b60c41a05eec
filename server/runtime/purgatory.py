"""Answers that wait: for records to fetch, or for replicas to have what was produced.

Apache Kafka calls it the purgatory. A waiter names the keys (partitions) whose change may end
its wait; whoever changes a partition says so with `changed`.

A thousand consumers may wait for one partition, and one of them for thousands of partitions. So
waiters are asked a few at a time, with turns of the loop for others in between, in rounds: all
whom the changes so far concern, each once and in order, before those whom later ones do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final, TypeAlias

from kavka.seams import Tasks, Timer
from kavka.wire.steps import PauseCounter, Slices

KEYS_A_TURN: Final = 25
"""Keys whose waiters are asked before the loop gets a turn: 10 to 30 us each for a Fetch, and
most of those who are woken have an answer made for them in that turn, of 50 us."""

Ready: TypeAlias = Callable[[], bool | Slices[bool]]
"""Whether a wait is over; in slices where that takes long."""


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
    """All waiting answers of a broker; bounded by connections times requests in flight."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._waiters: dict[Hashable, dict[_Waiter, None]] = {}
        self._changed: dict[Hashable, None] = {}
        self._is_asking = False
        self._noted: list[dict[Hashable, None]] = []
        self.waiting: dict[str, int] = {}
        """How many wait, by operation."""
        self.watched: dict[str, int] = {}
        """For how many keys they wait, together."""
        self.expired: dict[str, int] = {}
        """How many waited in vain so far, by operation."""

    def __len__(self) -> int:
        """How many keys are waited for."""
        return len(self._waiters)

    def note_changes(self) -> dict[Hashable, None]:
        """The keys that change from now on, for who looks at them in slices before it waits. It
        ends with `end_notes`."""
        noted: dict[Hashable, None] = {}
        self._noted.append(noted)
        return noted

    def end_notes(self, noted: dict[Hashable, None]) -> None:
        """Note no more changes in `noted`."""
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
        """A future that becomes True as soon as `ready()` does after a change of one of `keys`,
        False at the deadline. Cancelling it ends the wait. `ready` must not raise. `operation`
        is what the metrics call it. Changes that were `noted` count."""
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
        """Have `seen` called in the loop's next turn after each change of `key`, until the future
        that is returned is cancelled. `seen` must not raise."""

        def ready() -> bool:
            seen()
            return False

        waiter = _Waiter(self._tasks.future(), (key,), ready, "")
        self._waiters.setdefault(key, {})[waiter] = None
        waiter.future.add_done_callback(lambda _: self._remove(waiter))
        return waiter.future

    def changed(self, key: Hashable) -> None:
        """Something happened to `key`. Its waiters are asked from the loop's next turn on, once
        for all changes until then."""
        if self._noted:
            for noted in self._noted:
                noted[key] = None
        if key not in self._waiters:
            return
        self._changed[key] = None
        if not self._is_asking:
            self._is_asking = True
            self._tasks.call_soon(self._ask, self._rounds())

    def _ask(self, rounds: Slices[None]) -> None:
        try:
            next(rounds)
        except BaseException as end:
            self._is_asking = False
            if not isinstance(end, StopIteration):
                raise
        else:
            self._tasks.call_soon(self._ask, rounds)

    def _rounds(self) -> Slices[None]:
        while self._changed:
            changed, self._changed = self._changed, {}
            waiters: dict[_Waiter, None] = {}
            pauses = PauseCounter()
            for key in changed:
                of_key = self._waiters.get(key, {})
                waiters |= of_key
                if pauses.is_due(len(of_key)):
                    yield
            room = KEYS_A_TURN
            for waiter in waiters:
                if room <= 0:
                    yield
                    room = KEYS_A_TURN
                if waiter.future.done():
                    continue
                room -= len(waiter.keys)
                try:
                    yield from _ask_one(waiter)
                except Exception as fault:  # of this one; the others are asked all the same
                    self._tasks.call_soon(_raise, fault)

    def _expire(self, waiter: _Waiter) -> None:
        if not waiter.future.done():
            self.expired[waiter.operation] = self.expired.get(waiter.operation, 0) + 1
            waiter.future.set_result(False)

    def _forget(self, waiter: _Waiter) -> None:
        waiter.ready = _is_over  # while others are asked it is held, but not what it waited with
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


def _is_over() -> bool:
    return False


def _ask_one(waiter: _Waiter) -> Slices[None]:
    is_ready = waiter.ready()
    if not isinstance(is_ready, bool):
        is_ready = yield from _while_it_waits(waiter, is_ready)
    if is_ready and not waiter.future.done():
        waiter.future.set_result(True)


def _while_it_waits(waiter: _Waiter, work: Slices[bool]) -> Slices[bool]:
    """What `work` comes to; its rest is not done once nobody waits for it."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return bool(end.value)
        yield
        if waiter.future.done():
            work.close()
            return False


def _raise(fault: Exception) -> None:
    raise fault
