"""What has to reach the disk before a log's recovery point may move, and the fsyncs for it.

Made on the loop, run in a thread, reported back on the loop: a plan holds the open files, so
that rolling, closing or deleting meanwhile does not disturb it.
"""

from __future__ import annotations

from dataclasses import dataclass

from kavka.log.fs import File, FileSystem


@dataclass(frozen=True, slots=True)
class FlushPlan:
    """Files to fsync for everything below `offset` to survive a power cut."""

    fs: FileSystem
    files: tuple[File, ...]
    paths: tuple[str, ...]
    """Small files; one that has been removed since is skipped."""

    directories: tuple[str, ...]
    offset: int
    """What becomes the recovery point."""

    truncations: int
    """How often the log had been cut; a plan made before a cut says nothing afterwards."""

    made_ms: int

    def run(self) -> None:
        """Do the fsyncs; touches nothing else. OSError: nothing may be taken as flushed."""
        for file in self.files:
            file.sync()
        for path in self.paths:
            try:
                self.fs.sync_file(path)
            except FileNotFoundError:
                continue
        for directory in self.directories:
            self.fs.sync_dir(directory)
