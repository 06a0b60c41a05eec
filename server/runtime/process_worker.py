"""The child process that `server.runtime.processes` starts: it receives one call, sends progress
messages and one result, and exits."""

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
"""Added to the broker's niceness, so that the broker's event loop has priority."""


class ProcessWorker:
    """`kavka.seams.Worker` in a process of its own."""

    def __init__(self, output: IO[bytes]) -> None:
        self._output = output

    def report(self, message: Any) -> None:
        self.send("progress", message)

    def send(self, kind: str, value: Any) -> None:
        """Send one message to `processes`: "progress", "done" or "failed"."""
        try:
            self._output.write(pickle.dumps((kind, value)))
            self._output.flush()
        except BrokenPipeError:
            _end()

    monotonic_s = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)


def main(starter: int) -> None:
    """Run the call read from standard input, and send messages to standard output. Exit when the
    process `starter` ends."""
    _die_with(starter)
    worker = ProcessWorker(os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)  # send prints to stderr: they must not mix with the messages
    os.nice(NICENESS)
    try:
        function, args = pickle.load(sys.stdin.buffer)
    except (EOFError, pickle.UnpicklingError):  # the call was not written completely
        _end()
    threading.Thread(target=_end_with_broker, daemon=True).start()
    try:
        result = function(worker, *args)
    except Exception as failure:
        worker.send("failed", _portable(failure))
    else:
        worker.send("done", result)


def _portable(failure: Exception) -> Exception:
    """The failure, or a RuntimeError with its text if it can't be pickled."""
    try:
        pickle.loads(pickle.dumps(failure))
    except Exception:
        return RuntimeError(f"{type(failure).__name__}: {failure}")
    return failure


def _die_with(starter: int) -> None:
    """Have the kernel kill this process when the thread that started it ends, even while this
    process is stopped (SIGSTOP)."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != starter:  # the starter ended before the call above
        _end()


def _end_with_broker() -> None:
    """Exit when standard input is closed, which happens only when the broker ends."""
    os.read(0, 1)
    _end()


def _end() -> NoReturn:
    """Exit at once without output, as no process reads it any more."""
    os._exit(1)
