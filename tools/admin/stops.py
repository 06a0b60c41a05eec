"""Ctrl-C and SIGTERM in a tool that brings a client of its own: each ends it as an exception.

Python runs a signal's handler between any two steps, and what it raises there can get lost: Python
ignores exceptions in a `__del__`, asyncio's inner functions do not expect them, and confluent-kafka
raises something else in their place. None of that may keep a tool running.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

AGAIN_S: Final = 0.01
"""After an exception was ignored, until its signal is sent again."""

T = TypeVar("T")


class Terminated(KeyboardInterrupt):
    """SIGTERM: ends a tool as Ctrl-C does, with another exit code."""


class _Stop:
    """Whether a signal has come, and what it ends."""

    def __init__(self) -> None:
        self.raised: KeyboardInterrupt | None = None
        """The exception of the last signal."""
        self.cancel: Callable[[], object] | None = None
        """Called in place of raising the next one: an event loop runs."""
        self._number = 0
        self._unraisable = sys.unraisablehook
        self._again: threading.Timer | None = None

    def on_signal(self, number: int, _: object) -> None:
        """The handler."""
        self._number = number
        self.raised = Terminated() if number == signal.SIGTERM else KeyboardInterrupt()
        cancel, self.cancel = self.cancel, None
        if cancel is None:
            raise self.raised
        cancel()

    def on_unraisable(self, unraisable: sys.UnraisableHookArgs) -> None:
        """An exception was ignored: if it is a signal's, send that again."""
        if self.raised is None or unraisable.exc_value is not self.raised:
            self._unraisable(unraisable)
            return
        self._again = threading.Timer(AGAIN_S, os.kill, (os.getpid(), self._number))
        self._again.start()

    def end(self) -> None:
        """Send no signal from now on."""
        if self._again is not None:
            self._again.cancel()
            self._again.join()


_stop: _Stop | None = None


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """SIGTERM raises Terminated meanwhile, Ctrl-C KeyboardInterrupt; in the main thread, which
    alone may have handlers."""
    global _stop
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    outer, hook, before = _stop, sys.unraisablehook, dict[int, Any]()
    stop = _Stop()
    try:
        _stop, sys.unraisablehook = stop, stop.on_unraisable
        for number in (signal.SIGTERM, signal.SIGINT):
            handler = signal.getsignal(number)
            if number == signal.SIGTERM or handler is signal.default_int_handler:
                before[number] = handler  # else Ctrl-C is ignored
                signal.signal(number, stop.on_signal)
        yield
    except Exception as error:
        if stop.raised is None:
            raise
        raise stop.raised from error  # it has led to this error, or at least came before it
    finally:
        stop.end()
        for handled, handler in before.items():
            signal.signal(handled, handler)
        _stop, sys.unraisablehook = outer, hook


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on an event loop of its own. Within `stopped_by_signals` a signal cancels it;
    its exception is raised when the loop has ended, a second one's at once."""
    stop = _stop
    if stop is None:
        return asyncio.run(main)
    before = stop.raised

    def wait() -> None:
        """The loop begins or ends: what was raised is looked at behind that."""

    async def cancellable() -> T:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None

        def cancel() -> None:
            task.cancel()
            loop.call_soon_threadsafe(lambda: None)  # wakes the loop

        stop.cancel = cancel
        if stop.raised is not before:
            cancel()
        try:
            return await main
        finally:
            stop.cancel = wait

    stop.cancel = wait
    try:
        found = asyncio.run(cancellable())
    except (Exception, asyncio.CancelledError) as error:
        if stop.raised is before or stop.raised is None:
            raise
        raise stop.raised from error
    finally:
        stop.cancel = None
    if stop.raised is not before and stop.raised is not None:
        raise stop.raised
    return found
