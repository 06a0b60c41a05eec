"""Loading the logs of the log directories at startup.

Each directory is loaded in three steps, which may run in threads, in parallel for the directories:
`prepare`, `load_most`, and `load_rest` for the remaining logs, in several threads. Threads share no
state but the queues of logs; the manager takes over the loaded logs at the end.

Loading a cleanly closed log is mostly Python code, for which several threads don't help. Reading
what was not flushed before a crash mostly waits for the disk: it is left for `load_rest`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final
from uuid import UUID

from kavka.log import dir_names as names
from kavka.log.checkpoint import TopicPartition
from kavka.log.disk import Disk, LogLocation
from kavka.log.errors import (
    DAMAGE_ADVICE,
    TOO_MANY_FILES,
    CorruptFileError,
    CorruptLogError,
    LoadingStopped,
    StorageError,
)
from kavka.log.fs import FileSystem, is_fd_exhaustion
from kavka.log.log_dir import LogDirectory
from kavka.log.partition_log import PartitionLog
from kavka.log.recovery import Checkpointed, LogLoader
from kavka.log.scan import BatchScanner
from kavka.log.settings import LogSettings

logger = logging.getLogger(__name__)

QUICK_BYTES_MAX: Final = 4 << 20
"""A log with at most this to check is loaded by `load_most`: that takes 10 ms at most."""

OPEN_FILES_MAX: Final = 16
INDEX_BYTES_MAX: Final = 1 << 20
"""Open files and index cache of one thread during loading."""


class DirectoryLoading:
    """The loading of the logs of one directory.

    If the directory can't be read its `failure` is set, and nothing of it is used.
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
        """All logs in the directory; set by `prepare`."""
        self.loaded: list[PartitionLog] = []
        self.deleted: list[str] = []
        """Paths of logs marked for deletion."""
        self.futures: list[tuple[TopicPartition, str]] = []
        """Future logs, with their paths."""
        self.superseded: dict[TopicPartition, LogDirectory] = {}
        """Logs that were moved to another log directory, with that directory."""
        self.watermarks: dict[TopicPartition, int] = {}
        self.is_clean = False
        """Whether the last shutdown was clean."""
        self.cancelled = False
        """Set to cancel the loading: logs that are not yet begun are skipped, and a log being
        loaded is given up at its next read."""
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
        """How many logs `load_rest` has to load."""
        return len(self._rest)

    @property
    def checkpointed(self) -> dict[TopicPartition, None]:
        """Logs in the checkpoint files, whether they exist or not."""
        return dict.fromkeys((*self._points, *self._starts, *self._compacted))

    @property
    def has_lost_flushed_records(self) -> bool:
        """Whether a log ends before its recovery point in the checkpoint file: after another crash
        new records would count as flushed."""
        return any(
            log.recovery_point < self._points.get((log.topic, log.partition), 0)
            for log in self.loaded
        )

    def prepare(self) -> None:
        """Find the logs and read the checkpoint files. StorageError."""
        self._run_step(self._prepare)

    def skip_moved_log(self, key: TopicPartition, other: LogDirectory) -> None:
        """Before `load_most`: skip a log that was moved to another log directory."""
        self.keys.remove(key)
        self._most.remove(key)
        self.watermarks.pop(key, None)
        self.superseded[key] = other

    def load_most(self) -> None:
        """Load all logs that don't take long. StorageError if one can't be served safely."""
        self._run_step(self._load_most)

    def load_rest(self) -> None:
        """Load the remaining logs one after the other, until none is left in the queue."""
        self._run_step(self._load_rest)

    def _run_step(self, step: Callable[[], None]) -> None:
        if self.directory.failure is not None:
            return
        try:
            step()
        except OSError as failure:
            if is_fd_exhaustion(failure):
                raise StorageError(TOO_MANY_FILES.format(failure)) from failure
            self.directory.failure = failure
        except CorruptLogError as error:
            raise StorageError(f"{error.message}: {DAMAGE_ADVICE}") from error

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
                "recovering %d logs in %s after an unclean shutdown", len(self.keys), directory.path
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
            except IndexError:  # another thread took the last one
                return
            loader = self._loader(key, disk, scanner)
            if loader.bytes_to_check > bytes_max:
                self._rest.append(key)
                continue
            try:
                log = loader.load()
            except LoadingStopped:  # everything it wrote is rebuilt at the next start
                return
            log.topic_id = read_topic_id(disk.fs, log.directory)
            if not log.compaction.resume(self._compacted.get(key)):
                logger.warning(
                    "%s has %s compacted up to %d, which is not in a closed segment: all of it is "
                    "compacted again",
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
    """If a log is in two directories, skip it in the one it was moved from. StorageError if it
    can't be determined which one that is."""
    found: dict[TopicPartition, DirectoryLoading] = {}
    for loading in loadings:
        for key in list(loading.keys):
            if found.setdefault(key, loading) is not loading:
                found[key] = choose_moved_log(fs, key, found[key], loading)


def read_topic_id(fs: FileSystem, directory: str) -> UUID | None:
    """The topic id in a log's directory; None if the controller has to provide it. OSError."""
    path = f"{directory}/{names.PARTITION_FILE}"
    try:
        return names.decode_partition(fs.read_bytes(path), path)
    except FileNotFoundError:
        return None
    except CorruptFileError as error:
        logger.warning("%s; taking the topic id from the controller", error)
        return None


def choose_moved_log(
    fs: FileSystem, key: TopicPartition, first: DirectoryLoading, second: DirectoryLoading
) -> DirectoryLoading:
    """Of two directories with the same log, the one that counts; the other will not load the log.
    StorageError if neither or both are marked."""
    name = names.log_name(*key)
    marked = [
        loading
        for loading in (first, second)
        if fs.exists(f"{loading.directory.path}/{name}/{names.MOVED_FILE}")
    ]
    if len(marked) != 1:
        raise StorageError(
            f"{name} is in {first.directory.path} and in {second.directory.path}: "
            "remove one of the two"
        )
    (second if marked[0] is first else first).skip_moved_log(key, marked[0].directory)
    return marked[0]
