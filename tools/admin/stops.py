"""Ctrl-C and SIGTERM in a tool that brings a client of its own: each ends it as an exception.

Python runs a signal's handler between any two steps, and what it raises there can get lost: Python
ignores exceptions in a `__del__`, asyncio's inner functions do not expect them, and confluent-kafka
raises something else in their place. None of that may keep a tool running.

Nor may what is raised be shown as a traceback. So an event loop hears of the first signal only, as
a cancellation. When the tool has ended, handlers stay, but raise nothing any more: Python would
tell of what is raised while it ends. A second signal has a tool give up what it waits for while it
cleans up, and gives it some time; after that, or with a third one, the process ends.
"""

from __future__ import annotations

import _thread
import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, NoReturn, TypeVar

STOPPED: Final = 128
"""What a signal adds to the exit code."""

AGAIN_S: Final = 0.01
"""After an exception was ignored, until its signal is sent again."""

TOGETHER_S: Final = 0.1
"""What follows the first signal within this time is the same one again: `timeout` sends one to a
process and one to its group."""

GRACE_S: Final = 2.0
"""From a signal behind the first on, until the process is ended."""

WRITTEN_WITHIN_S: Final = 0.5

T = TypeVar("T")


class Terminated(KeyboardInterrupt):
    """SIGTERM: ends a tool as Ctrl-C does, with another exit code."""


class _Stop:
    """Whether a signal has come, and what it ends."""

    def __init__(self) -> None:
        self.raised: KeyboardInterrupt | None = None
        """The exception of the last signal."""
        self.cancel: Callable[[], object] | None = None
        """Called in place of raising the next one: an event loop has not heard of any yet."""
        self.in_loop = False
        self.is_over = False
        """The tool has ended: nothing is raised any more."""
        self._number = 0
        self._since_s = 0.0
        """When the first signal came."""
        self._is_sent_again = self._is_last = self._ends_soon = False
        self._unraisable = sys.unraisablehook
        self._again: threading.Timer | None = None

    def on_signal(self, number: int, _: object) -> None:
        """The handler."""
        now_s = time.monotonic()
        if self._is_sent_again:
            self._is_sent_again = False
        elif self.raised is None:
            self._since_s = now_s
        else:
            if now_s - self._since_s < TOGETHER_S:
                return
            if self._is_last or self.is_over:
                _leave(STOPPED + number)
            self._end_soon(STOPPED + number)
            self._is_last = True
        self._raise(number)

    def _raise(self, number: int) -> None:
        if self.is_over:
            return
        self._number = number
        self.raised = Terminated() if number == signal.SIGTERM else KeyboardInterrupt()
        cancel, self.cancel = self.cancel, None
        if cancel is not None:
            cancel()
        elif not self.in_loop:
            raise self.raised

    def _end_soon(self, exit_code: int) -> None:
        if not self._ends_soon:
            self._ends_soon = True
            _in_thread(lambda: _leave(exit_code, after_s=GRACE_S))

    def on_unraisable(self, unraisable: sys.UnraisableHookArgs) -> None:
        """An exception was ignored: if it is a signal's, send that again."""
        if self.raised is None or unraisable.exc_value is not self.raised:
            self._unraisable(unraisable)
            return
        self._again = threading.Timer(AGAIN_S, self._send_again)
        self._again.start()

    def _send_again(self) -> None:
        self._is_sent_again = True
        os.kill(os.getpid(), self._number)

    def end(self) -> None:
        """Send no signal from now on."""
        if self._again is not None:
            self._again.cancel()
            self._again.join()


_stop: _Stop | None = None


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """SIGTERM raises Terminated meanwhile, Ctrl-C KeyboardInterrupt; in the main thread, which
    alone may have handlers. After one of them they stay: the process is about to end."""
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
        stop.is_over = True
        stop.end()
        if stop.raised is None:
            for handled, handler in before.items():
                signal.signal(handled, handler)
        _stop, sys.unraisablehook = outer, hook


def has_come() -> bool:
    """Whether a signal has stopped the tool: within `stopped_by_signals`."""
    return _stop is not None and _stop.raised is not None


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on an event loop of its own. Within `stopped_by_signals` a signal cancels it;
    its exception is raised when the loop has ended."""
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

    stop.in_loop, stop.cancel = True, wait
    try:
        found = asyncio.run(cancellable())
    except (Exception, asyncio.CancelledError) as error:
        if stop.raised is before or stop.raised is None:
            raise
        raise stop.raised from error
    finally:
        stop.in_loop, stop.cancel = False, None
    if stop.raised is not before and stop.raised is not None:
        raise stop.raised
    return found


def _leave(exit_code: int, *, after_s: float = 0.0) -> NoReturn:
    """End the process, whatever it is doing. What was printed is written before, in a thread of its
    own: perhaps nobody reads it, or the step that was interrupted holds the output."""
    time.sleep(after_s)
    written = _thread.allocate_lock()
    written.acquire()

    def write() -> None:
        for output in (sys.stdout, sys.stderr):
            with suppress(Exception):
                output.flush()
        written.release()

    if _in_thread(write):
        written.acquire(timeout=WRITTEN_WITHIN_S)
    os._exit(exit_code)


def _in_thread(call: Callable[[], object]) -> bool:
    """Whether that is still possible. Unlike `threading`, it takes no lock that the main thread may
    have when a signal comes."""
    try:
        _thread.start_new_thread(call, ())
    except RuntimeError:  # Python ends
        return False
    return True
