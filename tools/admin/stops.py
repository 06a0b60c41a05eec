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
    """What the signals do meanwhile."""

    def __init__(self) -> None:
        self.raised: KeyboardInterrupt | None = None
        """What a signal has led to."""
        self.cancel: Callable[[], object] | None = None
        """Ends what an event loop runs at the moment."""
        self._number = 0
        self._unraisable = sys.unraisablehook

    def heard(self, number: int, _: object) -> None:
        """A signal has come."""
        self._number = number
        self.raised = Terminated() if number == signal.SIGTERM else KeyboardInterrupt()
        cancel, self.cancel = self.cancel, None
        if cancel is None:
            raise self.raised
        cancel()

    def ignored(self, unraisable: sys.UnraisableHookArgs) -> None:
        """Something was raised where Python can't: if it is a signal's, send that again."""
        if self.raised is None or unraisable.exc_value is not self.raised:
            self._unraisable(unraisable)
            return
        again = threading.Timer(AGAIN_S, os.kill, (os.getpid(), self._number))
        again.daemon = True
        again.start()


_stop: _Stop | None = None


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """SIGTERM raises Terminated meanwhile, Ctrl-C KeyboardInterrupt. In the main thread."""
    global _stop
    stop = _stop = _Stop()
    numbers = [signal.SIGTERM]
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it is ignored
        numbers.append(signal.SIGINT)
    before = {number: signal.signal(number, stop.heard) for number in numbers}
    hook, sys.unraisablehook = sys.unraisablehook, stop.ignored
    try:
        yield
    except Exception as error:
        if stop.raised is None:
            raise
        raise stop.raised from error  # it has led to this error, or at least came before it
    finally:
        _stop = None
        sys.unraisablehook = hook
        for number, handler in before.items():
            signal.signal(number, handler)


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on an event loop of its own. Within `stopped_by_signals` a signal cancels it;
    only when it has ended, its exception is raised."""
    stop = _stop
    if stop is None:
        return asyncio.run(main)

    async def cancellable() -> T:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None

        def cancel() -> None:
            task.cancel()
            loop.call_soon_threadsafe(lambda: None)  # wakes the loop

        stop.cancel = cancel
        try:
            return await main
        finally:
            stop.cancel = None

    try:
        found = asyncio.run(cancellable())
    except (Exception, asyncio.CancelledError) as error:
        if stop.raised is None:
            raise
        raise stop.raised from error
    if stop.raised is not None:
        raise stop.raised
    return found
