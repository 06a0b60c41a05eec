"""All logs of a broker: its log directories, what is in them, and the files that speak of all.

Which directory is whose (`.lock`, `meta.properties`), whether the broker stopped in order
(`.kafka_cleanshutdown`), and the checkpoints of recovery points, start offsets and high
watermarks. Blocking: start and stop do all their I/O here; in between only `create`, `delete`
and `truncate` touch the disk, and what may take long is a plan that a thread runs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from kavka.log import directory as names
from kavka.log.checkpoint import TopicPartition, decode_offsets, encode_offsets
from kavka.log.directory import Meta
from kavka.log.disk import Disk
from kavka.log.errors import CorruptFileError, StorageError
from kavka.log.fs import FileSystem, Lock, Volume
from kavka.log.garbage import Garbage
from kavka.log.partition_log import LogPlace, PartitionLog
from kavka.log.recovery import Checkpointed, create_log, load_log
from kavka.log.scan import BatchScanner
from kavka.log.settings import LogSettings
from kavka.seams import Clock, Random

logger = logging.getLogger(__name__)

OPEN_FILES_MAX: Final = 8192
"""Log files open at a time; more are opened and closed as needed."""

INDEX_CACHE_BYTES: Final = 16 << 20
"""Memory for index entries of segments that are read from but not at their end."""


@dataclass(slots=True)
class CheckpointPlan:
    """The checkpoint files as they were at one moment, and directories whose names changed."""

    fs: FileSystem
    serial: int
    files: tuple[tuple[str, bytes], ...]
    directories: tuple[str, ...]
    done: bool = False
    superseded: bool = False
    """Set when a later plan has to have the last word; this one then leaves the files alone."""

    def run(self) -> None:
        """Write them, with fsync; may run in a thread, one plan at a time. OSError."""
        temporary = [f"{path}.{self.serial}.tmp" for path, _ in self.files]
        for name, (_, data) in zip(temporary, self.files, strict=True):
            file = self.fs.create(name)
            file.pwrite(data, 0)
            file.sync()
            file.close()
        for name, (path, _) in zip(temporary, self.files, strict=True):
            if self.superseded:
                self.fs.remove(name)
            else:
                self.fs.rename(name, path)
        for directory in self.directories:
            self.fs.sync_dir(directory)
        self.done = not self.superseded


class LogManager:
    """The logs by topic and partition."""

    def __init__(
        self,
        fs: FileSystem,
        directories: Sequence[str],
        *,
        clock: Clock,
        random: Random,
        open_files_max: int = OPEN_FILES_MAX,
        index_cache_bytes: int = INDEX_CACHE_BYTES,
    ) -> None:
        """Touches nothing before `open`."""
        self._fs = fs
        self._directories = [directory.rstrip("/") or "/" for directory in directories]
        self._clock = clock
        self._random = random
        self._disk = Disk(fs, open_files_max=open_files_max, index_cache_bytes=index_cache_bytes)
        self._logs: dict[TopicPartition, PartitionLog] = {}
        self._parents: dict[TopicPartition, str] = {}
        self._high_watermarks: dict[TopicPartition, int] = {}
        # keys in checkpoint files that have no log, with the newest plan that may name them
        self._stale: dict[TopicPartition, int] = {}
        self._plans: list[CheckpointPlan] = []  # those that may not have been run yet
        self._serial = 0
        self._saved_serial = 0
        self._unclean: set[str] = set()  # directories that will not be marked as closed in order
        self._locks: list[Lock] = []

    def __iter__(self) -> Iterator[PartitionLog]:
        return iter(list(self._logs.values()))

    def __len__(self) -> int:
        return len(self._logs)

    @property
    def directories(self) -> list[str]:
        """The log directories."""
        return list(self._directories)

    @property
    def failed_directories(self) -> list[str]:
        """Those in which a log has failed since the start."""
        return [directory for directory in self._directories if directory in self._unclean]

    def get(self, topic: str, partition: int) -> PartitionLog | None:
        """The log of a partition."""
        return self._logs.get((topic, partition))

    def by_directory(self) -> dict[str, list[PartitionLog]]:
        """The logs in each log directory."""
        found: dict[str, list[PartitionLog]] = {path: [] for path in self._directories}
        for key, parent in self._parents.items():
            found[parent].append(self._logs[key])
        return found

    def absolute(self, directory: str) -> str:
        """The path of a log directory from the root on."""
        return self._fs.absolute(directory)

    def volume(self, directory: str) -> Volume:
        """The volume of a log directory; may run in a thread. OSError."""
        return self._fs.volume(directory)

    # --- start

    def open(self) -> Meta | None:
        """Make the directories, lock them, and tell whose they are; None when they are new.

        StorageError: one is in use, or they don't belong together.
        """
        for directory in self._directories:
            self._make_directory(directory)
            try:
                self._locks.append(self._fs.lock(f"{directory}/{names.LOCK_FILE}"))
            except BlockingIOError as error:
                self.unlock()
                raise StorageError(
                    f"the log directory {directory} is in use by another broker"
                ) from error
        found = [meta for meta in map(self._read_meta, self._directories) if meta is not None]
        if any(meta != found[0] for meta in found):
            raise StorageError(
                "the log directories belong to different brokers or clusters: "
                f"{', '.join(self._directories)}; see their {names.META_FILE}"
            )
        return found[0] if found else None

    def _make_directory(self, directory: str) -> None:
        if directory and not self._fs.exists(directory):
            parent = directory.rpartition("/")[0]
            self._make_directory(parent)
            self._fs.make_dir(directory)
            self._fs.sync_dir(parent or ("/" if directory.startswith("/") else "."))

    def _read_meta(self, directory: str) -> Meta | None:
        path = f"{directory}/{names.META_FILE}"
        try:
            return names.decode_meta(self._fs.read_bytes(path), path)
        except FileNotFoundError:
            return None

    def claim(self, meta: Meta) -> None:
        """Write down whose the directories are, where it isn't written yet."""
        for directory in self._directories:
            if self._read_meta(directory) is None:
                path = f"{directory}/{names.META_FILE}"
                self._fs.write_atomic(path, names.encode_meta(meta), sync=True)

    def load_all(self, settings_of: Callable[[str], LogSettings]) -> None:
        """Load every log, with the settings of its topic; recover where the broker didn't stop
        in order.

        StorageError, CorruptLogError, OSError: what can't be served safely, by its path.
        """
        scanner = BatchScanner()
        for directory in self._directories:
            self._load_directory(directory, settings_of, scanner)

    def _load_directory(
        self, directory: str, settings_of: Callable[[str], LogSettings], scanner: BatchScanner
    ) -> None:
        clean = self._take_clean_marker(directory)
        points = self._read_offsets(directory, names.RECOVERY_POINTS_FILE)
        starts = self._read_offsets(directory, names.START_OFFSETS_FILE)
        watermarks = self._read_offsets(directory, names.HIGH_WATERMARKS_FILE)
        found = self._find_logs(directory)
        if found and not clean:
            logger.info("recovering %d logs in %s after an unclean stop", len(found), directory)
        for key in found:
            if key in self._logs:
                raise StorageError(
                    f"{names.log_name(*key)} is in {self._parents[key]} and in {directory}: "
                    "remove one of the two"
                )
            checkpointed = Checkpointed(clean, points.get(key, 0), starts.get(key, 0))
            log = load_log(self._place(directory, *key, settings_of(key[0])), checkpointed, scanner)
            log.topic_id = self._read_topic_id(log)
            self._logs[key] = log
            self._parents[key] = directory
        self._high_watermarks |= {key: watermarks[key] for key in found if key in watermarks}
        for key in (*points, *starts):
            if key not in self._logs:
                self._stale[key] = self._serial

    def _take_clean_marker(self, directory: str) -> bool:
        path = f"{directory}/{names.CLEAN_SHUTDOWN_FILE}"
        if not self._fs.exists(path):
            return False
        self._fs.remove(path)
        # were it to come back with a power cut, what is written from now on would be trusted
        self._fs.sync_dir(directory)
        return True

    def _read_offsets(self, directory: str, name: str) -> dict[TopicPartition, int]:
        path = f"{directory}/{name}"
        try:
            return decode_offsets(self._fs.read_bytes(path), path)
        except FileNotFoundError:
            return {}
        except CorruptFileError as error:
            # safe: more is recovered than needed, a log starts at its first segment, and a high
            # watermark is found again
            logger.warning("%s; going on as if it was not there", error)
            return {}

    def _find_logs(self, directory: str) -> list[TopicPartition]:
        found = []
        for name in self._fs.list_dir(directory):
            path = f"{directory}/{name}"
            if not self._fs.is_dir(path):
                if name.endswith(".tmp"):
                    self._fs.remove(path)
                continue
            if names.is_deleted(name):
                self._disk.garbage.add([path], 0)
                continue
            key = names.parse_log_name(name, directory)
            if key is not None:
                found.append(key)
        return found

    def _place(self, directory: str, topic: str, partition: int, settings: LogSettings) -> LogPlace:
        path = f"{directory}/{names.log_name(topic, partition)}"
        return LogPlace(self._disk, path, topic, partition, settings, self._clock.now_ms())

    def _read_topic_id(self, log: PartitionLog) -> UUID | None:
        path = f"{log.directory}/{names.PARTITION_FILE}"
        try:
            return names.decode_partition(self._fs.read_bytes(path), path)
        except FileNotFoundError:
            return None
        except CorruptFileError as error:
            logger.warning("%s; the controller will tell the topic id", error)
            return None

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """The high watermarks as they were saved last, of the logs that were loaded."""
        return dict(self._high_watermarks)

    # --- in between

    def create(
        self, topic: str, partition: int, topic_id: UUID, settings: LogSettings
    ) -> PartitionLog:
        """A new log, in the directory that has the fewest. Nothing is fsynced but with the first
        flush. OSError: there is none."""
        key = (topic, partition)
        if key in self._logs:
            raise StorageError(f"there is a log of {names.log_name(topic, partition)} already")
        if self._is_stale(key):
            # an earlier log's recovery point and start offset may not be taken for this one's
            self._checkpoint_now()
        self._stale.pop(key, None)
        counts = dict.fromkeys(self._directories, 0)
        for parent in self._parents.values():
            counts[parent] += 1
        parent = min(counts, key=lambda candidate: counts[candidate])
        place = self._place(parent, topic, partition, settings)
        if self._fs.exists(place.directory):
            raise StorageError(f"{place.directory} is there already but was not loaded")
        try:
            self._fs.make_dir(place.directory)
            log = create_log(place)
            self._write_topic_id(log, topic_id)
        except OSError:
            self._fs.remove_tree(place.directory)
            raise
        log.unsynced_name(place.directory)
        self._logs[key] = log
        self._parents[key] = parent
        return log

    def assign_topic_id(self, log: PartitionLog, topic_id: UUID) -> None:
        """Give a log its topic's id if it has none. StorageError when it has another's."""
        if log.topic_id is None:
            self._write_topic_id(log, topic_id)
        elif log.topic_id != topic_id:
            raise StorageError(
                f"{log.directory} belongs to the topic id {log.topic_id}, not {topic_id}"
            )

    def _write_topic_id(self, log: PartitionLog, topic_id: UUID) -> None:
        path = f"{log.directory}/{names.PARTITION_FILE}"
        self._fs.write_atomic(path, names.encode_partition(topic_id), sync=False)
        log.unsynced(path)
        log.topic_id = topic_id

    def delete(self, topic: str, partition: int) -> None:
        """Take a log out; its files are renamed now and removed by `purge`."""
        key = (topic, partition)
        log = self._logs.pop(key)
        parent = self._parents.pop(key)
        log.release()
        unique = f"{self._random.getrandbits(128):032x}"
        path = f"{parent}/{names.delete_name(topic, partition, unique)}"
        self._fs.rename(log.directory, path)
        self._disk.garbage.add([path], log.settings.file_delete_delay_ms)
        self._stale[key] = self._serial

    def fail(self, log: PartitionLog) -> None:
        """Serve a log no more whose files can't be relied on; they stay as they are.

        Nothing happens to one that is out already.
        """
        key = (log.topic, log.partition)
        if self._logs.get(key) is log:
            self._unclean.add(self._parents.pop(key))
            del self._logs[key]
            log.release()

    def truncate(self, log: PartitionLog, offset: int) -> None:
        """Cut a log, and make sure that a crash does not take what comes next for flushed."""
        point = log.recovery_point
        log.truncate_to(offset)
        if log.recovery_point < point:
            self._checkpoint_now()

    @property
    def garbage(self) -> Garbage:
        """Files and directories that are to go, for `remove_garbage` in a thread."""
        return self._disk.garbage

    def purge(self) -> None:
        """Remove what was deleted, at once."""
        remove_garbage(self._fs, self.garbage.take())

    def checkpoint(self, high_watermarks: Mapping[TopicPartition, int] | None) -> CheckpointPlan:
        """The checkpoint files as of now; high watermarks only when given."""
        files = []
        for directory in self._directories:
            logs = {key: self._logs[key] for key, at in self._parents.items() if at == directory}
            points = {key: log.recovery_point for key, log in logs.items()}
            starts = {
                key: log.start_offset
                for key, log in logs.items()
                if log.start_offset > log.first_base_offset
            }
            files.append((f"{directory}/{names.RECOVERY_POINTS_FILE}", encode_offsets(points)))
            files.append((f"{directory}/{names.START_OFFSETS_FILE}", encode_offsets(starts)))
            if high_watermarks is not None:
                here = {key: high_watermarks[key] for key in logs if key in high_watermarks}
                files.append((f"{directory}/{names.HIGH_WATERMARKS_FILE}", encode_offsets(here)))
        self._forget_finished()
        self._serial += 1
        plan = CheckpointPlan(self._fs, self._serial, tuple(files), tuple(self._directories))
        self._plans.append(plan)
        return plan

    def _checkpoint_now(self, watermarks: Mapping[TopicPartition, int] | None = None) -> None:
        """Have what is true now on the disk when this returns, whatever a thread is writing."""
        for running in self._plans:
            running.superseded = True
        self.checkpoint(watermarks).run()

    def _forget_finished(self) -> None:
        saved = [plan.serial for plan in self._plans if plan.done]
        self._saved_serial = max(saved, default=self._saved_serial)
        self._plans = [plan for plan in self._plans if plan.serial > self._saved_serial]

    def _is_stale(self, key: TopicPartition) -> bool:
        self._forget_finished()
        return self._stale.get(key, -1) >= self._saved_serial

    # --- stop

    def close(self, high_watermarks: Mapping[TopicPartition, int] | None = None) -> None:
        """Flush and close every log, write the checkpoints, and mark the directories as closed
        in order where all went well; then let go of them."""
        for key, log in self._logs.items():
            try:
                log.close()
            except OSError as error:
                self._unclean.add(self._parents[key])
                logger.error("%s can't be closed in order: %s", log.directory, error)
        self._checkpoint_now(high_watermarks)
        for directory in self._directories:
            if directory not in self._unclean:
                path = f"{directory}/{names.CLEAN_SHUTDOWN_FILE}"
                self._fs.write_atomic(path, names.CLEAN_SHUTDOWN, sync=True)
        self._logs.clear()
        self._parents.clear()
        self.unlock()

    def abandon(self) -> None:
        """Let go of everything as it is, as if the process had been killed: nothing is written.
        No thread may be at work on it."""
        for log in self._logs.values():
            log.release()
        self._logs.clear()
        self._parents.clear()
        self.unlock()

    def unlock(self) -> None:
        """Let others have the directories, without closing anything."""
        while self._locks:
            self._locks.pop().release()


def remove_garbage(fs: FileSystem, paths: Sequence[str]) -> None:
    """Remove files and directories; those that are gone already don't matter."""
    for path in paths:
        if fs.is_dir(path):
            fs.remove_tree(path)
        elif fs.exists(path):
            fs.remove(path)
