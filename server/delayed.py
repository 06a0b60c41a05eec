"""Answers that wait: for records to fetch, or for replicas to have what was produced.

Apache Kafka calls it the purgatory. A waiter names the keys (partitions) whose change may end
its wait; whoever changes a partition says so with `changed`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

from kavka.seams import Tasks, Timer


class _Waiter:
    __slots__ = ("future", "keys", "operation", "ready", "timer")

    def __init__(
        self,
        future: asyncio.Future[Any],
        keys: Sequence[Hashable],
        ready: Callable[[], bool],
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
        self.waiting: dict[str, int] = {}
        """How many wait, by operation."""
        self.watched: dict[str, int] = {}
        """For how many keys they wait, together."""
        self.expired: dict[str, int] = {}
        """How many waited in vain so far, by operation."""

    def __len__(self) -> int:
        """How many keys are waited for."""
        return len(self._waiters)

    def wait(
        self,
        keys: Sequence[Hashable],
        ready: Callable[[], bool],
        timeout_s: float,
        operation: str = "",
    ) -> asyncio.Future[Any]:
        """A future that becomes True as soon as `ready()` does after a change of one of `keys`,
        False at the deadline. Cancelling it ends the wait. `ready` must not raise. `operation`
        is what the metrics call it."""
        waiter = _Waiter(self._tasks.future(), keys, ready, operation)
        self.waiting[operation] = self.waiting.get(operation, 0) + 1
        self.watched[operation] = self.watched.get(operation, 0) + len(keys)
        for key in keys:
            self._waiters.setdefault(key, {})[waiter] = None
        waiter.timer = self._tasks.call_later(timeout_s, self._expire, waiter)
        waiter.future.add_done_callback(lambda _: self._forget(waiter))
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
        """Something happened to `key`. Its waiters are asked in the loop's next turn, once for
        all changes of this turn."""
        if key not in self._waiters:
            return
        if not self._changed:
            self._tasks.call_soon(self._ask)
        self._changed[key] = None

    def _ask(self) -> None:
        changed, self._changed = self._changed, {}
        asked: dict[_Waiter, None] = {}
        for key in changed:
            asked |= self._waiters.get(key, {})
        self._ask_each(iter(asked))

    def _ask_each(self, waiters: Iterator[_Waiter]) -> None:
        try:
            for waiter in waiters:
                if not waiter.future.done() and waiter.ready():
                    waiter.future.set_result(True)
        except BaseException:
            # A fault in one of them; the others would not be asked again for this change.
            self._tasks.call_soon(self._ask_each, waiters)
            raise

    def _expire(self, waiter: _Waiter) -> None:
        if not waiter.future.done():
            self.expired[waiter.operation] = self.expired.get(waiter.operation, 0) + 1
            waiter.future.set_result(False)

    def _forget(self, waiter: _Waiter) -> None:
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
