"""Flushing a log: the fsyncs that are needed before its recovery point may advance.

A plan is made on the loop, run in a thread and reported back on the loop. It holds the open files,
so rolling, closing or deleting segments meanwhile does not affect it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from kavka.log.fs import File, FileSystem
from kavka.log.segment import Segment


class FlushPlan(NamedTuple):
    """The files to fsync so that everything below `offset` survives a power failure."""

    fs: FileSystem
    files: tuple[File, ...]
    paths: tuple[str, ...]
    """Small files. Those that were removed meanwhile are skipped."""

    directories: tuple[str, ...]
    offset: int
    """The new recovery point."""

    truncations: int
    """How often the log had been truncated; a plan made before a truncation is void."""

    made_ms: int
    unflushed: UnflushedPaths
    """Where `paths` and `directories` came from."""

    def add_back_unflushed(self) -> None:
        """The plan did not complete because of file descriptor exhaustion: have the next plan
        include its paths and directories again. Its open files have not failed."""
        for path in self.paths:
            self.unflushed.add(path)
        for directory in self.directories:
            self.unflushed.add_directory(directory)

    def run(self) -> None:
        """Do the fsyncs, nothing else. OSError: nothing counts as flushed."""
        self.sync_files()
        _sync_each(self.fs.sync_dir, self.directories)

    def sync_files(self) -> None:
        """`run` without the directories, which the caller has to sync. OSError."""
        for file in self.files:
            file.sync()
        _sync_each(self.fs.sync_file, self.paths)


def _sync_each(sync: Callable[[str], None], paths: Iterable[str]) -> None:
    for path in paths:
        try:
            sync(path)
        except FileNotFoundError:
            continue


class UnflushedPaths:
    """Small files and directories that were changed since their last fsync, in order."""

    __slots__ = ("_directories", "_paths")

    def __init__(self) -> None:
        self._paths: dict[str, None] = {}
        self._directories: dict[str, None] = {}

    def __bool__(self) -> bool:
        return bool(self._directories)

    def add(self, path: str) -> None:
        """Have the next plan sync the small file at `path`, which was written."""
        self._paths[path] = None
        self.add_name(path)

    def add_name(self, path: str) -> None:
        """Have the next plan sync the directory that contains `path`, a file or directory that was
        created, renamed or removed."""
        self.add_directory(path.rpartition("/")[0])

    def clear(self) -> None:
        """Drop all: the log uses other files now."""
        self._paths.clear()
        self._directories.clear()

    def add_directory(self, path: str) -> None:
        """Have the next plan sync the directory at `path`, in which a name was created, renamed or
        removed."""
        self._directories[path] = None

    def make_plan(
        self,
        fs: FileSystem,
        closed: Sequence[Segment],
        active: Segment | None,
        *,
        sealed: bool,
        offset: int,
        truncations: int,
        made_ms: int,
    ) -> FlushPlan:
        """A plan for all of these, the `closed` segments with their indexes, and `active`.

        The active segment's indexes are not synced unless it is `sealed`: after a crash they are
        rebuilt from its batches, and an acknowledgement waits for one fsync instead of three.
        """
        paths = []
        segments = [*closed] if active is None else [*closed, active]
        for segment in segments if sealed else closed:
            segment.write_indexes()
            paths += segment.index_paths()
        plan = FlushPlan(
            fs=fs,
            files=tuple(segment.file for segment in segments),
            paths=(*paths, *self._paths),
            directories=tuple(self._directories),
            offset=offset,
            truncations=truncations,
            made_ms=made_ms,
            unflushed=self,
        )
        self._paths.clear()
        self._directories.clear()
        return plan
