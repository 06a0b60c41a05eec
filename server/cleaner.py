"""The broker's log cleaner: picks the dirtiest log, has it compacted, and swaps the files in.

A process of its own does the work (`kavka.log.compaction.run`), as many at a time as
`log.cleaner.threads` says. What it has done is taken over segment by segment, if the log is still
hosted here and has not been cut; else it is ended and what it wrote is left to be overwritten.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from kavka.log.compaction.candidates import Cleanable
from kavka.log.compaction.of_log import COMPACT
from kavka.log.compaction.order import Limits, Outcome, Progress, Replacement
from kavka.log.errors import CorruptLogError
from kavka.log.fs import FileSystem
from kavka.seams import Clock, Jobs, ProcessLost, Tasks
from kavka.server.config import BrokerSettings
from kavka.server.live_settings import LiveSettings
from kavka.server.replica.manager import Replica, ReplicaManager

logger = logging.getLogger(__name__)

LOGS_PER_TURN: Final = 20
"""Compacted logs looked at before the loop gets a turn, at some 20 us each."""

MAP_BYTES_MAX: Final = 2**31 - 1
"""What Apache Kafka uses of `log.cleaner.dedupe.buffer.size` for a log at most."""

PROGRESS_S: Final = 10.0
"""Seconds between two lines of progress in the log."""

_MIB: Final = 1 << 20


@dataclass(slots=True)
class CleanerStats:
    """What the metrics tell."""

    dirtiest_ratio: float = 0.0
    looked_ms: int = 0
    overdue_ms: int = 0
    uncleanable: dict[tuple[str, int], Replica] = field(default_factory=dict)
    """Logs that could not be compacted, and will not be tried again before a restart."""

    last: dict[int, Outcome] = field(default_factory=dict)
    """The last outcome of each runner."""

    running: int = 0


class _Choice(NamedTuple):
    replica: Replica
    cleanable: Cleanable


class LogCleaner:
    """Runs from `start` to `stop`."""

    def __init__(
        self,
        live: LiveSettings,
        *,
        fs: FileSystem,
        replicas: ReplicaManager,
        clock: Clock,
        tasks: Tasks,
        jobs: Jobs,
    ) -> None:
        self._live = live
        self._fs = fs
        self._replicas = replicas
        self._stats = replicas.cleaning
        self._clock = clock
        self._tasks = tasks
        self._jobs = jobs
        self._runners: dict[int, asyncio.Task[Any]] = {}

    def start(self) -> None:
        """Begin, if the broker has a cleaner at all."""
        if self._live.now.log_cleaner_enable:
            self._stats.looked_ms = self._clock.now_ms()
            self._live.on_change(self._follow)
            self._start_runners(self._live.now)

    def _follow(self, old: BrokerSettings, new: BrokerSettings) -> None:
        self._start_runners(new)  # those that are too many end by themselves

    def _start_runners(self, settings: BrokerSettings) -> None:
        for number in range(settings.log_cleaner_threads):
            if number not in self._runners:
                run = self._run(number)
                self._runners[number] = self._tasks.spawn(run, name=f"log cleaner {number}")

    async def stop(self) -> None:
        """End it; what was under way is worth nothing."""
        runners = list(self._runners.values())
        for runner in runners:
            runner.cancel()
        await asyncio.gather(*runners, return_exceptions=True)

    async def _run(self, number: int) -> None:
        try:
            while number < self._live.now.log_cleaner_threads:
                if not await self.clean_dirtiest(number):
                    await self._tasks.sleep(self._live.now.log_cleaner_backoff_ms / 1000)
        finally:
            del self._runners[number]

    async def clean_dirtiest(self, number: int = 0) -> bool:
        """Compact the log that is the dirtiest of those that are due; False: there was none, or
        it could not be."""
        choice = await self._choose()
        if choice is None:
            return False
        replica, cleanable = choice
        compaction = replica.log.compaction
        compaction.running = True
        self._stats.running += 1
        try:
            outcome = await _Cleaning(self._replicas, replica, self._clock).run(
                self._order(replica, cleanable)
            )
        finally:
            compaction.running = False
            self._stats.running -= 1
        return False
