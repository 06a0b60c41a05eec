"""What all partitions of a broker share of the disk: the file system, and limits on what is open.

A log file is opened when it is first read or written and closed when too many are open; those
that were not used lately go first. Whoever still holds a closed one can go on reading it.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

from kavka.log.fs import File, FileSystem
from kavka.log.garbage import Garbage
from kavka.log.index import IndexCache


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


class Disk:
    """The file system with the limits that go with it, and what is to be removed from it."""

    __slots__ = ("files", "fs", "garbage", "indexes")

    def __init__(self, fs: FileSystem, *, open_files_max: int, index_cache_bytes: int) -> None:
        self.fs = fs
        self.files = OpenFiles(open_files_max)
        self.indexes = IndexCache(index_cache_bytes)
        self.garbage = Garbage()

    def apart(self, *, open_files_max: int, index_cache_bytes: int) -> Disk:
        """The same file system for what a thread does by itself, with limits of its own."""
        return Disk(self.fs, open_files_max=open_files_max, index_cache_bytes=index_cache_bytes)
