"""Long work in pieces, so that whoever drives it may let others have the loop in between.

`Steps[T]` is a generator that yields None where a pause is welcome, and a `Job` where it wants
something done that is long and releases the interpreter; it is sent the job's result, and returns
a `T`. Work that is short never yields. `kavka.server.slices` drives it on the loop.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")


Job: TypeAlias = tuple[Any, ...]
"""A call for a thread: the function and its arguments, which may not be changed meanwhile."""

Steps: TypeAlias = Generator[Job | None, Any, T]


def run_at_once(steps: Steps[T]) -> T:
    """The result, with everything done on the spot."""
    try:
        wanted = next(steps)
        while True:
            try:
                made = None if wanted is None else wanted[0](*wanted[1:])
            except Exception as failure:
                wanted = steps.throw(failure)
            else:
                wanted = steps.send(made)
    except StopIteration as end:
        result: T = end.value
        return result
