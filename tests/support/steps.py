"""Work in pieces (`kavka.wire.steps`), driven to its end on the spot."""

from __future__ import annotations

from typing import TypeVar

from kavka.wire.steps import Steps

T = TypeVar("T")


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
