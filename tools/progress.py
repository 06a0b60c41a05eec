"""A progress bar on a terminal for what takes longer than a second: rich's; none without rich."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from rich.progress import Progress

SHOWN_AFTER_S: Final = 1.0


class Step(Protocol):
    """Called when some of the work is done."""

    def __call__(self, count: int = 1) -> None: ...


@contextmanager
def progress(
    title: str,
    total: int,
    now_s: Callable[[], float] = time.monotonic,
    *,
    prints: bool = False,
) -> Iterator[Step]:
    """Gives what is to be called when one or more of `total` steps are done. The bar is on standard
    error, and is gone at the end. `prints`: the work fills standard output meanwhile; then there is
    a bar only if that is no terminal."""
    if not sys.stderr.isatty() or (prints and sys.stdout.isatty()):
        yield lambda count=1: None
        return
    began_s, done = now_s(), 0
    bar: Progress | None = None

    def step(count: int = 1) -> None:
        nonlocal bar, done
        done += count
        if bar is None and now_s() - began_s >= SHOWN_AFTER_S:
            bar = _started(title, total)
        if bar is not None:
            bar.update(bar.task_ids[0], completed=done)

    try:
        yield step
    finally:
        if bar is not None:
            bar.stop()


def _started(title: str, total: int) -> Progress | None:
    try:
        from rich.console import Console
        from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn
    except ModuleNotFoundError:
        return None
    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    bar.add_task(title, total=total)
    bar.start()
    return bar
