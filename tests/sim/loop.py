"""An event loop on virtual time, for the processes of a simulated world.

Each process has its own queue of ready callbacks, first in, first out as in asyncio. Which process
runs its next callbacks is drawn from the seed, and so is the order of timers of the same time. Time
passes only when no process has anything to run; when no timer is left either, the loop is idle.
"""

from __future__ import annotations

import asyncio
import gc
import heapq
import inspect
import math
import random
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from types import CoroutineType
from typing import Any

RUNNING: ContextVar[Process] = ContextVar("process")
"""The process whose code runs; tasks and callbacks inherit it from what creates them."""


CHECK_STEPS = 200
STEPS_MAX = 1_000_000
"""Callbacks after which a run is given up; most have some ten thousand."""


def _nothing() -> None:
    pass


class Process:
    """A process of the world: a broker, a client, or the world itself.

    Its clock is ahead of the world's by `offset_ms`, and gains `drift` seconds a second.
    """

    def __init__(self, loop: SimLoop, name: str, *, offset_ms: int = 0, drift: float = 0.0) -> None:
        self.name = name
        self.offset_ms = offset_ms
        self.rate = 1 + drift
        self.is_dead = False
        self.is_paused = False
        self.ready: deque[SimHandle] = deque()
        self.is_queued = False
        """Whether the loop has it among those that have something to run."""
        self.context = copy_context()
        self.context.run(RUNNING.set, self)
        self.loop = loop
        self.tasks: dict[asyncio.Task[Any], None] = {}
        """All that it has begun. A process that is killed does not run their `finally` blocks, so
        they are kept until the world ends."""

    def run(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function as this process."""
        return self.context.copy().run(function, *args)

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        """Let the process call it: an event from outside."""
        self.loop.enqueue(SimHandle(self, callback, args, self.context.copy()))

    def call_at(self, due_s: float, callback: Callable[..., object], *args: Any) -> SimTimer:
        """Let the process call it at a time of the world's clock."""
        return self.loop.schedule(SimTimer(self, due_s, callback, args, self.context.copy()))

    def call_later(self, delay_s: float, callback: Callable[..., object], *args: Any) -> SimTimer:
        """The same, so many seconds of the world's clock from now."""
        return self.call_at(self.loop.now_s + delay_s, callback, *args)

    def spawn(self, coroutine: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
        """Run a coroutine as a task of this process."""
        task: asyncio.Task[Any] = self.run(
            lambda: self.loop.create_task(coroutine, name=f"{self.name}: {name}")
        )
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and (failure := task.exception()) is not None:
            self.loop.failures.append({"task": task.get_name(), "exception": failure})

    def elapsed_s(self) -> float:
        """Its monotonic clock."""
        return self.loop.now_s * self.rate

    def now_ms(self) -> int:
        """Its clock of the day."""
        return EPOCH_MS + self.offset_ms + int(self.elapsed_s() * 1000)

    def kill(self) -> None:
        """Nothing of it runs any further."""
        self.is_dead = True
        self.ready.clear()
        for task in self.tasks:
            match task.get_coro():
                case CoroutineType() as coroutine if (
                    inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED
                ):
                    coroutine.close()  # Python would warn that it was never awaited

    def pause(self) -> None:
        """SIGSTOP."""
        self.is_paused = True

    def resume(self) -> None:
        """SIGCONT."""
        self.is_paused = False
        self.loop.resumed(self)


EPOCH_MS = 1_700_000_000_000


class SimHandle(asyncio.Handle):
    """A callback of a process. Made in one step: a world makes some hundred thousand of them."""

    __slots__ = ("process",)
    _loop: SimLoop
    _callback: Callable[..., object]
    _args: tuple[Any, ...]
    _context: Context
    _cancelled: bool

    def __init__(
        self,
        process: Process,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context,
    ) -> None:
        self.process = process
        self._callback = callback
        self._args = args
        self._context = context
        self._loop = process.loop
        self._cancelled = False
        self._repr = self._source_traceback = None


class SimTimer(SimHandle):
    """A callback at a time of the world's clock. Its `cancel` needs no word to the loop."""

    __slots__ = ("due_s",)

    def __init__(
        self,
        process: Process,
        due_s: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context,
    ) -> None:
        super().__init__(process, callback, args, context)
        self.due_s = due_s


class SimClock:
    """`kavka.seams.Clock` of a process."""

    def __init__(self, process: Process) -> None:
        self.now_ms = process.now_ms
        self.monotonic_s = process.elapsed_s


class SimLoop(asyncio.AbstractEventLoop):
    """The loop; `chance` draws every order that production leaves open."""

    def __init__(self, chance: random.Random) -> None:
        self.now_s = 0.0
        self.failures: list[dict[str, Any]] = []
        """Exceptions that nothing has handled, as asyncio reports them."""
        self.deadline_s = math.inf
        """When a run that has not ended is given up."""
        self.on_check: Callable[[], object] = _nothing
        """Called every `check_steps` callbacks, between two."""
        self.check_steps = CHECK_STEPS
        self._next_check = CHECK_STEPS
        self.steps = 0
        """Callbacks run."""
        self._chance = chance
        self._timers: list[tuple[float, float, SimTimer]] = []
        self._runnable: list[Process] = []
        self.world = Process(self, "world")

    # -- running --------------------------------------------------------------------------

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine of the world to its end. All other tasks stop there; `Deadlock` when
        it waits for something that never comes."""
        # What is left of an earlier world runs code of its own when it is collected: not while
        # this one runs.
        gc.collect()
        task = self.world.spawn(work, name="main")
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            while not task.done():
                self._run_some()
        finally:
            asyncio._set_running_loop(before)
        return task.result()

    def _run_some(self) -> None:
        runnable = self._runnable
        if not runnable:
            self._advance()
            return
        index = int(self._chance.random() * len(runnable)) if len(runnable) > 1 else 0
        process = runnable[index]
        ready = process.ready
        for _ in range(len(ready)):
            if process.is_paused or not ready:
                break
            handle = ready.popleft()
            if not handle._cancelled:
                self.steps += 1
                try:
                    handle._context.run(handle._callback, *handle._args)
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as failure:
                    self.failures.append({"callback": repr(handle), "exception": failure})
        if not ready or process.is_paused:
            process.is_queued = False
            runnable.remove(process)
        if self.steps >= self._next_check:
            self._next_check = self.steps + self.check_steps
            if self.steps > STEPS_MAX:
                raise Deadlock(f"after {STEPS_MAX} callbacks the run has not ended")
            self.on_check()

    def _advance(self) -> None:
        """Go on to the next timer, and make all of its time ready, in an order of chance."""
        timers = self._timers
        if not timers:
            raise Deadlock("nothing is left to do, but the run has not ended")
        due_s = timers[0][0]
        if due_s > self.deadline_s:
            raise Deadlock(f"after {due_s:.0f} s the run has not ended")
        self.now_s = max(self.now_s, due_s)
        while timers and timers[0][0] <= due_s:
            timer = heapq.heappop(timers)[2]
            if not timer.cancelled():
                self.enqueue(timer)

    def enqueue(self, handle: SimHandle) -> None:
        """Make a callback ready."""
        process = handle.process
        if not process.is_dead:
            process.ready.append(handle)
            if not process.is_queued and not process.is_paused:
                process.is_queued = True
                self._runnable.append(process)

    def resumed(self, process: Process) -> None:
        """A process is no longer paused."""
        if process.ready and not process.is_queued:
            process.is_queued = True
            self._runnable.append(process)

    def schedule(self, timer: SimTimer) -> SimTimer:
        """Let it run at its time, of the world's clock."""
        heapq.heappush(self._timers, (timer.due_s, self._chance.random(), timer))
        return timer

    # -- asyncio's calls ------------------------------------------------------------------

    def time(self) -> float:
        return RUNNING.get(self.world).elapsed_s()

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        if context is None:
            context = copy_context()
        handle = SimHandle(context.get(RUNNING, self.world), callback, args, context)
        self.enqueue(handle)
        return handle

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> SimTimer:
        if context is None:
            context = copy_context()
        process = context.get(RUNNING, self.world)
        due_s = self.now_s + max(0.0, delay) / process.rate
        return self.schedule(SimTimer(process, due_s, callback, args, context))

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> SimTimer:
        return self.call_later(when - self.time(), callback, *args, context=context)

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Any,
        *,
        name: str | None = None,
        context: Context | None = None,
        **_: Any,
    ) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name=name, context=context)
        process = RUNNING.get(self.world)
        process.tasks[task] = None
        task.add_done_callback(process.tasks.pop)
        return task

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.failures.append(context)

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)


class Deadlock(AssertionError):
    """Everything waits for something else."""
