"""Time, tasks and jobs without waiting: the seams for tests of machines and runners."""

from __future__ import annotations

import asyncio
import heapq
import random
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from kavka.seams import Pool
from support import strict_arenas


class VirtualClock:
    """A clock that stands still until it is moved."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._start_ms = now_ms
        self.elapsed_ms = 0.0

    def set(self, by_ms: int) -> None:
        """The time of day is set, forward or back; no time passes."""
        self._start_ms += by_ms

    def now_ms(self) -> int:
        return self._start_ms + int(self.elapsed_ms)

    def monotonic_s(self) -> float:
        return self.elapsed_ms / 1000


class VirtualTimer:
    def __init__(self, due_ms: float, callback: Callable[..., object], args: tuple[Any, ...]):
        self.due_ms = due_ms
        self.callback = callback
        self.args = args
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class VirtualTasks:
    """Tasks on the running asyncio loop, timers on the virtual clock."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._timers: list[tuple[float, int, VirtualTimer]] = []
        self._count = 0
        self._running: list[asyncio.Task[Any]] = []

    def spawn(self, coroutine: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self._running.append(task)
        return task

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        asyncio.get_running_loop().call_soon(callback, *args)

    def call_later(
        self, delay_s: float, callback: Callable[..., object], *args: Any
    ) -> VirtualTimer:
        timer = VirtualTimer(self._clock.elapsed_ms + delay_s * 1000, callback, args)
        self._count += 1
        heapq.heappush(self._timers, (timer.due_ms, self._count, timer))
        return timer

    def future(self) -> asyncio.Future[Any]:
        return asyncio.get_running_loop().create_future()

    async def sleep(self, delay_s: float) -> None:
        if delay_s <= 0:
            await asyncio.sleep(0)
            return
        woken = self.future()
        timer = self.call_later(delay_s, _wake, woken)
        try:
            await woken
        finally:
            timer.cancel()

    @property
    def pending_timers(self) -> int:
        return sum(not timer.cancelled for _, _, timer in self._timers)

    async def advance(self, by_ms: float) -> None:
        """Move the clock, running each timer at its time and what it sets going."""
        end_ms = self._clock.elapsed_ms + by_ms
        await run_until_idle()
        while self._timers and self._timers[0][0] <= end_ms:
            due_ms, _, timer = heapq.heappop(self._timers)
            self._clock.elapsed_ms = max(self._clock.elapsed_ms, due_ms)
            if not timer.cancelled:
                timer.callback(*timer.args)
                await run_until_idle()
        self._clock.elapsed_ms = end_ms


def _wake(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():  # else its task was cancelled
        sleeper.set_result(None)


async def run_until_idle(turns: int = 20) -> None:
    """Let everything run that can run without time passing."""
    for _ in range(turns):
        await asyncio.sleep(0)


class InlineWorker:
    """For a function that has no process of its own; its clock moves while it sleeps."""

    def __init__(self, on_message: Callable[[Any], object]) -> None:
        self._on_message = on_message
        self.now_s = 0.0

    def report(self, message: Any) -> None:
        self._on_message(message)

    def monotonic_s(self) -> float:
        return self.now_s

    def sleep(self, delay_s: float) -> None:
        self.now_s += delay_s


class DeferredJobs:
    """Jobs that begin at least a turn of the loop after they were asked for, in an order that the
    seed decides, one a turn; and that take nothing which is others' by then."""

    def __init__(self, seed: int = 1) -> None:
        self._random = random.Random(seed)
        self._waiting: list[tuple[asyncio.Future[Any], Callable[..., Any], tuple[Any, ...]]] = []

    def run(self, pool: Pool, function: Callable[..., Any], *args: Any) -> Awaitable[Any]:
        loop = asyncio.get_running_loop()
        result: asyncio.Future[Any] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._do_one)
        self._waiting.append((result, function, args))
        return result

    def drop(self) -> None:
        """The process ends: what has not begun never does."""
        self._waiting.clear()

    def _do_one(self) -> None:
        if not self._waiting:
            return
        at = self._random.randrange(len(self._waiting))
        result, function, args = self._waiting.pop(at)
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._do_one)
        do(result, function, args)

    def run_process(
        self,
        function: Callable[..., Any],
        *args: Any,
        on_message: Callable[[Any], object],
        keep: Sequence[int] = (),
    ) -> asyncio.Future[Any]:
        result: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        do(result, function, (InlineWorker(on_message), *args))
        return result


def do(result: asyncio.Future[Any], function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """Do a job whose time has come; perhaps nothing waits for it any more."""
    try:
        strict_arenas.check_owned(args)
        value = function(*args)
    except Exception as failure:
        if not result.done():
            result.set_exception(failure)
    else:
        if not result.done():
            result.set_result(value)
