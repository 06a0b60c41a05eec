"""Purgatory: delayed responses, such as of a Fetch that waits for records, or of a Produce that
waits for replicas.

A wait has the keys (partitions) whose change may complete it; code that changes a partition calls
`changed`.

A thousand consumers may wait for one partition, and one consumer for thousands of partitions. So
waits are checked in slices that yield to the loop, in rounds: first all waits of the keys that
changed so far, each once and in order, then those of keys that changed later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Final, TypeAlias

from kavka.seams import Clock, Tasks
from kavka.server.runtime import cooperative
from kavka.server.runtime.deadlines import Deadlines
from kavka.wire.steps import PauseCounter, Steps

KEYS_PER_STEP: Final = 25
"""Keys of the waits checked in one slice: 10 to 30 us each for a Fetch, and for most completed ones
a response is made at once, at 50 us."""

Ready: TypeAlias = Callable[[], bool | Steps[bool]]
"""Whether a wait is complete; in slices if that takes long."""


Ended: TypeAlias = Callable[[bool | None], object]
"""Called when a wait has ended: True if it is complete, False at its deadline, None if it was
cancelled."""


class Wait:
    """One wait in the purgatory. It is like a future, but its callbacks are called at once: a
    broker has thousands of waits a second, and each iteration of the loop costs some us."""

    __slots__ = (
        "_callbacks",
        "_purgatory",
        "has_deadline",
        "is_over",
        "keys",
        "operation",
        "ready",
    )

    def __init__(
        self,
        purgatory: Purgatory,
        keys: Sequence[Hashable],
        ready: Ready,
        operation: str,
        *,
        has_deadline: bool = True,
    ) -> None:
        """Without a deadline it is not counted."""
        self._purgatory = purgatory
        self._callbacks: list[Ended] = []
        self.keys = keys
        self.ready = ready
        self.operation = operation
        self.has_deadline = has_deadline
        self.is_over = False

    def add_callback(self, callback: Ended) -> None:
        """Call `callback` when it ends, which it has not yet."""
        self._callbacks.append(callback)

    def future(self) -> asyncio.Future[Any]:
        """A future of its outcome; if one of them is cancelled, so is the other."""
        future = self._purgatory.new_future()

        def ended(outcome: bool | None) -> None:
            if outcome is None:
                future.cancel()
            elif not future.done():
                future.set_result(outcome)

        self.add_callback(ended)
        future.add_done_callback(lambda _: self.cancel())
        return future

    def cancel(self) -> None:
        """End it, unless it has ended."""
        if not self.is_over:
            self._purgatory.cancel(self)

    def end(self, outcome: bool | None) -> None:
        """For the purgatory: call the callbacks, and keep nothing alive, as a round of checks or
        the deadlines may hold it longer."""
        callbacks, self._callbacks = self._callbacks, []
        self.ready = _never
        for callback in callbacks:
            try:
                callback(outcome)
            except Exception as fault:  # of this callback; the others are still called
                self._purgatory.report(fault)


class Purgatory:
    """All delayed responses of a broker; bounded by connections times requests in flight."""

    def __init__(self, clock: Clock, tasks: Tasks) -> None:
        self._tasks = tasks
        self._deadlines = Deadlines(clock, tasks, self._expire, _is_over)
        self._waits: dict[Hashable, dict[Wait, None]] = {}
        self._changed: dict[Hashable, None] = {}
        self._is_checking = False
        self._noted: list[dict[Hashable, None]] = []
        self.waiting: dict[str, int] = {}
        """Number of waits, by operation."""
        self.watched: dict[str, int] = {}
        """Number of keys they watch, by operation."""
        self.expired: dict[str, int] = {}
        """Waits that reached their deadline so far, by operation."""

    def __len__(self) -> int:
        """Number of distinct watched keys."""
        return len(self._waits)

    def note_changes(self) -> dict[Hashable, None]:
        """A dict that collects the keys that change from now on, until `end_notes`. For a caller
        that reads partitions in slices and then waits: pass it to `wait`."""
        noted: dict[Hashable, None] = {}
        self._noted.append(noted)
        return noted

    def end_notes(self, noted: dict[Hashable, None]) -> None:
        """Stop adding changed keys to `noted`, a dict from `note_changes`."""
        self._noted = [other for other in self._noted if other is not noted]

    def begin(
        self,
        keys: Sequence[Hashable],
        ready: Ready,
        timeout_s: float,
        operation: str = "",
        *,
        noted: dict[Hashable, None] | None = None,
    ) -> Wait:
        """Wait until `ready()` is true after a change of one of `keys`, or for `timeout_s`. `ready`
        must not raise. `operation` is its name in the metrics. Changes already in `noted` count
        too."""
        wait = Wait(self, keys, ready, operation)
        self.waiting[operation] = self.waiting.get(operation, 0) + 1
        self.watched[operation] = self.watched.get(operation, 0) + len(keys)
        for key in keys:
            self._waits.setdefault(key, {})[wait] = None
        self._deadlines.add(wait, timeout_s)
        if noted:
            for key in keys:
                if key in noted:
                    self.changed(key)
                    break
        return wait

    def wait(
        self,
        keys: Sequence[Hashable],
        ready: Ready,
        timeout_s: float,
        operation: str = "",
        *,
        noted: dict[Hashable, None] | None = None,
    ) -> asyncio.Future[Any]:
        """As `begin`: a future that becomes True, or False at the deadline. Cancelling it ends the
        wait."""
        return self.begin(keys, ready, timeout_s, operation, noted=noted).future()

    def new_future(self) -> asyncio.Future[Any]:
        """For a wait of this purgatory."""
        return self._tasks.future()

    def watch(self, key: Hashable, seen: Callable[[], object]) -> Wait:
        """Call `seen` in the loop iteration after each change of `key`, until the wait is
        cancelled. `seen` must not raise."""

        def ready() -> bool:
            seen()
            return False

        wait = Wait(self, (key,), ready, "", has_deadline=False)
        self._waits.setdefault(key, {})[wait] = None
        return wait

    def changed(self, key: Hashable) -> None:
        """Check the waits for `key`, from the loop's next iteration on; changes until then are
        coalesced."""
        if self._noted:
            for noted in self._noted:
                noted[key] = None
        if key not in self._waits:
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
        waits: dict[Wait, None] = {}
        pauses = PauseCounter()
        for key in changed:
            of_key = self._waits.get(key, {})
            waits |= of_key
            if pauses.is_due(len(of_key)):
                yield None
        room = KEYS_PER_STEP
        for wait in waits:
            if room <= 0:
                yield None
                room = KEYS_PER_STEP
            if wait.is_over:
                continue
            room -= len(wait.keys)
            try:
                is_ready = wait.ready()
                if not isinstance(is_ready, bool):
                    is_ready = yield from _run_unless_over(wait, is_ready)
                if is_ready and not wait.is_over:
                    self._complete(wait)
            except Exception as fault:  # of this wait; the others are still checked
                self.report(fault)

    def _complete(self, wait: Wait) -> None:
        self._remove(wait)
        self._deadlines.ended()
        wait.end(True)

    def cancel(self, wait: Wait) -> None:
        """End a wait that is not over."""
        self._remove(wait)
        if wait.has_deadline:
            self._deadlines.ended()
        wait.end(None)

    def report(self, fault: Exception) -> None:
        """Raise it in the loop, which reports it."""
        self._tasks.call_soon(_raise, fault)

    def _expire(self, wait: Wait) -> None:
        self._remove(wait)
        self.expired[wait.operation] = self.expired.get(wait.operation, 0) + 1
        wait.end(False)

    def _remove(self, wait: Wait) -> None:
        wait.is_over = True
        if wait.has_deadline:
            self.waiting[wait.operation] -= 1
            self.watched[wait.operation] -= len(wait.keys)
        for key in wait.keys:
            waits = self._waits.get(key)
            if waits is not None:
                waits.pop(wait, None)
                if not waits:
                    del self._waits[key]


def _never() -> bool:
    return False


def _is_over(wait: Wait) -> bool:
    return wait.is_over


def _run_unless_over(wait: Wait, work: Steps[bool]) -> Steps[bool]:
    """The result of `work`, which is abandoned if the wait ends meanwhile."""
    while True:
        try:
            yielded = next(work)
        except StopIteration as end:
            return bool(end.value)
        yield yielded
        if wait.is_over:
            work.close()
            return False


def _raise(fault: Exception) -> None:
    raise fault
