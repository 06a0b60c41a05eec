"""What all partitions of a broker share of the disk: the file system, and limits on what is open.

A log file is opened when it is first read or written and closed when too many are open; those
that were not used lately go first. Whoever still holds a closed one can go on reading it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple, Protocol

from kavka.log.deferred_deletes import Garbage
from kavka.log.fs import Buffer, File, FileSystem
from kavka.log.index import IndexCache
from kavka.log.settings import LogSettings


class Holder(Protocol):
    """Something that keeps a file open in its `open_file`."""

    open_file: File | None
    used: bool
    """Set by the holder with each use."""


class OpenFiles:
    """Which holders have their file open."""

    def __init__(self, limit_files: int) -> None:
        self._limit_files = limit_files
        self._holders: OrderedDict[Holder, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._holders)

    def hold(self, holder: Holder) -> None:
        """Note that `holder` has opened its file, and close another's if there are too many."""
        holders = self._holders
        holders[holder] = None
        holder.used = True
        while len(holders) > self._limit_files:
            candidate, _ = holders.popitem(last=False)
            if candidate.used:  # a second chance: hot files are opened once
                candidate.used = False
                holders[candidate] = None
            else:
                candidate.open_file = None

    def close_half(self) -> bool:
        """Close those that were not used lately, where others have taken all descriptors; whether
        there were any. In any thread."""
        holders = self._holders
        was_any = bool(holders)
        for _ in range((len(holders) + 1) // 2):
            try:
                holder, _none = holders.popitem(last=False)
            except KeyError:
                break  # the others were dropped meanwhile
            holder.open_file = None
        return was_any

    def drop(self, holder: Holder) -> None:
        """Close `holder`'s file."""
        self._holders.pop(holder, None)
        holder.open_file = None


class WatchedFile:
    """A file whose readers may be told to stop: what `watch` raises then, comes out of a read."""

    __slots__ = ("_file", "_watch")

    def __init__(self, file: File, watch: Callable[[], None]) -> None:
        self._file = file
        self._watch = watch

    def pread(self, size: int, offset: int) -> bytes:
        self._watch()
        return self._file.pread(size, offset)

    def read_into(self, buffer: memoryview, offset: int) -> int:
        self._watch()
        return self._file.read_into(buffer, offset)

    def read_cached(self, buffer: memoryview, offset: int) -> int | None:
        self._watch()
        return self._file.read_cached(buffer, offset)

    def pwrite(self, data: Buffer, offset: int) -> None:
        self._file.pwrite(data, offset)

    def truncate(self, size: int) -> None:
        self._file.truncate(size)

    def size(self) -> int:
        return self._file.size()

    def sync(self) -> None:
        self._file.sync()

    def close(self) -> None:
        self._file.close()


class Disk:
    """The file system with the limits that go with it, and what is to be removed from it."""

    __slots__ = ("_watch", "files", "fs", "garbage", "indexes")

    def __init__(
        self,
        fs: FileSystem,
        *,
        open_files_max: int,
        index_cache_bytes: int,
        watch: Callable[[], None] | None = None,
    ) -> None:
        """`watch` is called with each read of a log file; see `WatchedFile`."""
        self.fs = fs
        self._watch = watch
        self.files = OpenFiles(open_files_max)
        self.indexes = IndexCache(index_cache_bytes)
        self.garbage = Garbage()

    def open(self, path: str) -> File:
        """A log file. OSError."""
        file = self.fs.open(path)
        return file if self._watch is None else WatchedFile(file, self._watch)

    def apart(
        self, *, open_files_max: int, index_cache_bytes: int, watch: Callable[[], None]
    ) -> Disk:
        """The same file system for what a thread does by itself, with limits of its own."""
        return Disk(
            self.fs,
            open_files_max=open_files_max,
            index_cache_bytes=index_cache_bytes,
            watch=watch,
        )


class LogPlace(NamedTuple):
    """Which log, and what it needs to work."""

    disk: Disk
    directory: str
    topic: str
    partition: int
    settings: LogSettings
    now_ms: int
