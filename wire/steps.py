"""Long work as generators, so that the event loop can serve others between two pieces.

`Steps[T]` is a generator that yields None where it may pause, and a `Job` where it needs a long
call that releases the GIL to run in a thread; it is sent the job's result, and returns a `T`.
Short work never yields. `kavka.server.runtime.cooperative` drives these generators on the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any, Final, TypeAlias, TypeVar

T = TypeVar("T")

QUICK_ITEMS_A_STEP: Final = 1_000
"""Items between two pauses where one takes some tenths of a microsecond."""

ITEMS_A_STEP: Final = 250
"""Items between two pauses where one takes some microseconds."""


Job: TypeAlias = tuple[Any, ...]
"""A call to run in a thread: the function and its arguments, which must not change meanwhile."""

Steps: TypeAlias = Generator[Job | None, Any, T]

Slices: TypeAlias = Generator[None, None, T]
"""Steps without jobs: it only pauses."""


def each(items: Iterable[T], do: Callable[[T], object], size: int = ITEMS_A_STEP) -> Slices[None]:
    """Call `do` with each item, `size` items between two pauses."""
    for number, item in enumerate(items, 1):
        do(item)
        if number % size == 0:
            yield


class PauseCounter:
    """Counts work done until a pause is due, in items of some tenths of a microsecond each."""

    __slots__ = ("_done",)

    def __init__(self) -> None:
        self._done = 0

    def is_due(self, done: int) -> bool:
        """Whether a pause is due after `done` more items."""
        self._done += done
        if self._done < QUICK_ITEMS_A_STEP:
            return False
        self._done = 0
        return True


def run_to_first_pause(work: Slices[T]) -> T | Slices[T]:
    """The result of `work` if it does not pause; otherwise `work` itself, to be continued."""
    try:
        next(work)
    except StopIteration as end:
        result: T = end.value
        return result
    return work


def run_to_completion(work: Slices[T]) -> T:
    """The result of `work`, with its pauses skipped."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result
