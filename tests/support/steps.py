"""Work in pieces (`kavka.wire.steps`), driven to its end on the spot."""

from __future__ import annotations

from typing import Any, TypeVar

from kavka.wire.steps import Steps

T = TypeVar("T")


def run_at_once(steps: Steps[T]) -> T:
    """The result, with everything done on the spot."""
    result, _, _ = run_and_look(steps)
    return result


def stops_of(steps: Steps[Any]) -> tuple[int, list[str]]:
    """How many pauses there are, and what is wanted from threads."""
    _, pauses, jobs = run_and_look(steps)
    return pauses, jobs


def run_and_look(steps: Steps[T]) -> tuple[T, int, list[str]]:
    """Both."""
    pauses, jobs = 0, []
    try:
        wanted = next(steps)
        while True:
            if wanted is None:
                pauses += 1
                wanted = steps.send(None)
                continue
            jobs.append(wanted[0].__qualname__)
            try:
                made = wanted[0](*wanted[1:])
            except Exception as failure:
                wanted = steps.throw(failure)
            else:
                wanted = steps.send(made)
    except StopIteration as end:
        result: T = end.value
        return result, pauses, jobs
