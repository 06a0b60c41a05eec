"""One log directory: its owner, its state, and the checkpoint files of all logs in it.

A directory goes offline with the first OSError of anything in it, at startup or later, until the
broker is restarted: it is not known which of the last writes are on its disk.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from kavka.log import dir_names as names
from kavka.log.checkpoint import TopicPartition, decode_offsets, encode_lines
from kavka.log.dir_names import MetaProperties
from kavka.log.errors import CorruptFileError, OrphanedDirectoryError, StorageError
from kavka.log.fs import FileSystem, Lock, OrphanedLockError, is_fd_exhaustion
from kavka.seams import Random

logger = logging.getLogger(__name__)


class DirectoryContent(NamedTuple):
    """The logs in a log directory."""

    logs: list[TopicPartition]
    deleted: list[str]
    """Paths of logs marked for deletion."""
    futures: list[tuple[TopicPartition, str]]
    """Future logs, with their paths."""


class LogDirectory:
    """One of `log.dirs`. `failure` says why it is offline; None if it is online."""

    __slots__ = (
        "_fs",
        "_lock",
        "damaged",
        "failure",
        "has_compacted",
        "id",
        "is_unclean",
        "owner",
        "path",
    )

    def __init__(self, fs: FileSystem, path: str) -> None:
        """Does no I/O; see `open`."""
        self._fs = fs
        self._lock: Lock | None = None
        self.path = path
        self.failure: OSError | None = None
        self.damaged: list[str] = []
        """Names of the checkpoints that were found damaged."""
        self.owner: MetaProperties | None = None
        """The owner in `meta.properties`; None if the file is missing or was not read."""
        self.id: str | None = None
        """The directory id in `meta.properties`, if it has one."""
        self.has_compacted = False
        """Whether there may be a `cleaner-offset-checkpoint`."""
        self.is_unclean = False
        """Whether it must not be marked as cleanly shut down."""

    def file(self, name: str) -> str:
        """The path of one of its own files."""
        return f"{self.path}/{name}"

    def open(self, *, make: bool = True) -> MetaProperties | None:
        """Lock the directory and read its owner; None if it has no `meta.properties`. Without that
        file it is created, if missing, and locked only if `make`, and otherwise left alone.

        StorageError: another broker uses it. OSError: it can't be used.
        """
        if make:
            self._make(self.path)
        elif self.read_meta() is None:
            return None
        try:
            self._lock = self._fs.lock(self.file(names.LOCK_FILE))
        except OrphanedLockError as error:
            raise OrphanedDirectoryError(
                f"the log directory {self.path} is in use by a process of a broker that was killed"
            ) from error
        except BlockingIOError as error:
            message = f"the log directory {self.path} is in use by another broker"
            raise StorageError(message) from error
        return self.read_meta()

    def is_empty(self) -> bool:
        """Whether nothing is in it, or it is missing. OSError."""
        return not self._fs.exists(self.path) or not self._fs.list_dir(self.path)

    def _make(self, path: str) -> None:
        if path and not self._fs.exists(path):
            parent = path.rpartition("/")[0]
            self._make(parent)
            self._fs.make_dir(path)
            self._fs.sync_dir(parent or ("/" if path.startswith("/") else "."))

    def unlock(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def read_meta(self) -> MetaProperties | None:
        """Read the owner; None if there is none yet. CorruptFileError, OSError."""
        data = self._read_meta()
        self.owner, self.id = None, None
        if data is not None:
            self.owner = names.decode_meta(data, self.file(names.META_FILE))
            self.id = names.decode_directory_id(data)
        return self.owner

    def _read_meta(self) -> bytes | None:
        try:
            return self._fs.read_bytes(self.file(names.META_FILE))
        except FileNotFoundError:
            return None

    def claim(self, meta: MetaProperties, random: Random) -> None:
        """Create and lock the directory if that has not been done, and write the owner and a new
        directory id to `meta.properties` if missing, with fsync. StorageError, OSError."""
        if self._lock is None:
            self.open()
        data = self._read_meta()
        if data is None or self.id is None:
            data = names.encode_meta(meta) if data is None else data
            data = names.add_directory_id(data, names.new_directory_id(random))
            self._fs.write_atomic(self.file(names.META_FILE), data, sync=True)
        self.read_meta()

    def consume_clean_shutdown_marker(self) -> bool:
        """Whether the last shutdown was clean; removes the marker file. OSError."""
        path = self.file(names.CLEAN_SHUTDOWN_FILE)
        if not self._fs.exists(path):
            return False
        self._fs.remove(path)
        # if it came back after a power failure, unflushed writes would not be recovered
        self._fs.sync_dir(self.path)
        return True

    def write_clean_shutdown_marker(self) -> None:
        """Write the marker file of a clean shutdown. OSError."""
        path = self.file(names.CLEAN_SHUTDOWN_FILE)
        self._fs.write_atomic(path, names.CLEAN_SHUTDOWN, sync=True)

    def read_offsets(self, name: str) -> dict[TopicPartition, int]:
        """One of its checkpoint files; empty if missing or damaged. OSError."""
        path = self.file(name)
        try:
            return decode_offsets(self._fs.read_bytes(path), path)
        except FileNotFoundError:
            return {}
        except CorruptFileError as error:
            # safe: more is recovered than needed, a log starts at its first segment, and a high
            # watermark is determined again
            logger.warning("%s; ignoring it", error)
            self.damaged.append(name)
            return {}

    def list_content(self) -> DirectoryContent:
        """The logs in the directory; removes its own temporary files.

        StorageError for a name that does not belong in a log directory. OSError.
        """
        found = DirectoryContent([], [], [])
        for name in self._fs.list_dir(self.path):
            path = self.file(name)
            if not self._fs.is_dir(path):
                if name.endswith(".tmp") and not name.startswith(names.NOT_OURS):
                    self._fs.remove(path)
            elif names.is_deleted(name):
                found.deleted.append(path)
            elif (moving := names.parse_future_name(name)) is not None:
                found.futures.append((moving, path))
            else:
                key = names.parse_log_name(name, self.path)
                if key is not None:
                    found.logs.append(key)
        return found


class CheckpointPlan:
    """The content of the checkpoint files of all directories, to be written in a thread."""

    def __init__(self, fs: FileSystem, serial: int) -> None:
        """An empty plan; see `add`."""
        self._fs = fs
        self._contents: list[tuple[LogDirectory, Mapping[str, list[str]]]] = []
        self.serial = serial
        self.ended = False
        """Whether `run` has ended."""
        self.done = False
        """Whether it was written to all directories, except those in `failures`."""
        self._superseded = False
        self._temporary: list[str] = []  # files to be renamed
        self.failures: dict[str, OSError] = {}
        """By the path of the directory that could not be written to."""

    @property
    def lacked_descriptors(self) -> bool:
        """Whether a write failed with file descriptor exhaustion and has to be retried."""
        return any(is_fd_exhaustion(failure) for failure in self.failures.values())

    def add(self, directory: LogDirectory, lines: Mapping[str, list[str]]) -> None:
        """Add the lines of a directory's checkpoint files, by file name."""
        self._contents.append((directory, lines))

    def supersede(self) -> None:
        """A newer plan takes precedence: from now on this one changes no checkpoint file. The
        temporary files that its thread may be about to rename are removed."""
        self._superseded = True
        for name in self._temporary:
            with suppress(OSError):  # not created, or renamed; else the rename will fail too
                self._fs.remove(name)

    def run(self) -> None:
        """Write the files, with fsync; may run in a thread, one plan at a time."""
        try:
            for directory, lines in self._contents:
                if directory.failure is None:
                    self._write(directory, lines)
            self.done = not self._superseded and not self.lacked_descriptors
        finally:
            self.ended = True

    def _write(self, directory: LogDirectory, lines: Mapping[str, list[str]]) -> None:
        files = {directory.file(name): encode_lines(each) for name, each in lines.items()}
        try:
            self._replace(directory, files)
        except OSError as failure:
            self.failures[directory.path] = failure

    def _replace(self, directory: LogDirectory, files: Mapping[str, bytes]) -> None:
        temporary = {path: f"{path}.{self.serial}.tmp" for path in files}
        self._temporary = list(temporary.values())
        for path, data in files.items():
            file = self._fs.create(temporary[path])
            file.pwrite(data, 0)
            file.sync()
            file.close()
        for path, name in temporary.items():
            try:
                if self._superseded:
                    self._fs.remove(name)
                else:
                    self._fs.rename(name, path)
            except FileNotFoundError:
                if not self._superseded:  # else `supersede` has just removed it
                    raise
        self._fs.sync_dir(directory.path)
