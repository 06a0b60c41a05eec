"""One log directory: whose it is, whether it can be used, and the files that speak of all in it.

A directory fails with the first OSError of anything in it, at the start or later, and stays failed
until the broker is started again: nobody knows what of the last writes is on its disk.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from kavka.log import dir_names as names
from kavka.log.checkpoint import TopicPartition, decode_offsets, encode_lines
from kavka.log.dir_names import Meta
from kavka.log.errors import CorruptFileError, OrphanedDirectoryError, StorageError
from kavka.log.fs import FileSystem, Lock, OrphanedLockError, is_fd_exhaustion
from kavka.seams import Random

logger = logging.getLogger(__name__)


class DirectoryContent(NamedTuple):
    """What is in a log directory besides its own files."""

    logs: list[TopicPartition]
    deleted: list[str]
    """Paths of logs that were deleted and not removed yet."""
    futures: list[tuple[TopicPartition, str]]
    """Copies of logs that were on the move, with their paths."""


class LogDirectory:
    """One of `log.dirs`. `failure` says why it can't be used (any more); None: it can."""

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
        """Touches nothing before `open`."""
        self._fs = fs
        self._lock: Lock | None = None
        self.path = path
        self.failure: OSError | None = None
        self.damaged: list[str] = []
        """Names of the checkpoints that were found damaged."""
        self.owner: Meta | None = None
        """What `meta.properties` says; None: it is not there, or was not read."""
        self.id: str | None = None
        """The directory id in `meta.properties`, if it has one."""
        self.has_compacted = False
        """Whether there may be a checkpoint of what is compacted."""
        self.is_unclean = False
        """Whether it is not to be marked as closed in order, though it is used to the end."""

    def file(self, name: str) -> str:
        """The path of one of its own files."""
        return f"{self.path}/{name}"

    def open(self, *, make: bool = True) -> Meta | None:
        """Lock it and read whose it is; None: it has no `meta.properties`. Then it is made, if it
        isn't there, and locked only where `make` says so, and otherwise not touched.

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

    def _make(self, path: str) -> None:
        if path and not self._fs.exists(path):
            parent = path.rpartition("/")[0]
            self._make(parent)
            self._fs.make_dir(path)
            self._fs.sync_dir(parent or ("/" if path.startswith("/") else "."))

    def unlock(self) -> None:
        """Let others have it."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def read_meta(self) -> Meta | None:
        """Whose it is; None: nobody's yet. CorruptFileError, OSError."""
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

    def claim(self, meta: Meta, random: Random) -> None:
        """Make and lock it if it isn't, and write down whose it is, and an id for it, if that
        isn't written yet; it is on the disk when this returns. StorageError, OSError."""
        if self._lock is None:
            self.open()
        data = self._read_meta()
        if data is None or self.id is None:
            data = names.encode_meta(meta) if data is None else data
            data = names.add_directory_id(data, names.new_directory_id(random))
            self._fs.write_atomic(self.file(names.META_FILE), data, sync=True)
        self.read_meta()

    def consume_clean_shutdown_marker(self) -> bool:
        """Whether the broker before stopped in order; asked again, it did not. OSError."""
        path = self.file(names.CLEAN_SHUTDOWN_FILE)
        if not self._fs.exists(path):
            return False
        self._fs.remove(path)
        # were it to come back with a power cut, what is written from now on would be trusted
        self._fs.sync_dir(self.path)
        return True

    def write_clean_shutdown_marker(self) -> None:
        """Write down that all in it was closed in order. OSError."""
        path = self.file(names.CLEAN_SHUTDOWN_FILE)
        self._fs.write_atomic(path, names.CLEAN_SHUTDOWN, sync=True)

    def read_offsets(self, name: str) -> dict[TopicPartition, int]:
        """One of its checkpoints; empty where that is not there, or damaged. OSError."""
        path = self.file(name)
        try:
            return decode_offsets(self._fs.read_bytes(path), path)
        except FileNotFoundError:
            return {}
        except CorruptFileError as error:
            # safe: more is recovered than needed, a log starts at its first segment, and a high
            # watermark is found again
            logger.warning("%s; ignoring it", error)
            self.damaged.append(name)
            return {}

    def list_content(self) -> DirectoryContent:
        """What is in it; unfinished files of its own are removed.

        StorageError for a name that no log directory has. OSError.
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
    """The checkpoint files of all directories as they were at one moment."""

    def __init__(self, fs: FileSystem, serial: int) -> None:
        """One with nothing in it; see `add`."""
        self._fs = fs
        self._contents: list[tuple[LogDirectory, Mapping[str, list[str]]]] = []
        self.serial = serial
        self.ended = False
        """Whether it touches no file any more."""
        self.done = False
        """Whether every directory has it, but for those in `failures`."""
        self._superseded = False
        self._temporary: list[str] = []  # files that are to be renamed
        self.failures: dict[str, OSError] = {}
        """By the path of the directory that could not be written to."""

    @property
    def lacked_descriptors(self) -> bool:
        """Whether it was not written for want of descriptors, and has to be again."""
        return any(is_fd_exhaustion(failure) for failure in self.failures.values())

    def add(self, directory: LogDirectory, lines: Mapping[str, list[str]]) -> None:
        """The lines of a directory's checkpoint files, by their names."""
        self._contents.append((directory, lines))

    def supersede(self) -> None:
        """A later plan has to have the last word: from now on this one leaves the files alone.
        What its thread may be about to rename is gone when this returns."""
        self._superseded = True
        for name in self._temporary:
            with suppress(OSError):  # not made, or renamed; where this fails, so will a rename
                self._fs.remove(name)

    def run(self) -> None:
        """Write them, with fsync; may run in a thread, one plan at a time."""
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
