"""What has to reach the disk before a log's recovery point may move, and the fsyncs for it.

Made on the loop, run in a thread, reported back on the loop: a plan holds the open files, so
that rolling, closing or deleting meanwhile does not disturb it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from kavka.log.fs import File, FileSystem
from kavka.log.segment import Segment


class FlushPlan(NamedTuple):
    """Files to fsync for everything below `offset` to survive a power cut."""

    fs: FileSystem
    files: tuple[File, ...]
    paths: tuple[str, ...]
    """Small files. What has been removed since, or with the whole log, is skipped."""

    directories: tuple[str, ...]
    offset: int
    """What becomes the recovery point."""

    truncations: int
    """How often the log had been cut; a plan made before a cut says nothing afterwards."""

    made_ms: int
    unsynced: Unsynced
    """What `paths` and `directories` were taken from."""

    def add_back_unsynced(self) -> None:
        """It has not been run, or not to its end, for want of descriptors: another plan has to do
        it all, and what fails in the files themselves is not known to have failed."""
        for path in self.paths:
            self.unsynced.add(path)
        for directory in self.directories:
            self.unsynced.add_directory(directory)

    def run(self) -> None:
        """Do the fsyncs; touches nothing else. OSError: nothing may be taken as flushed."""
        self.sync_files()
        _sync_each(self.fs.sync_dir, self.directories)

    def sync_files(self) -> None:
        """Without the directories, which someone else sees to then. OSError."""
        for file in self.files:
            file.sync()
        _sync_each(self.fs.sync_file, self.paths)


def _sync_each(sync: Callable[[str], None], paths: Iterable[str]) -> None:
    for path in paths:
        try:
            sync(path)
        except FileNotFoundError:
            continue


class Unsynced:
    """Small files and directories that were written and not fsynced, in order."""

    __slots__ = ("_directories", "_paths")

    def __init__(self) -> None:
        self._paths: dict[str, None] = {}
        self._directories: dict[str, None] = {}

    def __bool__(self) -> bool:
        return bool(self._directories)

    def add(self, path: str) -> None:
        """The small file at `path` was written."""
        self._paths[path] = None
        self.add_name(path)

    def add_name(self, path: str) -> None:
        """The file or directory at `path` was created, renamed or removed."""
        self.add_directory(path.rpartition("/")[0])

    def clear(self) -> None:
        """Forget all: the log uses other files now."""
        self._paths.clear()
        self._directories.clear()

    def add_directory(self, path: str) -> None:
        """Something in the directory at `path` was."""
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
        """A plan for these, for `closed` segments with their index files, and for `active`.

        The active one's indexes are left out unless it is `sealed`: a crash has them made anew
        from its batches, and one fsync instead of three is what an acknowledgement waits for.
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
            unsynced=self,
        )
        self._paths.clear()
        self._directories.clear()
        return plan
