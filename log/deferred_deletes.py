"""Files and directories that have left their log and wait for their removal.

They wait `file.delete.delay.ms`, so that a file which left by mistake can be found, and whoever
reads it by its name can finish. Who still has it open reads on even after its removal.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Iterable, Sequence

from kavka.log.fs import FileSystem, is_shortage

logger = logging.getLogger(__name__)


class Garbage:
    """Paths by the time at which they go; never more than there are files with such names."""

    __slots__ = ("_new", "_waiting")

    def __init__(self) -> None:
        self._new: list[tuple[int, str]] = []  # delay in ms, path
        self._waiting: list[tuple[float, str]] = []  # a heap: time in seconds, path

    def __len__(self) -> int:
        return len(self._new) + len(self._waiting)

    def add(self, paths: Iterable[str], delay_ms: int) -> None:
        """Have `paths` go after `delay_ms`, which counts from the next call of `due` on."""
        self._new += [(delay_ms, path) for path in paths]

    def due(self, now_s: float) -> list[str]:
        """The paths whose time has come, by a clock that never goes back; they are forgotten."""
        for delay_ms, path in self._new:
            heapq.heappush(self._waiting, (now_s + delay_ms / 1000, path))
        self._new.clear()
        found = []
        while self._waiting and self._waiting[0][0] <= now_s:
            found.append(heapq.heappop(self._waiting)[1])
        return found

    def take(self) -> list[str]:
        """All paths, due or not; they are forgotten."""
        return self.due(float("inf"))


def remove_garbage(fs: FileSystem, paths: Sequence[str]) -> list[str]:
    """Remove files and directories; those that are gone already don't matter.

    Returned are those that could not be removed because too many files were open: to be tried
    again. Another that can't be removed stays until the next start, which tries again.
    """
    left = []
    for path in paths:
        try:
            if fs.is_dir(path):
                fs.remove_tree(path)
            elif fs.exists(path):
                fs.remove(path)
        except OSError as failure:
            if is_shortage(failure):
                left.append(path)
            else:
                logger.error("can't remove %s: %s", path, failure)
    return left
