"""A disk and a clock that fail as `Control` says, for a broker that is a process of its own."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator

from cluster_faults.control import READS, SYNCS, WRITES, Control
from cluster_faults.power import Synced
from kavka.log.fs import Buffer, File, OsFile, OsFs
from kavka.server.runtime.clock import SystemClock

SLOW_POLL_S = 0.02
"""An fsync that takes long looks so often whether it still does."""


class BrokenClock(SystemClock):
    """Not on time. What it says of passing time is right."""

    __slots__ = ("_control",)

    def __init__(self, control: Control) -> None:
        self._control = control

    def now_ms(self) -> int:
        return super().now_ms() + self._control.skew_ms


class BrokenFile(OsFile):
    """A file on such a disk."""

    __slots__ = ("_fs", "_inode", "_path")

    def __init__(self, fd: int, path: str, fs: BrokenFs) -> None:
        super().__init__(fd)
        self._path = path
        self._fs = fs
        self._inode = os.fstat(fd).st_ino

    def pread(self, size: int, offset: int) -> bytes:
        self._fs.check(READS, self._path)
        return super().pread(size, offset)

    def read_into(self, buffer: memoryview, offset: int) -> int:
        self._fs.check(READS, self._path)
        return super().read_into(buffer, offset)

    def read_cached(self, buffer: memoryview, offset: int) -> int | None:
        self._fs.check(READS, self._path)
        return super().read_cached(buffer, offset)

    def pwrite(self, data: Buffer, offset: int) -> None:
        self._fs.check(WRITES, self._path)
        self._fs.notes.writing(self._inode, self.size())
        super().pwrite(data, offset)

    def truncate(self, size: int) -> None:
        self._fs.check(WRITES, self._path)
        super().truncate(size)
        self._fs.notes.truncated(self._inode, size)

    def sync(self) -> None:
        size = self.size()
        self._fs.wait()
        self._fs.check(SYNCS, self._path)
        super().sync()
        self._fs.notes.synced(self._inode, size)


class BrokenFs(OsFs):
    """The file system of such a process, and of its children."""

    def __init__(self, control: Control, notes: Synced) -> None:
        super().__init__()
        self.notes = notes
        self._control = control

    def __reduce__(self) -> tuple[object, tuple[str, str]]:  # type: ignore[override]
        return broken_fs, (self._control.path, self.notes.path)

    def check(self, operation: int, path: str) -> None:
        """Fail, if that is what fails."""
        if self._control.failing == operation:
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    def wait(self) -> None:
        """As long as an fsync takes now."""
        began = time.monotonic()
        while time.monotonic() - began < self._control.sync_ms / 1000:
            time.sleep(SLOW_POLL_S)

    def open(self, path: str) -> File:
        return BrokenFile(self._open(path, os.O_RDWR), path, self)

    def create(self, path: str) -> File:
        self.check(WRITES, path)
        file = BrokenFile(self._open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC), path, self)
        self.notes.created(os.stat(path).st_ino)
        return file

    def rename(self, source: str, target: str) -> None:
        self.check(WRITES, source)
        replaced = list(_inodes(target))
        super().rename(source, target)
        self._removed(replaced)

    def remove(self, path: str) -> None:
        self.check(WRITES, path)
        removed = list(_inodes(path))
        super().remove(path)
        self._removed(removed)

    def remove_tree(self, path: str) -> None:
        self.check(WRITES, path)
        removed = list(_inodes(path))
        super().remove_tree(path)
        self._removed(removed)

    def _removed(self, inodes: list[int]) -> None:
        for inode in inodes:
            self.notes.removed(inode)

    def sync_dir(self, path: str) -> None:
        self.wait()
        self.check(SYNCS, path)
        super().sync_dir(path)

    def sync_file(self, path: str) -> None:
        self.open(path).sync()

    def read_bytes(self, path: str) -> bytes:
        self.check(READS, path)
        return super().read_bytes(path)

    def write_atomic(self, path: str, data: bytes, *, sync: bool) -> None:
        replaced = list(_inodes(path))
        super().write_atomic(path, data, sync=sync)
        self._removed(replaced)


def _inodes(path: str) -> Iterator[int]:
    """Of a file, or of all files in a directory."""
    if os.path.isdir(path):
        for directory, _, names in os.walk(path):
            for name in names:
                yield os.stat(os.path.join(directory, name)).st_ino
    elif os.path.exists(path):
        yield os.stat(path).st_ino


def broken_fs(control: str, notes: str) -> BrokenFs:
    """In a child process, too."""
    return BrokenFs(Control(control), Synced(notes))
