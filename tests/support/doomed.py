"""A broker process that kills itself with SIGKILL at a chosen step that it makes on its disk.

`python -m support.doomed DOOM start …` is `python -m kavka start …` on a file system that looks for
the file DOOM at each step. It holds a number and a part of a path: so many steps on such paths are
still made, and the next is the last; of a write the first half is.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from kavka.log.fs import Buffer, File, OsFile, OsFs
from kavka.server import host
from support import checked


class Doom:
    """When to die."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._left = 0
        self._part: str | None = None

    def step(self, path: str, last: Callable[[], object] = lambda: None) -> None:
        """A step is about to be made; if it is the one, `last` is done and then nothing more."""
        if self._part is None:
            if not os.path.exists(self._path):
                return
            left, self._part = Path(self._path).read_text().split()
            self._left = int(left)
        if self._part not in path:
            return
        self._left -= 1
        if self._left < 0:
            last()
            os.kill(os.getpid(), signal.SIGKILL)


DOOM = Doom(sys.argv[1] if __name__ == "__main__" else "")


class DoomedFile(OsFile):
    """A file of such a process."""

    __slots__ = ("_path",)

    def __init__(self, fd: int, path: str) -> None:
        super().__init__(fd)
        self._path = path

    def pwrite(self, data: Buffer, offset: int) -> None:
        half = bytes(data)[: len(data) // 2]
        DOOM.step(self._path, lambda: OsFile.pwrite(self, half, offset))
        super().pwrite(data, offset)

    def truncate(self, size: int) -> None:
        DOOM.step(self._path)
        super().truncate(size)

    def sync(self) -> None:
        DOOM.step(self._path)
        super().sync()


class DoomedFs(OsFs):
    """The file system of such a process; those of its children live on."""

    def open(self, path: str) -> File:
        return DoomedFile(self._open(path, os.O_RDWR), path)

    def create(self, path: str) -> File:
        DOOM.step(path)
        return DoomedFile(self._open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC), path)

    def make_dir(self, path: str) -> None:
        DOOM.step(path)
        super().make_dir(path)

    def rename(self, source: str, target: str) -> None:
        DOOM.step(source)
        super().rename(source, target)

    def remove(self, path: str) -> None:
        DOOM.step(path)
        super().remove(path)

    def sync_dir(self, path: str) -> None:
        DOOM.step(path)
        super().sync_dir(path)

    def write_atomic(self, path: str, data: bytes, *, sync: bool) -> None:
        DOOM.step(path)
        super().write_atomic(path, data, sync=sync)


if __name__ == "__main__":
    vars(host)["OsFs"] = DoomedFs
    sys.exit(checked.main(sys.argv[2:]))
