"""The disk's seam: what the log asks of a file system, and the real one.

Nothing else in the package opens a file. `kavka.log.memfs` is the twin that tests and simulations
use, with power cuts, torn writes, failing fsyncs and full disks.

Paths are plain strings joined with "/". Errors are the OSError of the operating system. A file
that is no longer referenced is closed, so one that was dropped (evicted, deleted, rolled) stays
readable for whoever still holds it, be it in a thread.
"""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import shutil
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple, Protocol, TypeAlias
from weakref import ref

Buffer: TypeAlias = bytes | bytearray | memoryview

_RWF_NOWAIT: Final[int | None] = getattr(os, "RWF_NOWAIT", None)
_OFD_SETLK: Final[int | None] = getattr(fcntl, "F_OFD_SETLK", None)
_FILES_MAX: Final = 1 << 20
_PID_BYTES_MAX: Final = 20
_READ_BYTES: Final = 1 << 16
_NO_NOWAIT: Final = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})


class File(Protocol):
    """One open file, readable and writable. Offsets and sizes are bytes."""

    def pread(self, size: int, offset: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""
        ...

    def read_into(self, buffer: memoryview, offset: int) -> int:
        """Fill `buffer`, waiting for the disk; how many bytes there were before the file's end."""
        ...

    def read_cached(self, buffer: memoryview, offset: int) -> int | None:
        """Fill `buffer` from memory alone. None: not all of it is there, use `read_into`.

        Where the file system can't tell (no RWF_NOWAIT) this is a plain read.
        """
        ...

    def pwrite(self, data: Buffer, offset: int) -> None:
        """Write all of `data`, or raise OSError having written an unknown part of it."""
        ...

    def truncate(self, size: int) -> None:
        """Cut, or lengthen with zeros, to `size` bytes."""
        ...

    def size(self) -> int:
        """The file's length."""
        ...

    def sync(self) -> None:
        """Return when data and length are on the disk; the one call that may take long."""
        ...

    def close(self) -> None:
        """Close now instead of with the last reference; nobody may use the file any more."""
        ...


class Lock(Protocol):
    """A held lock on a file."""

    def release(self) -> None:
        """Let others have it."""
        ...


class Volume(NamedTuple):
    """What a directory lies on: its size, and what this process may still write."""

    total_bytes: int
    usable_bytes: int


class FileSystem(Protocol):
    """Names, directories and whole-file operations. Missing paths raise FileNotFoundError."""

    def limit_files(self) -> int:
        """How many files this process may have open, sockets included."""
        ...

    def on_fd_exhaustion(self, close_some: Callable[[], bool]) -> None:
        """Where no more files can be opened, have `close_some` close some, and try once more
        unless it says that it had none. It may be called in any thread."""
        ...

    def open(self, path: str) -> File:
        """An existing file."""
        ...

    def create(self, path: str) -> File:
        """A new, empty file; one that exists is emptied."""
        ...

    def exists(self, path: str) -> bool: ...

    def is_dir(self, path: str) -> bool: ...

    def size(self, path: str) -> int:
        """Length in bytes of the file at `path`."""
        ...

    def modified_ms(self, path: str) -> int:
        """When the file at `path` was last written, in milliseconds since the epoch."""
        ...

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Have the file at `path` pass for one that was last written then."""
        ...

    def absolute(self, path: str) -> str:
        """`path` from the root on; ".." and links in it stay."""
        ...

    def volume(self, path: str) -> Volume:
        """What holds the directory at `path`. May take long where that is a network."""
        ...

    def list_dir(self, path: str) -> list[str]:
        """The names in a directory, sorted."""
        ...

    def make_dir(self, path: str) -> None:
        """Make a directory and those above it; nothing happens when it is there."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Move a file or directory; an existing file at `target` is replaced in one step."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file."""
        ...

    def remove_tree(self, path: str) -> None:
        """Remove a directory and everything in it; nothing happens when it isn't there."""
        ...

    def sync_dir(self, path: str) -> None:
        """Make the directory's names (created, renamed, removed) survive a power cut."""
        ...

    def sync_file(self, path: str) -> None:
        """fsync the file at `path`."""
        ...

    def read_bytes(self, path: str) -> bytes:
        """A whole file."""
        ...

    def write_atomic(self, path: str, data: bytes, *, sync: bool) -> None:
        """Replace a whole file so that a reader, or a crash, sees the old one or the new one.

        Without `sync` it survives the process' end but not a power cut; the caller sees to
        `sync_file` and `sync_dir` before relying on it.
        """
        ...

    def lock(self, path: str) -> Lock:
        """Take the lock file at `path`; BlockingIOError when another process holds it,
        OrphanedLockError when the process that took it is gone, and one that it started is not."""
        ...

    def lock_descriptors(self) -> tuple[int, ...]:
        """The locks that are held, as descriptors for a process that is started to work on what
        they guard. While it has them, whatever becomes of this process, nobody else gets them."""
        ...


def is_fd_exhaustion(failure: OSError) -> bool:
    """Whether only too many files are open, which says nothing of the disk."""
    return failure.errno in (errno.EMFILE, errno.ENFILE)


class OsFile:
    """A file of the operating system."""

    __slots__ = ("_fd", "_nowait")

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._nowait = _RWF_NOWAIT

    def pread(self, size: int, offset: int) -> bytes:
        data = os.pread(self._fd, size, offset)
        while len(data) < size:
            more = os.pread(self._fd, size - len(data), offset + len(data))
            if not more:
                break
            data += more
        return data

    def read_into(self, buffer: memoryview, offset: int) -> int:
        done = os.preadv(self._fd, [buffer], offset)
        while 0 < done < len(buffer):
            more = os.preadv(self._fd, [buffer[done:]], offset + done)
            if not more:
                break
            done += more
        return done

    def read_cached(self, buffer: memoryview, offset: int) -> int | None:
        nowait = self._nowait
        if nowait is None:
            return self.read_into(buffer, offset)
        try:
            done = os.preadv(self._fd, [buffer], offset, nowait)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno not in _NO_NOWAIT:
                raise
            self._nowait = None
            return self.read_into(buffer, offset)
        return done if done == len(buffer) else None

    def pwrite(self, data: Buffer, offset: int) -> None:
        size = len(data)
        done = os.pwrite(self._fd, data, offset)
        if done < size:
            view = memoryview(data)
            while done < size:
                done += os.pwrite(self._fd, view[done:], offset + done)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.close()


class OrphanedLockError(BlockingIOError):
    """A lock that is left to a process whose starter, which took the lock, has ended."""


class OsLock:
    """A lock that holds as long as its descriptor is open, here or in a process that has it too.
    The file tells whose it is."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        """The descriptor; -1 when it is closed."""
        self._sign(b"%d\n" % os.getpid())

    def _sign(self, owner: bytes) -> None:
        with suppress(OSError):  # on a full disk nobody is named, and the lock holds all the same
            os.ftruncate(self.fd, 0)
            os.pwrite(self.fd, owner, 0)

    def release(self) -> None:
        if self.fd >= 0:
            self._sign(b"")
            fd, self.fd = self.fd, -1
            _unlock_descriptor(fd)
            os.close(fd)

    def __del__(self) -> None:
        if self.fd >= 0:  # closed, not unlocked: it may be a forked child that forgets it
            os.close(self.fd)


class OsFs:
    """The file system of the operating system."""

    def __init__(self) -> None:
        self._close_some: Callable[[], bool] | None = None
        self._locks: list[ref[OsLock]] = []

    def __reduce__(self) -> tuple[type[OsFs], tuple[()]]:
        """In another process, where it is pickled to, there is nothing to close."""
        return OsFs, ()

    def limit_files(self) -> int:
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return limit if limit != resource.RLIM_INFINITY else _FILES_MAX

    def on_fd_exhaustion(self, close_some: Callable[[], bool]) -> None:
        self._close_some = close_some

    def _open(self, path: str, flags: int) -> int:
        try:
            return os.open(path, flags | os.O_CLOEXEC, 0o644)
        except OSError as error:
            if not is_fd_exhaustion(error) or self._close_some is None or not self._close_some():
                raise
        return os.open(path, flags | os.O_CLOEXEC, 0o644)

    def open(self, path: str) -> File:
        return OsFile(self._open(path, os.O_RDWR))

    def create(self, path: str) -> File:
        return OsFile(self._open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC))

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def is_dir(self, path: str) -> bool:
        return os.path.isdir(path)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def absolute(self, path: str) -> str:
        return os.path.join(os.getcwd(), path)

    def volume(self, path: str) -> Volume:
        found = os.statvfs(path)
        return Volume(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)

    def list_dir(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def make_dir(self, path: str) -> None:
        try:
            os.mkdir(path)
        except FileNotFoundError:
            os.makedirs(path, exist_ok=True)
        except FileExistsError:
            if not os.path.isdir(path):
                raise

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def remove(self, path: str) -> None:
        os.unlink(path)

    def remove_tree(self, path: str) -> None:
        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            if os.path.lexists(path):
                raise

    def sync_dir(self, path: str) -> None:
        fd = self._open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def sync_file(self, path: str) -> None:
        fd = self._open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def read_bytes(self, path: str) -> bytes:
        fd = self._open(path, os.O_RDONLY)
        try:
            return _read_to_end(fd)
        finally:
            os.close(fd)

    def write_atomic(self, path: str, data: bytes, *, sync: bool) -> None:
        temporary = f"{path}.tmp"
        file = self.create(temporary)
        try:
            file.pwrite(data, 0)
            if sync:
                file.sync()
        finally:
            file.close()
        os.replace(temporary, path)
        if sync:
            self.sync_dir(os.path.dirname(path) or ".")

    def lock(self, path: str) -> Lock:
        fd = self._open(path, os.O_RDWR | os.O_CREAT)
        try:
            _lock_descriptor(fd)
            lock = OsLock(fd)
        except BlockingIOError as error:
            owner = os.pread(fd, _PID_BYTES_MAX, 0)
            os.close(fd)
            if _has_ended(owner):
                raise OrphanedLockError(error.errno, error.strerror) from error
            raise
        except BaseException:
            os.close(fd)
            raise
        self._locks = [ref(other) for other in self._held_locks()] + [ref(lock)]
        return lock

    def _held_locks(self) -> list[OsLock]:
        found = [reference() for reference in self._locks]
        return [lock for lock in found if lock is not None and lock.fd >= 0]

    def lock_descriptors(self) -> tuple[int, ...]:
        return tuple(lock.fd for lock in self._held_locks())


def _has_ended(owner: bytes) -> bool:
    """Whether the process that a lock file names is gone."""
    if not owner.strip().isdigit():
        return False
    try:
        os.kill(int(owner), 0)  # asks whether there is one
    except ProcessLookupError:
        return True
    except (OverflowError, PermissionError):
        return False
    return False


def _read_to_end(fd: int) -> bytes:
    """What Python's own files do in twice as many calls of the system."""
    data = os.read(fd, _READ_BYTES)
    while part := os.read(fd, _READ_BYTES):
        data += part
    return data


def _lock_descriptor(fd: int) -> None:
    """Lock a whole file for as long as `fd` is open.

    Java locks with fcntl and flock doesn't see that. A lock of the open file description meets
    both Apache Kafka's lock and that of a second broker in this very process.
    """
    if _OFD_SETLK is None:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return
    try:
        fcntl.fcntl(fd, _OFD_SETLK, _whole_file(fcntl.F_WRLCK))
    except PermissionError as error:  # what some systems say where others say EAGAIN
        raise BlockingIOError(error.errno, error.strerror) from error


def _unlock_descriptor(fd: int) -> None:
    """Closing alone would leave the lock to a forked child, which has the descriptor too."""
    if _OFD_SETLK is None:
        fcntl.flock(fd, fcntl.LOCK_UN)
    else:
        fcntl.fcntl(fd, _OFD_SETLK, _whole_file(fcntl.F_UNLCK))


def _whole_file(kind: int) -> bytes:
    return struct.pack("hhqqi", kind, os.SEEK_SET, 0, 0, 0)
