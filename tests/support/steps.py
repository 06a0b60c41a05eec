"""Counts where steps (`kavka.wire.steps`) pause, and which jobs they have."""

from __future__ import annotations

from typing import Any, TypeVar

from kavka.wire.steps import Steps, Wait

T = TypeVar("T")


def stops_of(steps: Steps[Any]) -> tuple[int, list[str]]:
    """The number of pauses, and the names of the functions that are jobs."""
    _, pauses, jobs = run_and_look(steps)
    return pauses, jobs


def run_and_look(steps: Steps[T]) -> tuple[T, int, list[str]]:
    """Run `steps` at once: the result, the number of pauses, and the jobs' names."""
    pauses, jobs = 0, []
    try:
        wait: Wait = next(steps)
        while True:
            if wait is None:
                pauses += 1
                wait = steps.send(None)
                continue
            assert isinstance(wait, tuple), "only the server waits for awaitables"
            jobs.append(wait[0].__qualname__)
            try:
                made = wait[0](*wait[1:])
            except Exception as failure:
                wait = steps.throw(failure)
            else:
                wait = steps.send(made)
    except StopIteration as end:
        result: T = end.value
        return result, pauses, jobs
