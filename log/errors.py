"""Errors of log directories and log files."""

from __future__ import annotations

from typing import Final

from kavka.wire.errors import ApiError, ErrorCode

TOO_MANY_FILES: Final = (
    "too many open files at startup (the disk itself has not failed): {}; raise 'ulimit -n'"
)


DAMAGE_ADVICE: Final = (
    "restore the file from a copy, or move the partition's directory away, which loses its records"
)


class StorageError(Exception):
    """A log directory that can't be used as it is; the message says which and what to do."""


class LostDirectoryError(OSError):
    """A missing log directory that the broker has used before; the message says what to do."""


class OrphanedDirectoryError(StorageError):
    """A log directory that is still locked by a child process of a killed broker. The process
    exits soon."""


class LoadingStopped(Exception):
    """Loading the logs, or a later part of the startup, was cancelled. If it was the loading, the
    files are as after a crash."""


class PartialCreateError(StorageError):
    """A new log could not be created, and its incomplete directory could not be removed."""

    def __init__(self, path: str, failure: OSError) -> None:
        super().__init__(f"{path} could not be created, and could not be removed again: {failure}")
        self.failure = failure


class DeletionError(StorageError):
    """A directory of a deleted log can't be renamed; the log directory it is in fails."""

    def __init__(self, directory: str, failure: OSError) -> None:
        super().__init__(f"can't delete a log in {directory}: {failure}")
        self.directory = directory
        self.failure = failure


class CorruptFileError(StorageError):
    """A small file (checkpoint, snapshot, metadata) with invalid content."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path} is corrupt: {why}")
        self.path = path


class CorruptLogError(ApiError):
    """There is no valid record batch at a position of a segment; nothing after it can be served."""

    def __init__(self, path: str, position: int, why: str) -> None:
        super().__init__(
            ErrorCode.KAFKA_STORAGE_ERROR, f"{path} has no batch at byte {position}: {why}"
        )
        self.path = path
        self.position = position
        self.why = why

    def __reduce__(self) -> tuple[type[CorruptLogError], tuple[str, int, str]]:
        """It is pickled by compaction processes."""
        return CorruptLogError, (self.path, self.position, self.why)
