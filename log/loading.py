"""From the log directories to the logs in them, at the start of a broker.

Each directory is a plan of three steps, which may run in threads, those of several directories at
once: `prepare`, `load_most`, and `load_rest` for what is left, several times at once. What threads
work on they have for themselves; the manager takes the logs over when all is done.

Loading a log that was closed in order is Python's work and a few quick calls of the file system,
and threads are only in each other's way. What takes long is to read what was not flushed before a
crash, and that is mostly waiting for the disk: it is left for `load_rest`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final
from uuid import UUID

from kavka.log import dir_names as names
from kavka.log.checkpoint import TopicPartition
from kavka.log.disk import Disk
from kavka.log.errors import (
    TOO_MANY_FILES,
    CorruptFileError,
    CorruptLogError,
    LoadingStopped,
    StorageError,
)
from kavka.log.fs import FileSystem, is_fd_exhaustion
from kavka.log.futures import choose
from kavka.log.log_dir import LogDirectory
from kavka.log.partition_log import LogLocation, PartitionLog
from kavka.log.recovery import Checkpointed, LogLoader
from kavka.log.scan import BatchScanner
from kavka.log.settings import LogSettings

logger = logging.getLogger(__name__)

QUICK_BYTES_MAX: Final = 4 << 20
"""A log with no more to check than this is loaded at once: that takes 10 ms at most."""

OPEN_FILES_MAX: Final = 16
INDEX_BYTES_MAX: Final = 1 << 20
"""What one thread has open, and holds in memory, while it loads."""


class DirectoryLoading:
    """The logs of one directory, on the way to being served.

    A directory that can't be read has its `failure` set; then nothing of it counts.
    """

    def __init__(
        self,
        directory: LogDirectory,
        disk: Disk,
        settings_of: Callable[[str], LogSettings],
        now_ms: int,
    ) -> None:
        self.directory = directory
        self.keys: list[TopicPartition] = []
        """All logs there are; known when it is prepared."""
        self.loaded: list[PartitionLog] = []
        self.deleted: list[str] = []
        """Paths of logs that were deleted and not removed yet."""
        self.futures: list[tuple[TopicPartition, str]] = []
        """Copies of logs that were on the move, with their paths."""
        self.superseded: dict[TopicPartition, LogDirectory] = {}
        """Logs that go on in another log directory, with that."""
        self.watermarks: dict[TopicPartition, int] = {}
        self.is_clean = False
        """Whether the broker before stopped in order."""
        self.cancelled = False
        """Set when the broker can't start, or is not to: what has not begun is left out, and
        what has begun ends where it next reads from a log."""
        self._disk = disk
        self._settings_of = settings_of
        self._now_ms = now_ms
        self._points: dict[TopicPartition, int] = {}
        self._starts: dict[TopicPartition, int] = {}
        self._compacted: dict[TopicPartition, int] = {}
        self._most: deque[TopicPartition] = deque()
        self._rest: deque[TopicPartition] = deque()

    @property
    def left(self) -> int:
        """Logs that `load_rest` has to load."""
        return len(self._rest)

    @property
    def checkpointed(self) -> dict[TopicPartition, None]:
        """Logs that the checkpoints speak of, be they there or not."""
        return dict.fromkeys((*self._points, *self._starts, *self._compacted))

    @property
    def has_lost_flushed_records(self) -> bool:
        """Whether a log ends before its recovery point in the checkpoint file: what is appended
        now would pass for flushed after another crash."""
        return any(
            log.recovery_point < self._points.get((log.topic, log.partition), 0)
            for log in self.loaded
        )

    def prepare(self) -> None:
        """Find the logs, and what the broker before wrote down about them. StorageError."""
        self._guard(self._prepare)

    def leave_out(self, key: TopicPartition, other: LogDirectory) -> None:
        """Before `load_most`: do not load a log that goes on in another log directory."""
        self.keys.remove(key)
        self._most.remove(key)
        self.watermarks.pop(key, None)
        self.superseded[key] = other

    def load_most(self) -> None:
        """Load all logs that don't take long. StorageError: one can't be served safely."""
        self._guard(self._load_most)

    def load_rest(self) -> None:
        """Load one of the other logs after the other, until nobody has one left."""
        self._guard(self._load_rest)

    def _guard(self, step: Callable[[], None]) -> None:
        if self.directory.failure is not None:
            return
        try:
            step()
        except OSError as failure:
            if is_fd_exhaustion(failure):
                raise StorageError(TOO_MANY_FILES.format(failure)) from failure
            self.directory.failure = failure
        except CorruptLogError as error:
            raise StorageError(error.message) from error

    def _prepare(self) -> None:
        directory = self.directory
        self.is_clean = directory.consume_clean_shutdown_marker()
        self._points = directory.read_offsets(names.RECOVERY_POINTS_FILE)
        self._starts = directory.read_offsets(names.START_OFFSETS_FILE)
        self._compacted = directory.read_offsets(names.CLEANER_OFFSETS_FILE)
        directory.has_compacted = bool(self._compacted)
        watermarks = directory.read_offsets(names.HIGH_WATERMARKS_FILE)
        self.keys, self.deleted, self.futures = directory.list_content()
        self.watermarks = {key: watermarks[key] for key in self.keys if key in watermarks}
        self._most.extend(self.keys)
        if self.keys and not self.is_clean:
            logger.info(
                "recovering %d logs in %s after an unclean stop", len(self.keys), directory.path
            )

    def _load_most(self) -> None:
        self._load_from(self._most, QUICK_BYTES_MAX)

    def _load_rest(self) -> None:
        self._load_from(self._rest, 1 << 63)

    def _load_from(self, keys: deque[TopicPartition], bytes_max: int) -> None:
        disk = self._disk.with_limits(
            open_files_max=OPEN_FILES_MAX, index_cache_bytes=INDEX_BYTES_MAX, watch=self._watch
        )
        scanner = BatchScanner()
        while keys and not self.cancelled and self.directory.failure is None:
            try:
                key = keys.popleft()
            except IndexError:  # another thread was quicker
                return
            loader = self._loader(key, disk, scanner)
            if loader.bytes_to_check > bytes_max:
                self._rest.append(key)
                continue
            try:
                log = loader.load()
            except LoadingStopped:  # what it has written is all made anew the next time
                return
            log.topic_id = read_topic_id(disk.fs, log.directory)
            if not log.compaction.resume(self._compacted.get(key)):
                logger.warning(
                    "%s says of %s that it is compacted up to %d, where it has no closed segment: "
                    "it is compacted anew",
                    self.directory.file(names.CLEANER_OFFSETS_FILE),
                    names.log_name(*key),
                    self._compacted[key],
                )
            self.loaded.append(log)

    def _watch(self) -> None:
        if self.cancelled:
            raise LoadingStopped

    def _loader(self, key: TopicPartition, disk: Disk, scanner: BatchScanner) -> LogLoader:
        path = self.directory.file(names.log_name(*key))
        location = LogLocation(disk, path, *key, self._settings_of(key[0]), self._now_ms)
        known = Checkpointed(
            self.is_clean,
            self._points.get(key, 0),
            self._starts.get(key, 0),
            self._compacted.get(key, 0),
            names.RECOVERY_POINTS_FILE not in self.directory.damaged,
        )
        return LogLoader(location, known, scanner)


def check_duplicate_logs(fs: FileSystem, loadings: Sequence[DirectoryLoading]) -> None:
    """Leave a log out of the directory that it has moved from. StorageError: it is in two
    directories, and nobody can tell which one counts."""
    found: dict[TopicPartition, DirectoryLoading] = {}
    for loading in loadings:
        for key in list(loading.keys):
            if found.setdefault(key, loading) is not loading:
                found[key] = choose(fs, key, found[key], loading)


def read_topic_id(fs: FileSystem, directory: str) -> UUID | None:
    """The topic id in a log's directory; None where the controller has to tell it. OSError."""
    path = f"{directory}/{names.PARTITION_FILE}"
    try:
        return names.decode_partition(fs.read_bytes(path), path)
    except FileNotFoundError:
        return None
    except CorruptFileError as error:
        logger.warning("%s; taking the topic id from the controller", error)
        return None
