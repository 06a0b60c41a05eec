"""Jobs of a simulated process: each begins and ends at a time of its own after its submission.

A pool has as many threads as in production; what they do happens at once, at a moment between, and
its result comes later. A process that is killed in between has done it, or not, but never knows.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from kavka.log.memfs import Died, MemFs
from kavka.seams import Pool, ProcessLost
from kavka.server.runtime.jobs import THREADS_MAX
from sim.loop import Process, SimLoop
from support import strict_arenas
from support.virtual import InlineWorker

CHANGES_MAX = 40
"""Before so many of its changes of files a child process dies, if it does."""


@dataclass(frozen=True)
class Speed:
    """How long jobs take: the median, and a share of them that take `slow_factor` times as long."""

    disk_s: float = 0.001
    compute_s: float = 0.0005
    process_s: float = 0.5
    slow_share: float = 0.02
    slow_factor: float = 200.0
    dies_share: float = 0.0
    """How many of the child processes die in the middle of their work."""


class _Job(NamedTuple):
    function: Callable[..., Any]
    args: tuple[Any, ...]
    result: asyncio.Future[Any]


class _Outcome(NamedTuple):
    value: Any
    failure: Exception | None = None


class SimJobs:
    """`kavka.seams.Jobs`."""

    def __init__(
        self,
        loop: SimLoop,
        process: Process,
        fs: MemFs,
        chance: random.Random,
        speed: Speed,
        stuck_until_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """Until that time of the world's clock no thread comes back from the disk."""
        self._loop = loop
        self._process = process
        self._fs = fs
        self._chance = chance
        self._speed = speed
        self._stuck_until_s = stuck_until_s
        self._free = dict(THREADS_MAX)
        self._waiting: dict[Pool, deque[_Job]] = {pool: deque() for pool in Pool}

    def run(self, pool: Pool, function: Callable[..., Any], *args: Any) -> Awaitable[Any]:
        job = _Job(function, args, self._loop.create_future())
        self._waiting[pool].append(job)
        self._begin(pool)
        return job.result

    def _begin(self, pool: Pool) -> None:
        if self._free[pool] and self._waiting[pool]:
            self._free[pool] -= 1
            job = self._waiting[pool].popleft()
            self._process.call_later(self._takes_s(pool), self._do, pool, job)

    def _do(self, pool: Pool, job: _Job) -> None:
        stuck_s = self._stuck_until_s() - self._loop.now_s
        if stuck_s > 0 and pool is not Pool.COMPUTE:
            self._process.call_later(stuck_s, self._do, pool, job)
            return
        self._process.call_later(self._takes_s(pool), self._end, pool, job, _outcome(job))

    def _end(self, pool: Pool, job: _Job, outcome: _Outcome) -> None:
        self._free[pool] += 1
        self._begin(pool)
        _complete(job, outcome)

    def _takes_s(self, pool: Pool | None) -> float:
        speed, chance = self._speed, self._chance
        median = {Pool.COMPUTE: speed.compute_s, None: speed.process_s}.get(pool, speed.disk_s)
        slow = speed.slow_factor if chance.random() < speed.slow_share else 1.0
        return median * slow * (0.1 + chance.random()) / 2

    def run_process(
        self,
        function: Callable[..., Any],
        *args: Any,
        on_message: Callable[[Any], object],
        keep: Sequence[int] = (),
    ) -> asyncio.Future[Any]:
        """All of it happens at one moment, or all up to where it dies; a kill of the broker finds
        it done, or not begun."""
        worker = InlineWorker(partial(self._report, on_message))
        job = _Job(function, (worker, *args), self._loop.create_future())
        self._process.call_later(self._takes_s(None), self._do_process, job)
        return job.result

    def _report(self, on_message: Callable[[Any], object], message: Any) -> None:
        """The broker takes a message, and does not die with the child."""
        fs = self._fs
        left, fs.dies_after = fs.dies_after, None
        on_message(message)
        fs.dies_after = left

    def _do_process(self, job: _Job) -> None:
        if job.result.cancelled():
            return
        if self._chance.random() < self._speed.dies_share:
            self._fs.dies_after = self._chance.randrange(CHANGES_MAX)
        try:
            outcome = _outcome(job)
        except Died as failure:
            outcome = _Outcome(None, ProcessLost(str(failure)))
        self._fs.dies_after = None
        self._process.call_later(self._takes_s(None), _complete, job, outcome)


def _outcome(job: _Job) -> _Outcome:
    try:
        strict_arenas.check_owned(job.args)
        return _Outcome(job.function(*job.args))
    except Exception as failure:
        return _Outcome(None, failure)


def _complete(job: _Job, outcome: _Outcome) -> None:
    if job.result.done():
        return
    if outcome.failure is None:
        job.result.set_result(outcome.value)
    else:
        job.result.set_exception(outcome.failure)
