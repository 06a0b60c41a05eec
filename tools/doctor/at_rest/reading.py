"""The file system of this machine, to read only."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from typing import Final, NoReturn

from kavka.log.fs import Buffer, File, Lock, OsFile, OsFs

_OFD_GETLK: Final[int | None] = getattr(fcntl, "F_OFD_GETLK", None)
_FLOCK: Final = struct.Struct("hhqqi4x")
_PID_BYTES_MAX: Final = 20


class ReadOnlyFs(OsFs):
    """The operating system's file system, which this process does not change."""

    def open(self, path: str) -> File:
        return OsFile(self._open(path, os.O_RDONLY))

    def create(self, path: str) -> File:
        _refuse(path)

    def make_dir(self, path: str) -> None:
        _refuse(path)

    def rename(self, source: str, target: str) -> None:
        _refuse(source)

    def remove(self, path: str) -> None:
        _refuse(path)

    def remove_tree(self, path: str) -> None:
        _refuse(path)

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        _refuse(path)

    def write_atomic(self, path: str, data: Buffer, *, sync: bool) -> None:
        _refuse(path)

    def lock(self, path: str) -> Lock:
        _refuse(path)

    def holder(self, path: str) -> str | None:
        """Who holds the lock of a lock file: what it says of itself; None if nobody does, or there
        is no such file. OSError."""
        try:
            fd = self._open(path, os.O_RDONLY)
        except FileNotFoundError:
            return None
        try:
            if not _is_locked(fd):
                return None
            owner = os.pread(fd, _PID_BYTES_MAX, 0).decode(errors="replace").strip()
        finally:
            os.close(fd)
        return f"process {owner}" if owner.isdecimal() else "another process"


def _refuse(path: str) -> NoReturn:
    raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)


def _is_locked(fd: int) -> bool:
    """Whether another open file has the lock that a broker takes; takes none for longer."""
    if _OFD_GETLK is None:
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        fcntl.flock(fd, fcntl.LOCK_UN)
        return False
    query = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    kind: int = _FLOCK.unpack(fcntl.fcntl(fd, _OFD_GETLK, query))[0]
    return kind != fcntl.F_UNLCK
