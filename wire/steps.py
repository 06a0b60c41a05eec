"""Long work as generators, so that the event loop can serve others between two pieces.

`Steps[T]` is the only kind. Such a generator returns a `T`; short work never yields. What it
yields, it waits for, and the result is sent to it (or the exception thrown into it):

- None: a pause. Others may run, so state that it reads may have changed when it resumes.
- a `Job`: a long call that releases the GIL, to run in a thread.
- an awaitable, only in the server: what coordinators have still to answer, for example.

Two drivers run them. `run_at_once` does everything where it is called: at start-up without a loop,
in tools, tests, and for work that is known to be short. `kavka.server.runtime.cooperative` runs
them on the event loop. The queue of `kavka.server.coordinators.serial_queue` runs them one after
the other; it takes only work that pauses, since others wait behind it.

There is no second type for work that only pauses. The machines of coordinators, whose decisions
must not wait for threads, are kept from it by import-linter: they may not import the modules that
make jobs (`kavka.wire.inflating` and its users). Drivers that can't do what is yielded raise
TypeError.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable
from typing import Any, Final, TypeAlias, TypeVar

T = TypeVar("T")

QUICK_ITEMS_PER_STEP: Final = 1_000
"""Items between two pauses where one takes some tenths of a microsecond."""

ITEMS_PER_STEP: Final = 250
"""Items between two pauses where one takes some microseconds."""


Job: TypeAlias = tuple[Any, ...]
"""A call to run in a thread: the function and its arguments, which must not change meanwhile."""

Wait: TypeAlias = Job | Awaitable[Any] | None
"""What `Steps` may yield."""

Steps: TypeAlias = Generator[Wait, Any, T]


def each(items: Iterable[T], do: Callable[[T], object], size: int = ITEMS_PER_STEP) -> Steps[None]:
    """Call `do` with each item, `size` items between two pauses."""
    for number, item in enumerate(items, 1):
        do(item)
        if number % size == 0:
            yield None


class PauseCounter:
    """Counts work done until a pause is due, in items of some tenths of a microsecond each."""

    __slots__ = ("_done",)

    def __init__(self) -> None:
        self._done = 0

    def is_due(self, done: int) -> bool:
        """Whether a pause is due after `done` more items."""
        self._done += done
        if self._done < QUICK_ITEMS_PER_STEP:
            return False
        self._done = 0
        return True


def run_at_once(work: Steps[T]) -> T:
    """The result of `work`: its pauses are skipped, its jobs run here. TypeError if it waits for
    something else."""
    wait: Wait = None
    try:
        while True:
            try:
                made = None if wait is None else _run_here(wait)
            except Exception as failure:
                wait = work.throw(failure)
            else:
                wait = work.send(made)
    except StopIteration as end:
        result: T = end.value
        return result


def _run_here(wait: Wait) -> Any:
    if not isinstance(wait, tuple):
        raise TypeError(f"{wait!r} needs an event loop to wait for it")
    function, *arguments = wait
    return function(*arguments)
