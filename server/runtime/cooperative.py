"""Cooperative multitasking: long work on the event loop, run in slices.

Such work is a generator that yields wherever other tasks may run, and returns its result. State
that it reads may have changed when it resumes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator
from typing import Any, Protocol, TypeAlias, TypeVar

from kavka.seams import Jobs, Pool, Tasks
from kavka.wire.steps import Job, Slices, Steps

__all__ = [
    "Deferring",
    "Slices",
    "AwaitingSlices",
    "run_rest",
    "run_rest_with_jobs",
    "run",
    "run_with_jobs",
]

T = TypeVar("T")

AwaitingSlices: TypeAlias = Generator[Awaitable[object] | None, None, T]
"""Slices that may also yield an awaitable to wait for; if that fails the work ends."""


class Deferring(Protocol):
    """A request's context: the connection's next request waits until `applied` is done."""

    applied: asyncio.Future[None] | None


def run(
    tasks: Tasks, work: AwaitingSlices[T], context: Deferring | None = None
) -> T | Awaitable[T]:
    """The result of `work`; plain if it does not yield, so that small work costs no task.

    If the work carries out a request, `context` is that request's.
    """
    try:
        pause = next(work)
    except StopIteration as end:
        result: T = end.value
        return result
    if context is None:
        return run_rest(tasks, work, pause)
    context.applied = tasks.future()
    return _apply(tasks, work, pause, context.applied)


async def run_rest(
    tasks: Tasks, work: AwaitingSlices[T], pause: Awaitable[object] | None = None
) -> T:
    """Run the rest of `work`, which has yielded `pause`, yielding to the loop first."""
    while True:
        await (tasks.sleep(0) if pause is None else pause)
        try:
            pause = next(work)
        except StopIteration as end:
            result: T = end.value
            return result


async def _apply(
    tasks: Tasks,
    work: AwaitingSlices[T],
    pause: Awaitable[object] | None,
    applied: asyncio.Future[None],
) -> T:
    try:
        return await run_rest(tasks, work, pause)
    finally:
        applied.set_result(None)


async def run_with_jobs(tasks: Tasks, jobs: Jobs, work: Steps[T]) -> T:
    """The result of work that may also yield jobs for a thread; if it does not yield, nothing else
    runs meanwhile."""
    try:
        job = next(work)
    except StopIteration as end:
        result: T = end.value
        return result
    return await run_rest_with_jobs(tasks, jobs, work, job)


async def run_rest_with_jobs(tasks: Tasks, jobs: Jobs, work: Steps[T], job: Job | None) -> T:
    """Run the rest of `work`, which has yielded `job`."""
    try:
        while True:
            made: Any = None
            try:
                if job is None:
                    await tasks.sleep(0)
                else:
                    made = await jobs.run(Pool.COMPUTE, *job)
            except Exception as failure:
                job = work.throw(failure)
            else:
                job = work.send(made)
    except StopIteration as end:
        result: T = end.value
        return result
