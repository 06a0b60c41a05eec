"""What a thread does to the files of a log and of its copy: read, compare, write, bring to disk.

An OSError of the copy is raised as it is. One of the log is a `SourceError`: it is another log
directory that has failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, TypeVar

from kavka.log.fs import File, FileSystem

T = TypeVar("T")

BUFFER_BYTES: Final = 1 << 20
"""Read and written at a time."""


class SourceError(Exception):
    """The log that is copied can't be read."""

    def __init__(self, failure: OSError) -> None:
        super().__init__(str(failure))
        self.failure = failure


def of_source(read: Callable[[], T]) -> T:
    """What `read` finds in the log; SourceError when it fails."""
    try:
        return read()
    except OSError as failure:
        raise SourceError(failure) from failure


def open_or_create(fs: FileSystem, path: str) -> File:
    """The file at `path`, with what is in it. OSError."""
    return fs.open(path) if fs.exists(path) else fs.create(path)


def count_equal(fs: FileSystem, source: File, path: str, begin: int, end: int) -> int:
    """Up to where the file at `path` is the same as `source`, at most `end`. OSError."""
    target = fs.open(path)
    position = begin
    while position < end:
        size = min(BUFFER_BYTES, end - position)
        wanted, found = _read(source, size, position), target.pread(size, position)
        if wanted != found:
            break
        position += size
    return position


def copy_bytes(fs: FileSystem, source: File, path: str, begin: int, end: int) -> File:
    """Have the file at `path` go on from `begin` as `source` does, and end at `end`. OSError."""
    target = open_or_create(fs, path)
    if target.size() > begin:
        target.truncate(begin)
    view = memoryview(bytearray(min(BUFFER_BYTES, end - begin)))
    position = begin
    while position < end:
        part = view[: end - position]
        if of_source(partial(source.read_into, part, position)) < len(part):
            raise SourceError(OSError(f"{path} can't be completed: its source has become shorter"))
        target.pwrite(part, position)
        position += len(part)
    return target


def copy_file(fs: FileSystem, source: str, path: str, size: int | None = None) -> None:
    """Have the file at `path` be as the one at `source`, or its first `size` bytes, and on the
    disk; without one there be none. OSError."""
    try:
        origin = of_source(lambda: fs.open(source))
        end = of_source(origin.size) if size is None else size
    except SourceError as error:
        if not isinstance(error.failure, FileNotFoundError):
            raise
        remove_files(fs, [path])
        return
    copy_bytes(fs, origin, path, 0, end).sync()


def remove_files(fs: FileSystem, paths: Iterable[str]) -> None:
    """Remove the files that are there. OSError."""
    for path in paths:
        if fs.exists(path):
            fs.remove(path)


def _read(source: File, size: int, position: int) -> bytes:
    return of_source(lambda: source.pread(size, position))
