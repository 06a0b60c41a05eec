"""Cooperative multitasking: runs long work (`kavka.wire.steps`) on the event loop, in slices."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

from kavka.seams import Jobs, Pool, Tasks
from kavka.wire.steps import Steps, Wait

T = TypeVar("T")


class Deferring(Protocol):
    """A request's context: the connection's next request waits until `applied` is done."""

    applied: asyncio.Future[None] | None


def run(
    tasks: Tasks, work: Steps[T], context: Deferring | None = None, *, jobs: Jobs | None = None
) -> T | Coroutine[Any, Any, T]:
    """The result of `work`; plain if it does not yield, so that small work costs no task.

    If the work carries out a request, `context` is that request's. Work that may yield jobs needs
    `jobs`.
    """
    try:
        wait = next(work)
    except StopIteration as end:
        result: T = end.value
        return result
    rest = run_rest(tasks, work, wait, jobs=jobs)
    if context is None:
        return rest
    context.applied = tasks.future()
    return _apply(rest, context.applied)


async def run_rest(
    tasks: Tasks, work: Steps[T], wait: Wait = None, *, jobs: Jobs | None = None
) -> T:
    """Run the rest of `work`, which has yielded `wait`. Work that has not begun may be passed
    too: it yields to the loop first."""
    try:
        while True:
            made: Any = None
            try:
                if wait is None:
                    await tasks.sleep(0)
                elif not isinstance(wait, tuple):
                    made = await wait
                elif jobs is None:
                    raise TypeError(f"no threads were given to run {wait[0]!r}")
                else:
                    made = await jobs.run(Pool.COMPUTE, *wait)
            except Exception as failure:
                wait = work.throw(failure)
            else:
                wait = work.send(made)
    except StopIteration as end:
        result: T = end.value
        return result


async def _apply(rest: Coroutine[Any, Any, T], applied: asyncio.Future[None]) -> T:
    try:
        return await rest
    finally:
        applied.set_result(None)
