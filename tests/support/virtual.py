"""Time, tasks and jobs without waiting: the seams for tests of machines and runners."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any


class VirtualClock:
    """A clock that stands still until it is moved."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._start_ms = now_ms
        self.elapsed_ms = 0.0

    def set(self, by_ms: int) -> None:
        """Somebody sets the time of the day, forward or back; no time passes."""
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
        await settle()
        while self._timers and self._timers[0][0] <= end_ms:
            due_ms, _, timer = heapq.heappop(self._timers)
            self._clock.elapsed_ms = max(self._clock.elapsed_ms, due_ms)
            if not timer.cancelled:
                timer.callback(*timer.args)
                await settle()
        self._clock.elapsed_ms = end_ms


def _wake(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():  # else its task was cancelled
        sleeper.set_result(None)


async def settle(turns: int = 20) -> None:
    """Let everything run that can run without time passing."""
    for _ in range(turns):
        await asyncio.sleep(0)


class InlineWorker:
    """For a function that has no process of its own; its clock moves while it sleeps."""

    def __init__(self, told: Callable[[Any], object]) -> None:
        self._told = told
        self.now_s = 0.0

    def tell(self, news: Any) -> None:
        self._told(news)

    def monotonic_s(self) -> float:
        return self.now_s

    def sleep(self, delay_s: float) -> None:
        self.now_s += delay_s


class InlineJobs:
    """Jobs done at once, on the spot."""

    def run(self, function: Callable[..., Any], *args: Any) -> Awaitable[Any]:
        return self._now(function, *args)

    @staticmethod
    def _now(function: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        done = asyncio.get_running_loop().create_future()
        try:
            done.set_result(function(*args))
        except Exception as failure:
            done.set_exception(failure)
        return done

    def run_process(
        self, function: Callable[..., Any], *args: Any, told: Callable[[Any], object]
    ) -> asyncio.Future[Any]:
        return self._now(function, InlineWorker(told), *args)
