"""What all logs of a broker share: the file system, the limit on open files, the index cache.

A log file is opened when it is first read or written, and evicted when too many are open, least
recently used first. A reader that still references an evicted file can go on reading it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple, Protocol

from kavka.log.deferred_deletes import DeferredDeletes
from kavka.log.fs import Buffer, File, FileSystem
from kavka.log.index import IndexCache
from kavka.log.settings import LogSettings


class FileHolder(Protocol):
    """Something that keeps its file open in `open_file`."""

    open_file: File | None
    used: bool
    """Set by the holder at each use."""


class OpenFiles:
    """The holders that have their file open."""

    def __init__(self, limit_files: int) -> None:
        self._limit_files = limit_files
        self._holders: OrderedDict[FileHolder, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._holders)

    def hold(self, holder: FileHolder) -> None:
        """Register that `holder` has opened its file; evict others if too many are open."""
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
        """Evict half of the files, least recently used first, after file descriptor exhaustion;
        whether there were any. May run in any thread."""
        holders = self._holders
        was_any = bool(holders)
        for _ in range((len(holders) + 1) // 2):
            try:
                holder, _none = holders.popitem(last=False)
            except KeyError:
                break  # others were dropped concurrently
            holder.open_file = None
        return was_any

    def drop(self, holder: FileHolder) -> None:
        """Close `holder`'s file."""
        self._holders.pop(holder, None)
        holder.open_file = None


class WatchedFile:
    """A file whose reads can be aborted: `watch` is called before each read and may raise."""

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
    """The file system with its open files, index cache and deferred deletes."""

    __slots__ = ("_watch", "files", "fs", "deferred_deletes", "indexes")

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
        self.deferred_deletes = DeferredDeletes()

    def open(self, path: str) -> File:
        """A log file. OSError."""
        file = self.fs.open(path)
        return file if self._watch is None else WatchedFile(file, self._watch)

    def with_limits(
        self, *, open_files_max: int, index_cache_bytes: int, watch: Callable[[], None]
    ) -> Disk:
        """The same file system with separate limits, for use in a thread."""
        return Disk(
            self.fs,
            open_files_max=open_files_max,
            index_cache_bytes=index_cache_bytes,
            watch=watch,
        )


class LogLocation(NamedTuple):
    """A partition's log directory, and what is needed to open the log there."""

    disk: Disk
    directory: str
    topic: str
    partition: int
    settings: LogSettings
    now_ms: int
