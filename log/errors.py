"""What can be wrong with the files of a log."""

from __future__ import annotations

from typing import Final

from kavka.wire.errors import ApiError, ErrorCode

TOO_MANY_FILES: Final = (
    "too many files are open for a start, which says nothing of the disk ({}): raise 'ulimit -n'"
)


class StorageError(Exception):
    """A log directory that can't be used as it is; the message says which and what to do."""


class LostDirectoryError(OSError):
    """A log directory that the broker has used before and can't find; the message says what to
    do."""


class OrphanedDirectoryError(StorageError):
    """A log directory in which a process of a broker that was killed has not ended yet. It will
    soon."""


class LoadingStopped(Exception):
    """The loading of logs, or what follows it at a start, was given up. Where it was the loading,
    what is in the files is as after a crash."""


class HalfMadeError(StorageError):
    """A new log that failed, and of which something may be left in its directory."""

    def __init__(self, path: str, failure: OSError) -> None:
        super().__init__(f"{path} could not be made, nor removed: {failure}")
        self.failure = failure


class CorruptFileError(StorageError):
    """A small file (checkpoint, snapshot, metadata) whose content makes no sense."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path} is corrupt: {why}")
        self.path = path


class CorruptLogError(ApiError):
    """Something in a segment is no record batch; nothing behind it can be served."""

    def __init__(self, path: str, position: int, why: str) -> None:
        super().__init__(
            ErrorCode.KAFKA_STORAGE_ERROR, f"{path} has no batch at byte {position}: {why}"
        )
        self.path = path
        self.position = position
        self.why = why

    def __reduce__(self) -> tuple[type[CorruptLogError], tuple[str, int, str]]:
        """It comes out of processes too."""
        return CorruptLogError, (self.path, self.position, self.why)
