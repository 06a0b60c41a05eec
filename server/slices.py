"""Work on the loop that is cut into slices where there is much of it.

Such work is a generator that yields wherever others may have a turn and returns its result. What
it looks at may have changed when it goes on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator
from typing import TypeAlias, TypeVar

from kavka.seams import Tasks

T = TypeVar("T")

Slices: TypeAlias = Generator[None, None, T]


def run(tasks: Tasks, work: Slices[T]) -> T | Awaitable[T]:
    """The result of `work`; at once when it does not yield, so that a little costs no task."""
    try:
        next(work)
    except StopIteration as end:
        result: T = end.value
        return result
    return _go_on(tasks, work)


async def _go_on(tasks: Tasks, work: Slices[T]) -> T:
    while True:
        await tasks.sleep(0)
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result
