"""Files and directories that are marked for deletion and deleted after `file.delete.delay.ms`.

The delay gives an operator time to rescue a file deleted by mistake, and readers that open files
by name time to finish. A reader that has a file open can read on even after its deletion.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Iterable, Sequence

from kavka.log.fs import FileSystem, is_fd_exhaustion

logger = logging.getLogger(__name__)


class DeferredDeletes:
    """Paths by the time of their deletion; bounded by the number of files marked for deletion."""

    __slots__ = ("_new", "_waiting")

    def __init__(self) -> None:
        self._new: list[tuple[int, str]] = []  # delay in ms, path
        self._waiting: list[tuple[float, str]] = []  # a heap: time in seconds, path

    def __len__(self) -> int:
        return len(self._new) + len(self._waiting)

    def add(self, paths: Iterable[str], delay_ms: int) -> None:
        """Delete `paths` after `delay_ms`, which starts with the next call of `due`."""
        self._new += [(delay_ms, path) for path in paths]

    def due(self, now_s: float) -> list[str]:
        """Remove and return the paths that are due, by a monotonic clock."""
        for delay_ms, path in self._new:
            heapq.heappush(self._waiting, (now_s + delay_ms / 1000, path))
        self._new.clear()
        found = []
        while self._waiting and self._waiting[0][0] <= now_s:
            found.append(heapq.heappop(self._waiting)[1])
        return found

    def take_all(self) -> list[str]:
        """Remove and return all paths, due or not."""
        return self.due(float("inf"))


def remove_paths(fs: FileSystem, paths: Sequence[str]) -> list[str]:
    """Remove files and directories, ignoring those that don't exist.

    Returns those that could not be removed because of file descriptor exhaustion, to be retried.
    After another failure a path stays until the next start, which retries.
    """
    left = []
    for path in paths:
        try:
            if fs.is_dir(path):
                fs.remove_tree(path)
            elif fs.exists(path):
                fs.remove(path)
        except OSError as failure:
            if is_fd_exhaustion(failure):
                left.append(path)
            else:
                logger.error("can't remove %s: %s", path, failure)
    return left
