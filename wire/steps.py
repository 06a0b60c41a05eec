"""Long work in pieces, so that whoever drives it may let others have the loop in between.

`Steps[T]` is a generator that yields None where a pause is welcome, and a `Job` where it wants
something done that is long and releases the interpreter; it is sent the job's result, and returns
a `T`. Work that is short never yields. `kavka.server.runtime.cooperative` drives it on the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any, Final, TypeAlias, TypeVar

T = TypeVar("T")

QUICK_ITEMS_A_STEP: Final = 1_000
"""What is done between two pauses where one item takes some tenths of a microsecond."""

ITEMS_A_STEP: Final = 250
"""What is done between two pauses where one item takes some microseconds."""


Job: TypeAlias = tuple[Any, ...]
"""A call for a thread: the function and its arguments, which may not be changed meanwhile."""

Steps: TypeAlias = Generator[Job | None, Any, T]

Slices: TypeAlias = Generator[None, None, T]
"""Those that want nothing done."""


def each(items: Iterable[T], do: Callable[[T], object], size: int = ITEMS_A_STEP) -> Slices[None]:
    """Do something with each of many, `size` at a time."""
    for number, item in enumerate(items, 1):
        do(item)
        if number % size == 0:
            yield


class PauseCounter:
    """Tells when a pause is due, in work whose items cost some tenths of a microsecond each."""

    __slots__ = ("_done",)

    def __init__(self) -> None:
        self._done = 0

    def is_over(self, done: int) -> bool:
        """Whether it is, after so many more."""
        self._done += done
        if self._done < QUICK_ITEMS_A_STEP:
            return False
        self._done = 0
        return True


def run_to_first_pause(work: Slices[T]) -> T | Slices[T]:
    """What work comes to if it makes no pause; otherwise the rest of it."""
    try:
        next(work)
    except StopIteration as end:
        result: T = end.value
        return result
    return work


def run_to_completion(work: Slices[T]) -> T:
    """All of it in one go."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result
