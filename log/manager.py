"""All logs of a broker: its log directories, the logs in them, and the checkpoint files.

A single directory is in `log_dir.py`, loading at startup in `loading.py`. The manager owns the logs
by topic and partition, creates and deletes them, writes the checkpoints of recovery points, log
start offsets, high watermarks and cleaner offsets, and handles the failure of a log directory.

Synchronous. Apart from startup and shutdown only `create`, `delete`, `promote` and `truncate` do
I/O; what may take long is a plan to be run in a thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final
from uuid import UUID

from kavka.log import dir_names as names
from kavka.log.checkpoint import TopicPartition, offset_line
from kavka.log.claiming import claim_all, common_meta_properties, find_logs
from kavka.log.closing import DirectoryClosing
from kavka.log.deferred_deletes import DeferredDeletes
from kavka.log.dir_names import MetaProperties
from kavka.log.disk import Disk, LogLocation
from kavka.log.errors import TOO_MANY_FILES, DeletionError, PartialCreateError, StorageError
from kavka.log.fs import FileSystem, Volume, is_fd_exhaustion
from kavka.log.futures import FutureLogs
from kavka.log.loading import DirectoryLoading, check_duplicate_logs
from kavka.log.log_dir import CheckpointPlan, LogDirectory
from kavka.log.partition_log import PartitionLog
from kavka.log.recovery import create_log
from kavka.log.settings import LogSettings
from kavka.seams import Clock, Random
from kavka.wire.steps import Steps, run_at_once

logger = logging.getLogger(__name__)

OPEN_FILES_MAX: Final = 8192
"""Log files open at a time, at most half of what the process may open; others are opened on demand.
Indexes and small files are opened only briefly. Nothing is memory-mapped."""

FILES_AT_ONCE_SHARE: Final = 4
"""One piece of work may keep this fraction (1/n) of the open files from being evicted."""

INDEX_CACHE_BYTES: Final = 16 << 20
"""Memory for index entries of segments that are not read near their end."""

LOGS_PER_STEP: Final = 500
"""Logs taken over after loading, or added to a checkpoint, in one step: 3 us each."""


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
        """Does no I/O; see `open`."""
        self._fs = fs
        paths = [directory.rstrip("/") or "/" for directory in directories]
        self._directories = {path: LogDirectory(fs, path) for path in paths}
        self._clock = clock
        self._random = random
        open_files_max = min(open_files_max, fs.limit_files() // 2)
        self.files_at_once = max(1, open_files_max // FILES_AT_ONCE_SHARE)
        self._disk = Disk(fs, open_files_max=open_files_max, index_cache_bytes=index_cache_bytes)
        fs.on_fd_exhaustion(self._disk.files.close_half)
        self.futures = FutureLogs(fs, random, self._disk.deferred_deletes)
        """Logs that are being moved to another log directory."""
        self._logs: dict[TopicPartition, PartitionLog] = {}
        self._by_directory: dict[str, dict[TopicPartition, PartitionLog]] = {
            path: {} for path in paths
        }
        self._high_watermarks: dict[TopicPartition, int] = {}
        self._has_lost_flushed_records = False
        # deleted logs, with the serial of the newest plan that may contain them
        self._stale: dict[TopicPartition, int] = {}
        self._plans: list[CheckpointPlan] = []  # those that may still be running
        self._serial = 0
        self._saved_serial = 0

    def __iter__(self) -> Iterator[PartitionLog]:
        return iter(list(self._logs.values()))

    def __len__(self) -> int:
        return len(self._logs)

    @property
    def directories(self) -> list[str]:
        """The log directories, including offline ones."""
        return list(self._directories)

    @property
    def online_directories(self) -> list[str]:
        """The online log directories."""
        return [each.path for each in self._online()]

    @property
    def failed_directories(self) -> dict[str, OSError]:
        """The offline log directories, and why."""
        return {
            path: each.failure
            for path, each in self._directories.items()
            if each.failure is not None
        }

    def _online(self) -> list[LogDirectory]:
        return [each for each in self._directories.values() if each.failure is None]

    def get(self, topic: str, partition: int) -> PartitionLog | None:
        """The log of a partition."""
        return self._logs.get((topic, partition))

    def by_directory(self) -> dict[str, list[PartitionLog]]:
        """The logs in each online log directory."""
        return {path: list(self._by_directory[path].values()) for path in self.online_directories}

    def directory_of(self, log: PartitionLog) -> str:
        """The log directory of a log."""
        return log.directory.rpartition("/")[0] or "/"

    def leave_unclean(self, log: PartitionLog) -> None:
        """Have the next start recover all logs in the directory of `log`."""
        self._directories[self.directory_of(log)].is_unclean = True

    def absolute(self, directory: str) -> str:
        """The absolute path of a log directory."""
        return self._fs.absolute(directory)

    def volume(self, directory: str) -> Volume:
        """The volume of a log directory; may run in a thread. OSError."""
        return self._fs.volume(directory)

    # --- start

    def open(self, make: Collection[str] | None = None) -> MetaProperties | None:
        """Lock the directories and return their owner; None when they are new. New ones are created
        if in `make` (None: all of them); others are not touched before `claim`, nor those in `make`
        if another one has an owner: where there is nothing, a disk may not be mounted.

        One that can't be used goes offline. StorageError if all are, if one is in use, or if they
        have different owners.
        """
        found: list[MetaProperties] = []
        try:
            directories = self._directories.values()
            made = [
                directory for directory in directories if make is None or directory.path in make
            ]
            for directory in (
                *(directory for directory in directories if directory not in made),
                *made,
            ):
                try:
                    may_make = directory in made and (
                        make is None or not found or not directory.is_empty()
                    )
                    meta = directory.open(make=may_make)
                except OSError as failure:
                    self._fail_at_start(directory.path, failure)
                else:
                    found += [] if meta is None else [meta]
            self.check_usable()
        except StorageError:
            self.unlock()
            raise
        return common_meta_properties(found, list(self._directories))

    def _fail_at_start(self, directory: str, failure: OSError) -> None:
        if is_fd_exhaustion(failure):
            raise StorageError(TOO_MANY_FILES.format(failure)) from failure
        self.fail(directory, failure)

    def check_usable(self) -> None:
        """StorageError if all directories are offline."""
        if not self._online():
            reasons = "; ".join(f"{path}: {why}" for path, why in self.failed_directories.items())
            raise StorageError(f"none of the log directories can be used: {reasons}")

    @property
    def unclaimed_directories(self) -> list[str]:
        """The online directories without `meta.properties`; absolute paths."""
        return [self.absolute(each.path) for each in self._online() if each.owner is None]

    def logs_found(self) -> dict[TopicPartition, None]:
        """The partitions with a log in a directory that has an owner, before they are loaded."""
        return find_logs(self._online())

    def claim(
        self,
        meta: MetaProperties,
        known: Mapping[str, str] | None = None,
        given_up: Collection[str] = (),
    ) -> dict[str, str]:
        """Write the owner to the directories that have none. Returns the absolute paths by
        directory id, to be stored and passed as `known` at the next start.

        Directories that are `known` but missing are offline and stay in the result, except those
        in `given_up`. StorageError if all are offline, or if two have the same id.
        """
        directories = list(self._directories.values())
        claims = claim_all(directories, meta, known or {}, given_up, self._fs, self._random)
        for path, failure in claims.failures.items():
            if path not in self._directories:
                self._directories[path] = LogDirectory(self._fs, path)
                self._by_directory[path] = {}
            self._fail_at_start(path, failure)
        self.check_usable()
        return claims.record

    def loadings(self, settings_of: Callable[[str], LogSettings]) -> list[DirectoryLoading]:
        """All logs, each with the settings of its topic, in steps that may run in threads: each
        step of all directories before the next, `check_loadings` after each, and in the end
        `take_over` and `recovery_checkpoint`."""
        now_ms = self._clock.now_ms()
        return [
            DirectoryLoading(directory, self._disk, settings_of, now_ms)
            for directory in self._online()
        ]

    def check_loadings(self, loadings: Sequence[DirectoryLoading]) -> None:
        """StorageError if a log is in two directories, or all directories are offline."""
        check_duplicate_logs(self._fs, loadings)
        self.check_usable()

    def take_over(self, loading: DirectoryLoading) -> Steps[None]:
        """Add the loaded logs of a directory, in steps."""
        directory = loading.directory
        if (failure := directory.failure) is not None:
            directory.failure = None  # `fail` logs it and sets it again
            self.fail(directory.path, failure)
            return
        self._disk.deferred_deletes.add(loading.deleted, 0)
        within = self._by_directory[directory.path]
        for number, log in enumerate(loading.loaded, 1):
            log.move_to(self._disk)
            key = (log.topic, log.partition)
            self._logs[key] = within[key] = log
            if number % LOGS_PER_STEP == 0:
                yield None
        if (failed := self.futures.add_loaded(loading)) is not None:
            self.fail(*failed)
        self._high_watermarks |= loading.watermarks
        for key in loading.checkpointed:
            if key not in within:
                self._stale[key] = self._serial
        self._has_lost_flushed_records |= loading.has_lost_flushed_records

    def recovery_checkpoint(self) -> CheckpointPlan | None:
        """A checkpoint that has to be written before the first append, then to be passed to
        `recovery_checkpoint_written`; None if not needed. It is if a log ends before its recovery
        point: after another crash new records would count as flushed."""
        return self.checkpoint(None) if self._has_lost_flushed_records else None

    def recovery_checkpoint_written(self, plan: CheckpointPlan) -> None:
        """Take offline the directories in which the `recovery_checkpoint`, which was run,
        failed."""
        self._has_lost_flushed_records = False
        for path, failure in plan.failures.items():
            self._fail_at_start(path, failure)

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """The high watermarks of logs without a replica: from the checkpoint, or from when the
        replica was stopped."""
        return dict(self._high_watermarks)

    def high_watermark(self, key: TopicPartition) -> int:
        """One of the `high_watermarks`; 0 if unknown."""
        return self._high_watermarks.get(key, 0)

    def keep_high_watermark(self, key: TopicPartition, high_watermark: int) -> None:
        """The replica of a log was stopped: remember its high watermark, if the log is online."""
        if key in self._logs:
            self._high_watermarks[key] = high_watermark

    # --- running

    def next_directory(self, key: TopicPartition | None = None) -> str | None:
        """The directory in which `create` makes the next log: the requested one, else the one with
        the fewest logs. None if all are offline."""
        online = self.online_directories
        preferred = self.futures.preferred(key) if key is not None else None
        if preferred in online:
            return preferred
        return min(online, key=lambda path: len(self._by_directory[path]), default=None)

    def create(
        self, topic: str, partition: int, topic_id: UUID, settings: LogSettings
    ) -> PartitionLog:
        """A new log, in its `next_directory`. It is fsynced by the first flush.

        OSError: there is none, the directory can't be written to. PartialCreateError: and what was
        made there stays, to be loaded by the next start.
        """
        key = (topic, partition)
        if key in self._logs:
            raise StorageError(f"the log of {names.log_name(topic, partition)} already exists")
        parent = self.next_directory(key)
        if parent is None:
            self.check_usable()
            raise AssertionError
        if self._is_stale(key):
            # a deleted log's recovery point and start offset must not be used for this one
            self._checkpoint_now(parent)
        self._stale.pop(key, None)
        self._high_watermarks.pop(key, None)
        path = f"{parent}/{names.log_name(topic, partition)}"
        if self._fs.exists(path):
            raise StorageError(f"{path} already exists but was not loaded")
        location = LogLocation(self._disk, path, topic, partition, settings, self._clock.now_ms())
        try:
            self._fs.make_dir(path)
            log = create_log(location)
            # not atomic: if a power failure tears it, the controller provides the id again
            path_of_id = f"{path}/{names.PARTITION_FILE}"
            self._fs.create(path_of_id).pwrite(names.encode_partition(topic_id), 0)
            log.mark_unflushed(path_of_id)
            log.topic_id = topic_id
        except OSError as failure:
            self._remove_partial_log(location, failure)
            raise
        log.mark_name_unflushed(path)
        self._logs[key] = self._by_directory[parent][key] = log
        self.futures.log_created(key)
        return log

    def _remove_partial_log(self, location: LogLocation, failure: OSError) -> None:
        """Remove the directory of a log that could not be created."""
        path = location.directory
        try:
            self._fs.remove_tree(path)
        except OSError as left:
            if not is_fd_exhaustion(left):
                raise PartialCreateError(path, failure) from left
            try:  # listing the directory needs a descriptor, but renaming it does not
                self._mark_for_deletion(path, location.topic, location.partition, location.settings)
            except OSError:
                raise PartialCreateError(path, failure) from left

    def _mark_for_deletion(
        self, path: str, topic: str, partition: int, settings: LogSettings
    ) -> None:
        """Rename the directory of a log to `-delete`, and delete it later. OSError."""
        unique = f"{self._random.getrandbits(128):032x}"
        parent = path.rpartition("/")[0] or "/"
        renamed = f"{parent}/{names.delete_name(topic, partition, unique)}"
        self._fs.rename(path, renamed)
        self._disk.deferred_deletes.add([renamed], settings.file_delete_delay_ms)

    def assign_topic_id(self, log: PartitionLog, topic_id: UUID) -> None:
        """Set the topic id of a log that has none. StorageError if it has another one."""
        if log.topic_id is None:
            path = f"{log.directory}/{names.PARTITION_FILE}"
            self._fs.write_atomic(path, names.encode_partition(topic_id), sync=False)
            log.mark_unflushed(path)
            log.topic_id = topic_id
        elif log.topic_id != topic_id:
            raise StorageError(
                f"{log.directory} belongs to the topic id {log.topic_id}, not {topic_id}"
            )

    def delete(self, topic: str, partition: int) -> None:
        """Delete a log, and what a move has left of it in other log directories, if they are there:
        the directories are renamed now and added to `deferred_deletes`. DeletionError."""
        key = (topic, partition)
        self._high_watermarks.pop(key, None)
        self.futures.delete(key)
        log = self._logs.pop(key, None)
        if log is None:
            return
        parent = self.directory_of(log)
        del self._by_directory[parent][key]
        log.release()
        self._stale[key] = self._serial
        try:
            self._mark_for_deletion(log.directory, topic, partition, log.settings)
        except OSError as failure:
            raise DeletionError(parent, failure) from failure

    def fail(self, directory: str, failure: OSError) -> list[PartitionLog]:
        """Take a directory offline; its logs, which the caller has to release.

        Its files stay as they are. Does nothing if it is offline already.
        """
        failed = self._directories[directory]
        if failed.failure is not None:
            return []
        # The traceback would keep objects alive, for example the bytes of a request.
        failed.failure = failure.with_traceback(None)
        lost, self._by_directory[directory] = self._by_directory[directory], {}
        self.futures.forget_directory(directory)
        logger.error(
            "log directory %s%s is offline until restart: %s",
            directory,
            f" with {len(lost)} logs" if lost else "",  # at startup none is open yet
            failure,
        )
        for key in lost:
            del self._logs[key]
        return list(lost.values())

    def promote(self, log: PartitionLog) -> None:
        """Continue a log in its copy; see `FutureLogs.promote`."""
        before = self.directory_of(log)
        after = self.futures.promote(log)
        key = (log.topic, log.partition)
        del self._by_directory[before][key]
        self._by_directory[after][key] = log
        self._stale[key] = self._serial

    def truncate_in_steps(self, log: PartitionLog, offset: int) -> Steps[None]:
        """`PartitionLog.truncate_in_steps`; the first step truncates, and writes the checkpoints if
        needed: after a crash new records must not count as flushed or compacted."""
        return self._with_checkpoint(log, log.truncate_in_steps(offset))

    def truncate_fully_and_start_at(self, log: PartitionLog, offset: int) -> Steps[None]:
        """`PartitionLog.truncate_fully_and_start_at`, as `truncate_in_steps`: also, after a crash
        the log must not start where it did before."""
        return self._with_checkpoint(log, log.truncate_fully_and_start_at(offset))

    def _with_checkpoint(self, log: PartitionLog, steps: Steps[None]) -> Steps[None]:
        self.futures.delete_source_durably(
            (log.topic, log.partition)
        )  # otherwise a power failure may bring back the truncated records
        known = _checkpointed(log)
        more = next(steps, steps) is not steps
        if known != _checkpointed(log):
            self._checkpoint_now(self.directory_of(log))
        if more:
            yield None
            yield from steps

    @property
    def deferred_deletes(self) -> DeferredDeletes:
        """Files and directories marked for deletion, for `remove_paths` in a thread."""
        return self._disk.deferred_deletes

    def checkpoint(self, high_watermarks: Mapping[TopicPartition, int] | None) -> CheckpointPlan:
        """The current checkpoint files; the high watermarks only if given."""
        plan = self.begin_checkpoint()
        run_at_once(self.fill(plan, high_watermarks))
        return plan

    def begin_checkpoint(self) -> CheckpointPlan:
        """An empty plan for the checkpoint files, for `fill`."""
        self._forget_finished()
        self._serial += 1
        self._plans.append(CheckpointPlan(self._fs, self._serial))
        return self._plans[-1]

    def fill(
        self, plan: CheckpointPlan, watermarks: Mapping[TopicPartition, int] | None
    ) -> Steps[None]:
        """Add the content of the checkpoint files to a plan, in steps. Each log is added with its
        state at that moment; one that is deleted meanwhile may be included or not."""
        for directory in self._online():
            points: list[str] = []
            starts: list[str] = []
            ends: list[str] = []
            compacted: list[str] = []
            known = self.futures.checkpointed(directory.path, self._by_directory[directory.path])
            for number, (key, log, bound) in enumerate(known, 1):
                points.append(offset_line(key, min(log.recovery_point, bound)))
                if log.start_offset:  # a power failure may bring back deleted segments
                    starts.append(offset_line(key, log.start_offset))
                watermark = self._high_watermarks.get(key)
                if watermarks is not None and (end := watermarks.get(key, watermark)) is not None:
                    ends.append(offset_line(key, end))
                if (clean_upto := log.compaction.clean_upto) is not None:
                    compacted.append(offset_line(key, clean_upto))
                if number % LOGS_PER_STEP == 0:
                    yield None
            lines = {names.RECOVERY_POINTS_FILE: points, names.START_OFFSETS_FILE: starts}
            if compacted or directory.has_compacted:
                directory.has_compacted = True
                lines[names.CLEANER_OFFSETS_FILE] = compacted
            if watermarks is not None:
                lines[names.HIGH_WATERMARKS_FILE] = ends
            plan.add(directory, lines)

    def _checkpoint_now(self, directory: str) -> None:
        """Write the current checkpoints, superseding those that a thread is writing. OSError if the
        directory can't be written to."""
        plan = self._checkpoint_superseding(None)
        if directory in plan.failures:
            raise plan.failures[directory]

    def _checkpoint_superseding(
        self, high_watermarks: Mapping[TopicPartition, int] | None
    ) -> CheckpointPlan:
        for running in self._plans:
            running.supersede()
        plan = self.checkpoint(high_watermarks)
        plan.run()
        return plan

    def _forget_finished(self) -> None:
        saved = [plan.serial for plan in self._plans if plan.done]
        self._saved_serial = max(saved, default=self._saved_serial)
        self._plans = [plan for plan in self._plans if not plan.ended]

    def _is_stale(self, key: TopicPartition) -> bool:
        self._forget_finished()
        known = self._stale.get(key, -1)
        return known >= self._saved_serial or any(plan.serial <= known for plan in self._plans)

    # --- shutdown

    def close(self, high_watermarks: Mapping[TopicPartition, int] | None = None) -> None:
        """Flush and close all logs, write the checkpoints, mark the directories as cleanly shut
        down if all went well, and unlock them."""
        for closing in self.closings():
            for _ in closing.parts():
                closing.sync()
                closing.finish()
        self.close_directories(high_watermarks)

    def closings(self) -> list[DirectoryClosing]:
        """`close` in steps, which may run in threads, followed by `close_directories`."""
        online = self._online()
        at_once = max(1, self.files_at_once // max(1, len(online)))
        return [
            DirectoryClosing(self._fs, each, self._by_directory[each.path].values(), at_once)
            for each in online
        ]

    def close_directories(self, high_watermarks: Mapping[TopicPartition, int] | None) -> None:
        """The last step of `close`: the logs are closed; may run in a thread."""
        plan = self._checkpoint_superseding(high_watermarks)
        for directory in self._online():
            failure = plan.failures.get(directory.path)
            if failure is None and not directory.is_unclean:
                failure = self._mark_clean(directory)
            if failure is not None:
                logger.error("clean shutdown of %s failed: %s", directory.path, failure)
        self._forget_logs()

    @staticmethod
    def _mark_clean(directory: LogDirectory) -> OSError | None:
        try:
            directory.write_clean_shutdown_marker()
        except OSError as failure:
            return failure
        return None

    def abandon(self) -> None:
        """Release everything without writing anything, as if the process had been killed. No
        thread may be using the logs."""
        for log in self._logs.values():
            log.release()
        self._forget_logs()

    def _forget_logs(self) -> None:
        self._logs.clear()
        self.futures.clear()
        for within in self._by_directory.values():
            within.clear()
        self.unlock()

    def unlock(self) -> None:
        """Unlock the directories, without closing anything."""
        for directory in self._directories.values():
            directory.unlock()


def _checkpointed(log: PartitionLog) -> tuple[int, int, int | None]:
    """What the checkpoint files have about a log."""
    return log.start_offset, log.recovery_point, log.compaction.clean_upto
