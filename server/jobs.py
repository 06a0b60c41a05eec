"""Long calls in threads, results handed back to the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

T = TypeVar("T")

THREADS_MAX: Final = 4
"""Enough to keep a disk busy; what waits for a thread waits in the executor's queue, whose
length is bounded by the callers: one flush a partition, one cold read a waiting fetch."""


class ThreadJobs:
    """`kavka.seams.Jobs` on a small pool of threads, started with the first job."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._threads = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="kavka-job")

    def run(self, function: Callable[..., T], *args: Any) -> Awaitable[T]:
        return self._loop.run_in_executor(self._threads, function, *args)

    def close(self) -> None:
        """Wait for the running jobs; drop none."""
        self._threads.shutdown(wait=True)
