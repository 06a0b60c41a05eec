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
from typing import Any, NamedTuple

from kavka.seams import Pool
from kavka.server.runtime.jobs import THREADS_MAX
from sim.loop import Process, SimLoop
from support import strict_arenas
from support.virtual import InlineWorker


@dataclass(frozen=True)
class Speed:
    """How long jobs take: the median, and a share of them that take `slow_factor` times as long."""

    disk_s: float = 0.001
    compute_s: float = 0.0005
    process_s: float = 0.5
    slow_share: float = 0.02
    slow_factor: float = 200.0


class _Job(NamedTuple):
    function: Callable[..., Any]
    args: tuple[Any, ...]
    result: asyncio.Future[Any]


class SimJobs:
    """`kavka.seams.Jobs`."""

    def __init__(
        self, loop: SimLoop, process: Process, chance: random.Random, speed: Speed
    ) -> None:
        self._loop = loop
        self._process = process
        self._chance = chance
        self._speed = speed
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
        try:
            strict_arenas.check_owned(job.args)
            value = job.function(*job.args)
        except Exception as failure:
            self._process.call_later(self._takes_s(pool), self._failed, pool, job, failure)
        else:
            self._process.call_later(self._takes_s(pool), self._done, pool, job, value)

    def _done(self, pool: Pool, job: _Job, value: Any) -> None:
        self._end(pool)
        if not job.result.done():
            job.result.set_result(value)

    def _failed(self, pool: Pool, job: _Job, failure: Exception) -> None:
        self._end(pool)
        if not job.result.done():
            job.result.set_exception(failure)

    def _end(self, pool: Pool) -> None:
        self._free[pool] += 1
        self._begin(pool)

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
        """All of it happens at one moment; a kill finds it done, or not begun."""
        job = _Job(function, (InlineWorker(on_message), *args), self._loop.create_future())
        self._process.call_later(self._takes_s(None), self._do_process, job)
        return job.result

    def _do_process(self, job: _Job) -> None:
        if job.result.cancelled():
            return
        try:
            value = job.function(*job.args)
        except Exception as failure:
            self._process.call_later(self._takes_s(None), _fail, job, failure)
        else:
            self._process.call_later(self._takes_s(None), _complete, job, value)


def _fail(job: _Job, failure: Exception) -> None:
    if not job.result.done():
        job.result.set_exception(failure)


def _complete(job: _Job, value: Any) -> None:
    if not job.result.done():
        job.result.set_result(value)
