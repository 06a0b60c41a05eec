"""Future logs: logs that are being moved to another log directory (AlterReplicaLogDirs).

A copy is in `<topic>-<partition>.<id>-future` until it is complete. Then it is promoted: it is
renamed to the name of the log, and the log continues in it. The source directory keeps its name
until this is durable, and only then is marked for deletion. So at any time there is a whole log
under its own name. If a crash leaves two, the one marked with `dir_names.MOVED_FILE` counts: it
has everything that the other has.

It also remembers the log directories that were requested for logs that don't exist yet.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from kavka.log import dir_names as names
from kavka.log.checkpoint import TopicPartition
from kavka.log.deferred_deletes import DeferredDeletes
from kavka.log.errors import DeletionError
from kavka.log.fs import FileSystem
from kavka.log.future_log_copier import FutureLogCopier
from kavka.log.loading import DirectoryLoading, read_topic_id
from kavka.log.partition_log import PartitionLog
from kavka.log.relocation import relocate
from kavka.log.settings import FSYNC
from kavka.seams import Random

logger = logging.getLogger(__name__)

NO_BOUND: Final = (1 << 63) - 1

PREFERRED_MAX: Final = 100_000
"""Partitions without a log whose requested log directory is remembered; the oldest are evicted."""


class FutureLog:
    """A complete or incomplete copy of a log at `path`, in the log directory `directory`."""

    __slots__ = ("copier", "directory", "is_sound", "key", "path", "topic_id")

    def __init__(
        self,
        key: TopicPartition,
        topic_id: UUID | None,
        directory: str,
        path: str,
        *,
        is_sound: bool,
    ) -> None:
        self.key = key
        self.topic_id = topic_id
        self.directory = directory
        self.path = path
        self.is_sound = is_sound
        """Whether the copy ended with a whole batch when it was loaded."""
        self.copier: FutureLogCopier | None = None
        """The copying; None: the copy was found at startup and has not been resumed."""


class _MoveSource(NamedTuple):
    """The directory that a log has moved from, which still has the name of the log."""

    path: str
    log: PartitionLog
    recovery_point: int


class FutureLogs:
    """The future logs, one a partition, and the requested log directories."""

    def __init__(self, fs: FileSystem, random: Random, deferred_deletes: DeferredDeletes) -> None:
        self._fs = fs
        self._random = random
        self._deferred_deletes = deferred_deletes
        self._copies: dict[TopicPartition, FutureLog] = {}
        self._sources: dict[TopicPartition, _MoveSource] = {}
        self._preferred: dict[TopicPartition, str] = {}

    def __iter__(self) -> Iterator[FutureLog]:
        return iter(list(self._copies.values()))

    @property
    def sources(self) -> list[TopicPartition]:
        """The partitions whose log was moved and whose source directory is not yet deleted."""
        return list(self._sources)

    def get(self, key: TopicPartition) -> FutureLog | None:
        """The copy of a partition's log."""
        return self._copies.get(key)

    def in_directory(self, directory: str) -> list[FutureLog]:
        """The copies in a log directory that are being made."""
        copies = self._copies.values()
        return [copy for copy in copies if copy.directory == directory and copy.copier is not None]

    def checkpointed(
        self, directory: str, logs: Mapping[TopicPartition, PartitionLog]
    ) -> list[tuple[TopicPartition, PartitionLog, int]]:
        """What the checkpoints of a log directory with these `logs` have to contain: partition,
        log, and an upper bound of its recovery point. Also future logs, before they are promoted,
        and source directories, as long as a power failure may bring them back."""
        found = [(key, log, NO_BOUND) for key, log in logs.items()]
        found += [
            (copy.key, copy.copier.log, copy.copier.flushed_end)
            for copy in self.in_directory(directory)
            if copy.copier is not None and copy.copier.flushed_end
        ]
        for key, source in self._sources.items():
            if parent_directory(source.path) == directory:
                found.append((key, source.log, source.recovery_point))
        return found

    # --- which directory a log is created in

    def prefer(self, key: TopicPartition, directory: str) -> None:
        """Have a log that does not exist yet be created in `directory`."""
        self._preferred.pop(key, None)
        self._preferred[key] = directory
        if len(self._preferred) > PREFERRED_MAX:
            del self._preferred[next(iter(self._preferred))]

    def preferred(self, key: TopicPartition) -> str | None:
        """The log directory requested for a log."""
        return self._preferred.get(key)

    def log_created(self, key: TopicPartition) -> None:
        """Forget the preferred directory of a log that has been created."""
        self._preferred.pop(key, None)

    # --- future logs

    def begin(self, log: PartitionLog, directory: str) -> FutureLog:
        """Begin a copy of `log`, which has none, in another log directory. OSError of that."""
        key = log.topic, log.partition
        path = f"{directory}/{names.future_name(*key, self._unique())}"
        self._fs.make_dir(path)
        copy = FutureLog(key, log.topic_id, directory, path, is_sound=True)
        if log.topic_id is not None:
            data = names.encode_partition(log.topic_id)
            self._fs.create(f"{path}/{names.PARTITION_FILE}").pwrite(data, 0)
        copy.copier = FutureLogCopier(self._fs, log, path)
        self._copies[key] = copy
        self._preferred.pop(key, None)
        return copy

    def resume(self, copy: FutureLog, log: PartitionLog) -> None:
        """Resume a copy of `log`: found at startup, or left when its replica was removed."""
        # after a failed fsync its content may be in the page cache only
        is_kept = copy.is_sound or log.settings.kavka_durability != FSYNC
        copy.is_sound = copy.is_sound and copy.copier is None  # else a step may have left it torn
        copy.copier = FutureLogCopier(self._fs, log, copy.path, is_kept=is_kept)

    def _unique(self) -> str:
        return f"{self._random.getrandbits(128):032x}"

    def discard(self, key: TopicPartition) -> None:
        """Delete the copy of a log, if there is one. OSError of the copy's directory."""
        copy = self._copies.pop(key, None)
        if copy is not None:
            self._mark_for_deletion(key, copy.directory, copy.path, _delay_ms(copy))

    def _mark_for_deletion(
        self, key: TopicPartition, directory: str, path: str, delay_ms: int
    ) -> None:
        renamed = f"{directory}/{names.delete_name(*key, self._unique())}"
        self._fs.rename(path, renamed)
        self._deferred_deletes.add([renamed], delay_ms)

    def promote(self, log: PartitionLog) -> str:
        """Continue `log` in its copy, which `is_ready`; its new log directory. OSError of the
        copy's directory, and SourceError: it stays in the old one."""
        key = log.topic, log.partition
        copy = self._copies[key]
        assert copy.copier is not None and key not in self._sources
        copy.copier.copy_tail()
        path = f"{copy.directory}/{names.log_name(*key)}"
        self._fs.rename(copy.path, path)
        self._sources[key] = _MoveSource(log.directory, log, log.recovery_point)
        del self._copies[key]
        relocate(log, path)
        return copy.directory

    def delete_source(self, key: TopicPartition) -> str | None:
        """Mark the source directory of a moved log for deletion; its log directory, None if there
        is none. OSError of that: it stays."""
        source = self._sources.get(key)
        if source is None:
            return None
        directory = parent_directory(source.path)
        self._mark_for_deletion(
            key, directory, source.path, source.log.settings.file_delete_delay_ms
        )
        del self._sources[key]
        return directory

    def delete_source_durably(self, key: TopicPartition) -> None:
        """`delete_source`, preceded and followed by fsyncs of the log directories. OSError."""
        source = self._sources.get(key)
        if source is not None:
            self._fs.sync_dir(parent_directory(source.log.directory))
            self.delete_source(key)
            self._fs.sync_dir(parent_directory(source.path))

    def delete(self, key: TopicPartition) -> None:
        """Delete the copy of a log and the source directory of its move, if they are there.
        DeletionError."""
        copy, source = self._copies.get(key), self._sources.get(key)
        directory = "" if copy is None else copy.directory
        try:
            self.discard(key)
            directory = "" if source is None else parent_directory(source.path)
            self.delete_source(key)
        except OSError as failure:
            raise DeletionError(directory, failure) from failure

    def forget_directory(self, directory: str) -> None:
        """A log directory has failed: drop its future logs; their files stay as they are."""
        for copy in list(self._copies.values()):
            origin = None if copy.copier is None else copy.copier.log.directory
            if directory in (copy.directory, origin and parent_directory(origin)):
                del self._copies[copy.key]
        for key, source in list(self._sources.items()):
            if parent_directory(source.path) == directory:
                del self._sources[key]

    def clear(self) -> None:
        """Drop all state."""
        self._copies.clear()
        self._sources.clear()

    # --- start

    def add_loaded(self, loading: DirectoryLoading) -> tuple[str, OSError] | None:
        """Add the future logs of a loaded log directory; a log directory that has failed in doing
        so, and why."""
        at = loading.directory.path
        try:
            for other in dict.fromkeys(loading.superseded.values()):
                if other.failure is None:
                    at = other.path
                    self._fs.sync_dir(at)  # it may have been renamed just before a crash
            at = loading.directory.path
            self._delete_superseded(loading)
            for key, path in loading.futures:
                if key in self._copies or key in loading.keys:
                    logger.warning(
                        "deleting %s: another directory has the log, or another copy of it", path
                    )
                    self._mark_for_deletion(key, at, path, 0)
                else:
                    topic_id = read_topic_id(self._fs, path)
                    self._copies[key] = FutureLog(
                        key, topic_id, at, path, is_sound=loading.is_clean
                    )
        except OSError as failure:
            return at, failure
        return None

    def _delete_superseded(self, loading: DirectoryLoading) -> None:
        at = loading.directory.path
        count = 0
        for key, other in loading.superseded.items():
            if other.failure is None:
                path = f"{at}/{names.log_name(*key)}"
                logger.info("deleting %s: its log was moved to %s", path, other.path)
                self._mark_for_deletion(key, at, path, 0)
                count += 1
        if count:  # as long as a power failure may bring it back, the other must stay marked
            self._fs.sync_dir(at)


def parent_directory(path: str) -> str:
    """The parent directory of a path."""
    return path.rpartition("/")[0] or "/"


def _delay_ms(copy: FutureLog) -> int:
    return 0 if copy.copier is None else copy.copier.log.settings.file_delete_delay_ms
