"""The interface to the file system, and its implementation by the operating system.

Nothing else in the package opens files. `kavka.log.memfs` is the in-memory implementation for
tests and simulations, with power failures, torn writes, failing fsyncs and full disks.

Paths are plain strings joined with "/". Errors are the OSError of the operating system. A file
is closed when it is no longer referenced, so one that was evicted, deleted or rolled stays readable
for those that still reference it, also in other threads.
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
        """Fill `buffer`, waiting for the disk; the number of bytes read, fewer only at the end."""
        ...

    def read_cached(self, buffer: memoryview, offset: int) -> int | None:
        """Fill `buffer` from the page cache. None: not all of it is cached, use `read_into`.

        A plain read where the file system does not support RWF_NOWAIT.
        """
        ...

    def pwrite(self, data: Buffer, offset: int) -> None:
        """Write all of `data`. OSError: an unknown part of it was written."""
        ...

    def truncate(self, size: int) -> None:
        """Truncate, or extend with zeros, to `size` bytes."""
        ...

    def size(self) -> int:
        """The file's length."""
        ...

    def sync(self) -> None:
        """fsync data and length; the only call that may take long."""
        ...

    def close(self) -> None:
        """Close now instead of with the last reference; the file can't be used any more."""
        ...


class Lock(Protocol):
    """A held lock on a file."""

    def release(self) -> None:
        """Release the lock."""
        ...


class Volume(NamedTuple):
    """The volume of a directory: its size, and what this process may still write."""

    total_bytes: int
    usable_bytes: int


class FileSystem(Protocol):
    """Operations on paths. Missing paths raise FileNotFoundError."""

    def limit_files(self) -> int:
        """How many files this process may have open, sockets included."""
        ...

    def on_fd_exhaustion(self, close_some: Callable[[], bool]) -> None:
        """On file descriptor exhaustion call `close_some`, which closes files, and retry once if it
        returns True. It may be called in any thread."""
        ...

    def open(self, path: str) -> File:
        """An existing file."""
        ...

    def create(self, path: str) -> File:
        """A new, empty file; an existing one is truncated."""
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
        """Set when the file at `path` was last written."""
        ...

    def absolute(self, path: str) -> str:
        """The absolute path; ".." and links are not resolved."""
        ...

    def volume(self, path: str) -> Volume:
        """The volume of the directory at `path`. May take long for a network file system."""
        ...

    def list_dir(self, path: str) -> list[str]:
        """The names in a directory, sorted."""
        ...

    def make_dir(self, path: str) -> None:
        """Create a directory and its parents; does nothing if it exists."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Rename a file or directory; an existing file at `target` is replaced atomically."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file."""
        ...

    def remove_tree(self, path: str) -> None:
        """Remove a directory and everything in it; does nothing if it does not exist."""
        ...

    def sync_dir(self, path: str) -> None:
        """fsync the directory: created, renamed and removed names survive a power failure."""
        ...

    def sync_file(self, path: str) -> None:
        """fsync the file at `path`."""
        ...

    def read_bytes(self, path: str) -> bytes:
        """A whole file."""
        ...

    def write_atomic(self, path: str, data: bytes, *, sync: bool) -> None:
        """Replace a whole file atomically, for readers and for a crash of the process.

        Without `sync` it does not survive a power failure until the caller has called
        `sync_file` and `sync_dir`.
        """
        ...

    def lock(self, path: str) -> Lock:
        """Lock the lock file at `path`. BlockingIOError when another process holds the lock,
        OrphanedLockError when a child process of its former, ended owner does."""
        ...

    def lock_descriptors(self) -> tuple[int, ...]:
        """The descriptors of the held locks, for a child process to inherit: while it has them
        open the locks stay held, even if this process ends."""
        ...


def is_fd_exhaustion(failure: OSError) -> bool:
    """Whether an error means file descriptor exhaustion, not a failure of the disk."""
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
    """A lock that is still held by a child process of its owner, which has ended."""


class OsLock:
    """A lock that is held as long as its descriptor is open, here or in a child process. The lock
    file contains the process id of its owner."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        """The descriptor; -1 when it is closed."""
        self._sign(b"%d\n" % os.getpid())

    def _sign(self, owner: bytes) -> None:
        with suppress(OSError):  # on a full disk the file has no process id, but the lock is held
            os.ftruncate(self.fd, 0)
            os.pwrite(self.fd, owner, 0)

    def release(self) -> None:
        if self.fd >= 0:
            self._sign(b"")
            fd, self.fd = self.fd, -1
            _unlock_descriptor(fd)
            os.close(fd)

    def __del__(self) -> None:
        if self.fd >= 0:  # closed, not unlocked: this may be a forked child
            os.close(self.fd)


class OsFs:
    """The file system of the operating system."""

    def __init__(self) -> None:
        self._close_some: Callable[[], bool] | None = None
        self._locks: list[ref[OsLock]] = []

    def __reduce__(self) -> tuple[type[OsFs], tuple[()]]:
        """Pickled for a child process without `close_some` and locks."""
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
    """Whether the process with the id in a lock file has ended."""
    if not owner.strip().isdigit():
        return False
    try:
        os.kill(int(owner), 0)  # checks whether the process exists
    except ProcessLookupError:
        return True
    except (OverflowError, PermissionError):
        return False
    return False


def _read_to_end(fd: int) -> bytes:
    """Read to the end with half of the system calls of Python's own files."""
    data = os.read(fd, _READ_BYTES)
    while part := os.read(fd, _READ_BYTES):
        data += part
    return data


def _lock_descriptor(fd: int) -> None:
    """Lock a whole file for as long as `fd` is open.

    Java locks with fcntl, which flock does not see. An open file description lock conflicts both
    with Apache Kafka's lock and with that of a second broker in this process.
    """
    if _OFD_SETLK is None:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return
    try:
        fcntl.fcntl(fd, _OFD_SETLK, _whole_file(fcntl.F_WRLCK))
    except PermissionError as error:  # some systems raise this instead of EAGAIN
        raise BlockingIOError(error.errno, error.strerror) from error


def _unlock_descriptor(fd: int) -> None:
    """Closing alone would leave the lock held by a forked child with the same descriptor."""
    if _OFD_SETLK is None:
        fcntl.flock(fd, fcntl.LOCK_UN)
    else:
        fcntl.fcntl(fd, _OFD_SETLK, _whole_file(fcntl.F_UNLCK))


def _whole_file(kind: int) -> bytes:
    return struct.pack("hhqqi", kind, os.SEEK_SET, 0, 0, 0)
