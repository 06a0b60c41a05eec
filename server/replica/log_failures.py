"""Logs and log directories that fail: their replicas go offline (KIP-112).

A disk that can't be written or read takes its whole directory with it; a damaged file only its own
log. Both stay offline until a restart.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from kavka.log.manager import LogManager
from kavka.log.partition_log import PartitionLog
from kavka.seams import Tasks
from kavka.server.replica.replica import Replica

logger = logging.getLogger(__name__)

RELEASED_PER_STEP: Final = 100
"""Logs of a failed directory whose files are closed in one step."""


class LogFailures:
    """Takes logs and log directories offline that have failed. `LogManager` knows which directories
    have."""

    def __init__(
        self, logs: LogManager, hosted: Mapping[tuple[str, int], Replica], tasks: Tasks
    ) -> None:
        """`hosted`: the replicas of this broker, by (topic, partition)."""
        self._logs = logs
        self._hosted = hosted
        self._tasks = tasks
        self.on_failure: Callable[[], object] = _nothing
        """Called when a log directory has failed, or a log."""

    def storage_failed(self, replica: Replica, failure: OSError) -> None:
        """A log can't be written: take its whole directory offline."""
        if not replica.offline:
            logger.error("can't write to %s-%d: %s", *replica.key, failure)
            self.fail_directory_of(replica.log, failure)

    def fail_directory_of(self, log: PartitionLog, failure: OSError) -> None:
        """Take the log directory offline that a log is in."""
        self.directory_failed(self._logs.directory_of(log), failure)

    def directory_failed(self, directory: str, failure: OSError) -> None:
        """Take the partitions in a log directory offline, until a restart."""
        if directory in self._logs.failed_directories:
            return
        lost = self._logs.fail(directory, failure)
        for log in lost:
            replica = self._hosted.get((log.topic, log.partition))
            if replica is not None and replica.log is log:
                replica.offline = True
                replica.role_changed()
        self._tasks.spawn(self._release(lost), name="files of a failed log directory")
        self.on_failure()

    async def _release(self, logs: Sequence[PartitionLog]) -> None:
        for number, log in enumerate(logs, 1):
            log.release()
            if number % RELEASED_PER_STEP == 0:
                await self._tasks.sleep(0)

    def log_damaged(self, replica: Replica, damage: Exception) -> None:
        """Take a partition offline whose log can't be flushed because its files are damaged: what
        is written from now on would be lost. A restart recovers the log. The other partitions of
        its directory stay online, unlike in Apache Kafka, where any such error takes the whole
        directory offline."""
        logger.error("can't flush %s-%d: %s", *replica.key, damage)
        self._logs.leave_unclean(replica.log)
        replica.offline = True
        replica.role_changed()
        self.on_failure()


def _nothing() -> None:
    """The default listener."""
