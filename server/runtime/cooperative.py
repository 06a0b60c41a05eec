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
        wanted = next(work)
    except StopIteration as end:
        result: T = end.value
        return result
    rest = run_rest(tasks, work, wanted, jobs=jobs)
    if context is None:
        return rest
    context.applied = tasks.future()
    return _apply(rest, context.applied)


async def run_rest(
    tasks: Tasks, work: Steps[T], wanted: Wait = None, *, jobs: Jobs | None = None
) -> T:
    """Run the rest of `work`, which has yielded `wanted`. Work that has not begun may be passed
    too: it yields to the loop first."""
    try:
        while True:
            made: Any = None
            try:
                if wanted is None:
                    await tasks.sleep(0)
                elif not isinstance(wanted, tuple):
                    made = await wanted
                elif jobs is None:
                    raise TypeError(f"no threads were given to run {wanted[0]!r}")
                else:
                    made = await jobs.run(Pool.COMPUTE, *wanted)
            except Exception as failure:
                wanted = work.throw(failure)
            else:
                wanted = work.send(made)
    except StopIteration as end:
        result: T = end.value
        return result


async def _apply(rest: Coroutine[Any, Any, T], applied: asyncio.Future[None]) -> T:
    try:
        return await rest
    finally:
        applied.set_result(None)
