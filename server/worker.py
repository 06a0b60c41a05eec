"""The process that `kavka.server.processes` starts: one order, its news, one result, the end."""

from __future__ import annotations

import os
import pickle
import sys
import threading
import time
from typing import IO, Any, Final

NICENESS: Final = 10
"""Added to the broker's: its loop comes first."""


class ProcessWorker:
    """`kavka.seams.Worker` in a process of its own."""

    def __init__(self, news: IO[bytes]) -> None:
        self._news = news

    def tell(self, news: Any) -> None:
        self.say("told", news)

    def say(self, kind: str, value: Any) -> None:
        """Send one message of what is agreed with `processes`."""
        self._news.write(pickle.dumps((kind, value)))
        self._news.flush()

    monotonic_s = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)


def main() -> None:
    """Do what the standard input says, and tell about it on the standard output."""
    worker = ProcessWorker(os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)  # what somebody prints may not get between
    os.nice(NICENESS)
    function, args = pickle.load(sys.stdin.buffer)
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


def _end_with_broker() -> None:
    """The input is closed by the broker's end alone, however it came about."""
    os.read(0, 1)
    os._exit(1)
