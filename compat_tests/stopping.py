"""Ctrl-C, SIGTERM and SIGHUP end the suite in one way: what it has started is ended, and what it
has written for itself is removed."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
STOPPED: Final = 128
"""What a signal adds to the exit code."""

T = TypeVar("T")


class Stopped(Exception):
    """A signal has ended the work; `exit_code` says which."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code: Final = STOPPED + number


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run it on an event loop of its own; in the main thread, signals that are not ignored cancel
    it: the first one, and the next ones what it still waits for meanwhile. Stopped."""
    came: list[int] = []

    async def stoppable() -> T:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None

        def stop(number: int) -> None:
            came.append(number)
            if task.done():  # threads are waited for, which install a client
                os._exit(STOPPED + number)
            task.cancel()

        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                if signal.getsignal(number) != signal.SIG_IGN:  # as below `nohup`
                    loop.add_signal_handler(number, stop, number)
        return await work

    try:
        return asyncio.run(stoppable())
    except asyncio.CancelledError:
        if not came:
            raise
        raise Stopped(came[0]) from None
