"""Flushing and closing many logs at shutdown: fsyncs in threads, each directory synced once.

An fsync mostly waits for the device, which serves several threads as fast as one.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final

from kavka.log.errors import CorruptLogError, StorageError
from kavka.log.flush import FlushPlan
from kavka.log.fs import FileSystem
from kavka.log.log_dir import LogDirectory
from kavka.log.partition_log import PartitionLog

logger = logging.getLogger(__name__)

LOGS_AT_ONCE: Final = 200
"""Logs closed in one iteration of the event loop, at 20 us each."""


class DirectoryClosing:
    """The clean close of the logs of one directory.

    `parts` prepares one portion of the logs after the other; for each portion the caller runs
    `sync`, in any number of threads, and then `finish`. The logs must not be in use any more.
    """

    def __init__(
        self,
        fs: FileSystem,
        directory: LogDirectory,
        logs: Iterable[PartitionLog],
        at_once: int,
    ) -> None:
        """`at_once`: how many logs may have their files open at a time."""
        self._fs = fs
        self._directory = directory
        self._logs = list(logs)
        self._at_once = min(at_once, LOGS_AT_ONCE)
        self._sealed: list[tuple[PartitionLog, FlushPlan]] = []
        self._files: deque[tuple[PartitionLog, FlushPlan]] = deque()
        self._directories: deque[str] = deque()

    def parts(self) -> Iterator[None]:
        """Prepare a portion of the logs for `sync`, and at the end their common directory."""
        for start in range(0, len(self._logs), self._at_once):
            portion = self._logs[start : start + self._at_once]
            for log in portion:
                with suppress(
                    OSError, StorageError, CorruptLogError
                ):  # `seal` tries again and reports it
                    for _ in log.before_seal():
                        yield
            self._seal(portion)
            yield
        if self._logs:
            self._directories.append(self._directory.path)
            yield

    def _seal(self, logs: Sequence[PartitionLog]) -> None:
        for log in logs:
            try:
                plan = log.seal()
            except (OSError, StorageError, CorruptLogError) as failure:
                self._failed(log, failure)
                plan = None
            if plan is None:
                log.release()
                continue
            self._sealed.append((log, plan))
            self._files.append((log, plan))
            own = [path for path in plan.directories if path != self._directory.path]
            self._directories.extend(own)

    def sync(self) -> None:
        """Do fsyncs until none is left; may run in any number of threads at once."""
        while self._files:
            try:
                log, plan = self._files.popleft()
            except IndexError:  # another thread took the last one
                break
            try:
                plan.sync_files()
            except OSError as failure:
                self._failed(log, failure)
        while self._directories:
            try:
                path = self._directories.popleft()
            except IndexError:
                break
            try:
                self._fs.sync_dir(path)
            except OSError as failure:
                self._directory.is_unclean = True
                logger.error("clean close of %s failed: %s", path, failure)

    def _failed(self, log: PartitionLog, failure: Exception) -> None:
        self._directory.is_unclean = True
        logger.error("clean close of %s failed: %s", log.directory, failure)

    def finish(self) -> None:
        """Advance the recovery points of the portion and close its files."""
        for log, plan in self._sealed:
            if not self._directory.is_unclean:
                log.flushed(plan)
            log.release()
        self._sealed.clear()
