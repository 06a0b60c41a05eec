"""What a terminal shows where something takes longer than a second: rich's bars; none without rich.

It is the last line of standard error, and goes before anything is printed on the same terminal.
Standard output is never changed.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol, TextIO, cast

if TYPE_CHECKING:
    from rich.progress import Progress

SHOWN_AFTER_S: Final = 1.0
DRAWN_EVERY_S: Final = 0.1
CLEAR: Final = "\r\x1b[2K"
"""Empties the line that the cursor is on."""


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
    """Gives what is to be called when one or more of `total` steps are done. `prints`: the work
    fills standard output meanwhile; then there is a bar only if that is no terminal."""
    if not sys.stderr.isatty() or (prints and sys.stdout.isatty()):
        yield lambda count=1: None
        return
    with _line(title, total) as line:
        shown_s, done = now_s() + SHOWN_AFTER_S, 0

        def step(count: int = 1) -> None:
            nonlocal done, shown_s
            done += count
            if (at_s := now_s()) >= shown_s:
                shown_s = at_s + DRAWN_EVERY_S
                line.draw(completed=done)

        yield step


class Status:
    """A line of text in place of a bar, for what has no end; none where something else is shown."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._shown_s = now_s() + SHOWN_AFTER_S
        self._stack = ExitStack()
        self._line: _Line | None = None
        if sys.stderr.isatty() and not _lines:
            self._line = self._stack.enter_context(_line("", None))

    def show(self, text: Callable[[], str]) -> None:
        """The text of now, unless the last one has just been drawn."""
        if self._line is not None and (at_s := self._now_s()) >= self._shown_s:
            self._shown_s = at_s + DRAWN_EVERY_S
            self._line.draw(description=text())

    def close(self) -> None:
        """It goes."""
        self._stack.close()
        self._line = None


@contextmanager
def waiting(title: str = "waiting for brokers") -> Iterator[None]:
    """Shows meanwhile that something is waited for, after a second; unless a bar shows how far it
    is, or something else is waited for already. Nothing may be printed meanwhile."""
    if _lines or not sys.stderr.isatty():
        yield
        return
    line, is_over = _Line(title, None), threading.Event()

    def draw() -> None:
        wait_s = SHOWN_AFTER_S
        while not is_over.wait(wait_s):
            line.draw()
            wait_s = DRAWN_EVERY_S

    thread = threading.Thread(target=draw, daemon=True)
    _lines.append(line)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        line.end()
        _lines.remove(line)


_lines: Final[list[_Line]] = []
"""The one that is shown, or may be soon."""


class _Line:
    """The last line of standard error, drawn anew and anew. `total`: None for no bar."""

    def __init__(self, title: str, total: int | None) -> None:
        self._title, self._total = title, total
        self._terminal = sys.stderr
        self._bar: Progress | None = None
        self._is_drawn = False
        self.lock: Final = threading.RLock()
        """Who draws it, or prints above it: clients' threads print, too. A signal's handler may
        print while its thread has it."""

    def draw(self, **changed: Any) -> None:
        """With what has changed, by the names of rich's `Progress.update`."""
        with self.lock:
            if self._bar is None:
                self._bar = _bar(self._title, self._total, self._terminal)
            if self._bar is not None:
                self._bar.update(self._bar.task_ids[0], **changed)
                self._bar.refresh()
                self._is_drawn = True

    def clear(self) -> None:
        """Something else is printed there."""
        if self._is_drawn:
            self._terminal.write(CLEAR)
            self._terminal.flush()
            self._is_drawn = False

    def end(self) -> None:
        """Not to be drawn any more."""
        with self.lock:
            if self._bar is not None:
                self._bar.stop()
            self._is_drawn = False


class _Above:
    """An output on the terminal with the line: what is printed is printed above it."""

    def __init__(self, output: TextIO, line: _Line) -> None:
        self._output, self._line = output, line
        self._held = ""

    def write(self, text: str) -> int:
        """Whole lines: of others the rest may come when the line is drawn again."""
        with self._line.lock:
            whole, newline, self._held = (self._held + text).rpartition("\n")
            self._write(whole + newline)
        return len(text)

    def end(self) -> None:
        """Write what is left."""
        with self._line.lock:
            held, self._held = self._held, ""
            self._write(held)

    def _write(self, text: str) -> None:
        if text:
            self._line.clear()
            self._output.write(text)
            self._output.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._output, name)


@contextmanager
def _line(title: str, total: int | None) -> Iterator[_Line]:
    """One below what is printed meanwhile."""
    line = _Line(title, total)
    before = sys.stdout, sys.stderr
    outputs = [_Above(stream, line) if stream.isatty() else stream for stream in before]
    sys.stdout, sys.stderr = (cast(TextIO, output) for output in outputs)
    _lines.append(line)
    try:
        yield line
    finally:
        _lines.remove(line)
        line.end()
        sys.stdout, sys.stderr = before
        for output in outputs:
            if isinstance(output, _Above):
                output.end()


def _bar(title: str, total: int | None, terminal: TextIO) -> Progress | None:
    try:
        from rich.console import Console
        from rich.progress import (
            MofNCompleteColumn,
            Progress,
            SpinnerColumn,
            TextColumn,
            TimeRemainingColumn,
        )
    except ModuleNotFoundError:
        return None
    console = Console(file=terminal)
    if not console.is_interactive:  # TERM=dumb: it can't go back to the begin of a line
        return None
    text = TextColumn("{task.description}", markup=False)
    spinner = "line" if console.options.ascii_only else "dots"
    columns = (
        (SpinnerColumn(spinner), text)
        if total is None
        else (
            text,
            Progress.get_default_columns()[1],
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
    )
    bar = Progress(
        *columns,
        console=console,
        auto_refresh=False,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    bar.add_task(title, total=total)
    bar.start()
    console.show_cursor(True)  # a second Ctrl-C ends the process at once
    return bar
