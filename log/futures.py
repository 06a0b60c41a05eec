"""Which logs move to another log directory, and which directory a log is to be made in.

A copy lies in `<topic>-<partition>.<id>-future` until it is complete; then it takes the name of the
log, in its own log directory, and the log goes on in it. The directory that the log leaves keeps
its name until that is on the disk, and only then is renamed to be deleted. So there is a whole log
under its own name at any time, and where a crash leaves two, the marked one counts
(`dir_names.MOVED_FILE`): it has all that the other has.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from kavka.log import dir_names as names
from kavka.log.checkpoint import TopicPartition
from kavka.log.deferred_deletes import DeferredDeletes
from kavka.log.errors import StorageError
from kavka.log.fs import FileSystem
from kavka.log.mirror import LogMirror
from kavka.log.partition_log import PartitionLog
from kavka.log.relocation import relocate
from kavka.log.settings import FSYNC
from kavka.seams import Random

if TYPE_CHECKING:
    from kavka.log.loading import DirectoryLoading

logger = logging.getLogger(__name__)

NO_BOUND: Final = (1 << 63) - 1

PREFERRED_MAX: Final = 100_000
"""Partitions that are not there yet whose log directory is remembered; the oldest go first."""


class FutureLog:
    """A copy of a log, or its beginnings. `path` lies in the log directory `directory`."""

    __slots__ = ("directory", "is_sound", "key", "mirror", "path")

    def __init__(self, key: TopicPartition, directory: str, path: str, *, is_sound: bool) -> None:
        self.key = key
        self.directory = directory
        self.path = path
        self.is_sound = is_sound
        """Whether it ends with a whole batch, as far as this process has not changed it."""
        self.mirror: LogMirror | None = None
        """What knows how far it is; None: it was left behind, and nobody has looked yet."""


class _MoveSource(NamedTuple):
    """The directory that a log has left, and that has its name still."""

    path: str
    log: PartitionLog
    recovery_point: int


class FutureLogs:
    """The copies, one a partition, and the log directories that were asked for."""

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
        """The partitions of which a directory is there that their log has left."""
        return list(self._sources)

    def get(self, key: TopicPartition) -> FutureLog | None:
        """The copy of a partition's log."""
        return self._copies.get(key)

    def in_directory(self, directory: str) -> list[FutureLog]:
        """The copies in a log directory that are being made."""
        copies = self._copies.values()
        return [one for one in copies if one.directory == directory and one.mirror is not None]

    def checkpointed(
        self, directory: str, logs: Mapping[TopicPartition, PartitionLog]
    ) -> list[tuple[TopicPartition, PartitionLog, int]]:
        """What the checkpoints of a log directory, which has `logs`, are to speak of: partition,
        log, and a bound of its recovery point. A copy is in them before it takes the log's place,
        and what a log has left is while it may come back with a power cut."""
        found = [(key, log, NO_BOUND) for key, log in logs.items()]
        found += [
            (one.key, one.mirror.log, one.mirror.synced_end)
            for one in self.in_directory(directory)
            if one.mirror is not None and one.mirror.synced_end
        ]
        for key, source in self._sources.items():
            if parent_of(source.path) == directory:
                found.append((key, source.log, source.recovery_point))
        return found

    # --- which directory a log is made in

    def prefer(self, key: TopicPartition, directory: str) -> None:
        """Have a log that is not there yet be made in `directory`."""
        self._preferred.pop(key, None)
        self._preferred[key] = directory
        if len(self._preferred) > PREFERRED_MAX:
            del self._preferred[next(iter(self._preferred))]

    def preferred(self, key: TopicPartition) -> str | None:
        """Where a log was to be made."""
        return self._preferred.get(key)

    def log_created(self, key: TopicPartition) -> None:
        """A log has been made."""
        self._preferred.pop(key, None)

    # --- a copy

    def begin(self, log: PartitionLog, directory: str) -> FutureLog:
        """A copy of `log`, of which there is none, in another log directory. OSError of that."""
        key = log.topic, log.partition
        path = f"{directory}/{names.future_name(*key, self._unique())}"
        self._fs.make_dir(path)
        copy = FutureLog(key, directory, path, is_sound=True)
        if log.topic_id is not None:
            data = names.encode_partition(log.topic_id)
            self._fs.create(f"{path}/{names.PARTITION_FILE}").pwrite(data, 0)
        copy.mirror = LogMirror(self._fs, log, path)
        self._copies[key] = copy
        self._preferred.pop(key, None)
        return copy

    def resume(self, copy: FutureLog, log: PartitionLog) -> None:
        """Complete a copy of `log` that was left behind."""
        # after an fsync that failed, what is in it may look as if it was on the disk
        is_kept = copy.is_sound or log.settings.kavka_durability != FSYNC
        copy.mirror = LogMirror(self._fs, log, copy.path, is_kept=is_kept)

    def _unique(self) -> str:
        return f"{self._random.getrandbits(128):032x}"

    def discard(self, key: TopicPartition) -> None:
        """Have no copy of a log, if there is one. OSError of the copy's directory."""
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
        """Have `log` go on in its copy, which `is_ready`; the log directory that it is in then.
        OSError of the copy's directory, and SourceError: it stays where it is."""
        key = log.topic, log.partition
        copy = self._copies[key]
        assert copy.mirror is not None and key not in self._sources
        copy.mirror.copy_tail()
        path = f"{copy.directory}/{names.log_name(*key)}"
        self._fs.rename(copy.path, path)
        self._sources[key] = _MoveSource(log.directory, log, log.recovery_point)
        del self._copies[key]
        relocate(log, path)
        return copy.directory

    def delete_source(self, key: TopicPartition) -> str | None:
        """Have the directory deleted that a log has left; its log directory. None: there is none.
        OSError of that: it stays."""
        source = self._sources.get(key)
        if source is None:
            return None
        directory = parent_of(source.path)
        self._mark_for_deletion(
            key, directory, source.path, source.log.settings.file_delete_delay_ms
        )
        del self._sources[key]
        return directory

    def delete_source_durably(self, key: TopicPartition) -> None:
        """The same at once, and on the disk. OSError."""
        source = self._sources.get(key)
        if source is not None:
            self._fs.sync_dir(parent_of(source.log.directory))
            self.delete_source(key)
            self._fs.sync_dir(parent_of(source.path))

    def forget_directory(self, directory: str) -> None:
        """A log directory has failed: its files stay as they are."""
        for copy in list(self._copies.values()):
            origin = None if copy.mirror is None else copy.mirror.log.directory
            if directory in (copy.directory, origin and parent_of(origin)):
                del self._copies[copy.key]
        for key, source in list(self._sources.items()):
            if parent_of(source.path) == directory:
                del self._sources[key]

    def clear(self) -> None:
        """Forget all."""
        self._copies.clear()
        self._sources.clear()

    # --- start

    def add_loaded(self, loading: DirectoryLoading) -> tuple[str, OSError] | None:
        """Take over what is in a log directory that was loaded; a log directory that has failed
        meanwhile, and why."""
        at = loading.directory.path
        try:
            for other in dict.fromkeys(loading.superseded.values()):
                if other.failure is None:
                    at = other.path
                    self._fs.sync_dir(at)  # it may have been given its name just before a crash
            at = loading.directory.path
            self._delete_superseded(loading)
            for key, path in loading.futures:
                if key in self._copies or key in loading.keys:
                    logger.warning("%s is deleted: the log is, or moves, elsewhere", path)
                    self._mark_for_deletion(key, at, path, 0)
                else:
                    self._copies[key] = FutureLog(key, at, path, is_sound=loading.is_clean)
        except OSError as failure:
            return at, failure
        return None

    def _delete_superseded(self, loading: DirectoryLoading) -> None:
        at = loading.directory.path
        count = 0
        for key, other in loading.superseded.items():
            if other.failure is None:
                path = f"{at}/{names.log_name(*key)}"
                logger.info("%s is deleted: its log goes on in %s", path, other.path)
                self._mark_for_deletion(key, at, path, 0)
                count += 1
        if count:  # as long as it may come back, the other one has to be marked
            self._fs.sync_dir(at)


def parent_of(path: str) -> str:
    """The directory that a path lies in."""
    return path.rpartition("/")[0] or "/"


def _delay_ms(copy: FutureLog) -> int:
    return 0 if copy.mirror is None else copy.mirror.log.settings.file_delete_delay_ms


def choose(
    fs: FileSystem, key: TopicPartition, one: DirectoryLoading, two: DirectoryLoading
) -> DirectoryLoading:
    """Of two directories that have a log, the one that counts; it is left out of the other.
    StorageError: nobody can tell."""
    name = names.log_name(*key)
    marked = [
        each for each in (one, two) if fs.exists(f"{each.directory.path}/{name}/{names.MOVED_FILE}")
    ]
    if len(marked) != 1:
        raise StorageError(
            f"{name} is in {one.directory.path} and in {two.directory.path}: remove one of the two"
        )
    (two if marked[0] is one else one).leave_out(key, marked[0].directory)
    return marked[0]
