"""File operations for `future_log_copier.py`, run in threads: compare, copy, flush.

An OSError of the copy is raised as it is. One of the source log is raised as `SourceError`,
because it means the failure of another log directory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, TypeVar

from kavka.log.fs import File, FileSystem

T = TypeVar("T")

BUFFER_BYTES: Final = 1 << 20
"""Bytes read and written at a time."""


class SourceError(Exception):
    """The log being copied can't be read."""

    def __init__(self, failure: OSError) -> None:
        super().__init__(str(failure))
        self.failure = failure


def of_source(read: Callable[[], T]) -> T:
    """The result of `read`; an OSError of it becomes a SourceError."""
    try:
        return read()
    except OSError as failure:
        raise SourceError(failure) from failure


def open_or_create(fs: FileSystem, path: str) -> File:
    """The file at `path`, created if missing. OSError."""
    return fs.open(path) if fs.exists(path) else fs.create(path)


def count_equal(fs: FileSystem, source: File, path: str, begin: int, end: int) -> int:
    """The position up to which the file at `path` equals `source`, at most `end`. OSError."""
    target = fs.open(path)
    position = begin
    while position < end:
        size = min(BUFFER_BYTES, end - position)
        expected, found = _read(source, size, position), target.pread(size, position)
        if expected != found:
            break
        position += size
    return position


def copy_bytes(fs: FileSystem, source: File, path: str, begin: int, end: int) -> File:
    """Copy the bytes from `begin` to `end`, and truncate the file at `path` to `end`. OSError."""
    target = open_or_create(fs, path)
    if target.size() > begin:
        target.truncate(begin)
    view = memoryview(bytearray(min(BUFFER_BYTES, end - begin)))
    position = begin
    while position < end:
        part = view[: end - position]
        if of_source(partial(source.read_into, part, position)) < len(part):
            raise SourceError(OSError(f"{path} can't be completed: its source was truncated"))
        target.pwrite(part, position)
        position += len(part)
    return target


def copy_file(fs: FileSystem, source: str, path: str, size: int | None = None) -> None:
    """Copy the file at `source`, or its first `size` bytes, to `path` and flush it; if there is
    no source, remove the file at `path`. OSError."""
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
    """Remove the files that exist. OSError."""
    for path in paths:
        if fs.exists(path):
            fs.remove(path)


def remove_content(fs: FileSystem, path: str) -> None:
    """Remove all files of the directory at `path`. OSError."""
    remove_files(fs, [f"{path}/{name}" for name in fs.list_dir(path)])


def _read(source: File, size: int, position: int) -> bytes:
    return of_source(lambda: source.pread(size, position))
