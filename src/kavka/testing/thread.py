"""An event loop on its own thread, for a broker in a synchronous program."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from kavka.server.host import new_event_loop

T = TypeVar("T")

Lock = threading.Lock


class LoopThread:
    """A running event loop (uvloop's if installed); other threads run coroutines on it."""

    def __init__(self, name: str) -> None:
        self._loop = new_event_loop()
        self._ends = False
        self._lock = threading.Lock()
        # A daemon: a test that forgets to stop its broker must not keep the process alive.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """False after its end, and in a forked process, where it never ran."""
        return self._thread.is_alive()

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there; its result, or what it raises. RuntimeError after the end."""
        with self._lock:  # a call from before the end is at least cancelled
            if self._ends:
                coroutine.close()
                raise RuntimeError("the loop has ended")
            running = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        return running.result()

    def end(self) -> None:
        """Stop the loop, and return when the thread is gone."""
        with self._lock:
            self._ends = True
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        loop = self._loop
        try:
            loop.run_forever()
            if left := asyncio.all_tasks(loop):  # of an interrupted caller
                for task in left:
                    task.cancel()
                loop.run_until_complete(asyncio.wait(left))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()
