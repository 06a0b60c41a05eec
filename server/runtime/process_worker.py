"""The process that `server.runtime.processes` starts: one order, its news, one result, the end."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import time
from typing import IO, Any, Final, NoReturn

_PR_SET_PDEATHSIG: Final = 1

NICENESS: Final = 10
"""Added to the broker's: its loop comes first."""


class ProcessWorker:
    """`kavka.seams.Worker` in a process of its own."""

    def __init__(self, news: IO[bytes]) -> None:
        self._news = news

    def report(self, message: Any) -> None:
        self.say("message", message)

    def say(self, kind: str, value: Any) -> None:
        """Send one message of what is agreed with `processes`."""
        try:
            self._news.write(pickle.dumps((kind, value)))
            self._news.flush()
        except BrokenPipeError:
            _end()

    monotonic_s = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)


def main(starter: int) -> None:
    """Do what the standard input says, and tell about it on the standard output; end with the
    process `starter`."""
    _die_with(starter)
    worker = ProcessWorker(os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)  # what somebody prints may not get between
    os.nice(NICENESS)
    try:
        function, args = pickle.load(sys.stdin.buffer)
    except (EOFError, pickle.UnpicklingError):  # the order was not written to its end
        _end()
    threading.Thread(target=_end_with_broker, daemon=True).start()
    try:
        result = function(worker, *args)
    except Exception as failure:
        worker.say("failed", _portable(failure))
    else:
        worker.say("done", result)


def _portable(failure: Exception) -> Exception:
    """The failure, or where pickling loses it one that tells as much."""
    try:
        pickle.loads(pickle.dumps(failure))
    except Exception:
        return RuntimeError(f"{type(failure).__name__}: {failure}")
    return failure


def _die_with(starter: int) -> None:
    """Have the kernel kill this process when the thread that started it is gone, also while it is
    stopped: it does nothing more."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != starter:  # it was quicker
        _end()


def _end_with_broker() -> None:
    """The input is closed by the broker's end alone, however it came about."""
    os.read(0, 1)
    _end()


def _end() -> NoReturn:
    """At once and without a word: there is nobody to hear it."""
    os._exit(1)
