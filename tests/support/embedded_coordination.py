"""An embedded coordination service in memory, with the disk's work done when a test says so."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from kavka.log.fs import FileSystem
from kavka.log.memfs import MemFs
from kavka.seams import Jobs, Pool
from kavka.server.coordination.embedded import EmbeddedCoordination, open_embedded
from support.virtual import DeferredJobs, VirtualClock, VirtualTasks

DIRECTORY = "/data"


class HeldJobs:
    """Jobs that wait until they are let through, one by one."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[asyncio.Future[Any], Callable[[], Any]]] = deque()
        self.done = 0

    def run(self, pool: Pool, function: Callable[..., Any], *args: Any) -> Awaitable[Any]:
        future = asyncio.get_running_loop().create_future()
        self.waiting.append((future, lambda: function(*args)))
        return future

    def run_process(
        self,
        function: Callable[..., Any],
        *args: Any,
        on_message: Callable[[Any], object],
        keep: Sequence[int] = (),
    ) -> asyncio.Future[Any]:
        raise NotImplementedError  # nothing of the coordination needs a process

    def let_one_through(self) -> None:
        future, work = self.waiting.popleft()
        self.done += 1
        try:
            result = work()
        except OSError as error:
            future.set_exception(error)
        else:
            future.set_result(result)


def new_fs() -> MemFs:
    """A disk with the directory that `open_on` uses."""
    fs = MemFs()
    fs.make_dir(DIRECTORY)
    fs.sync_dir("/")
    return fs


async def open_on(
    fs: FileSystem,
    *,
    directory: str = DIRECTORY,
    clock: VirtualClock | None = None,
    jobs: Jobs | None = None,
) -> EmbeddedCoordination:
    """A session on what a directory of `fs` holds."""
    clock = clock or VirtualClock()
    return await open_embedded(
        fs, directory, clock=clock, tasks=VirtualTasks(clock), jobs=jobs or DeferredJobs()
    )
