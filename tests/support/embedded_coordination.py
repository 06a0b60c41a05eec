"""An embedded coordination service on a disk in memory."""

from __future__ import annotations

from kavka.log.fs import FileSystem
from kavka.log.memfs import MemFs
from kavka.seams import Jobs
from kavka.server.coordination.embedded import EmbeddedCoordination, open_embedded
from kavka.zktree.api import Coordination, Znode
from support.virtual import DeferredJobs, VirtualClock, VirtualTasks

DIRECTORY = "/data"


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


async def all_nodes(session: Coordination, path: str = "/") -> dict[str, Znode]:
    """All nodes by path, parents before children and siblings by name."""
    found = {path: await session.get(path)}
    for name in await session.children(path):
        found |= await all_nodes(session, f"{path.rstrip('/')}/{name}")
    return found
