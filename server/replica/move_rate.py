"""The limit on how fast replicas are copied from one log directory to another."""

from __future__ import annotations

from typing import Final

from kavka.log.future_log_copier import STEP_BYTES_MAX
from kavka.seams import Clock, Tasks
from kavka.server.config import BrokerSettings
from kavka.server.config.live import LiveSettings

PERIOD_S: Final = 1.0
"""A portion has at most the bytes that the limit allows in this time; a change of the limit applies
from the next portion on."""


class MoveRate:
    """`replica.alter.log.dirs.io.max.bytes.per.second`, for all moves of a broker together."""

    def __init__(self, live: LiveSettings, *, clock: Clock, tasks: Tasks) -> None:
        self._live = live
        self._clock = clock
        self._tasks = tasks
        self._free_s = 0.0  # when the bytes copied so far are within the limit
        live.on_change(self._changed)

    def _changed(self, old: BrokerSettings, new: BrokerSettings) -> None:
        if old.replica_alter_log_dirs_io_max_bytes_per_second != self._limit:
            self._free_s = 0.0

    @property
    def _limit(self) -> int:
        return self._live.now.replica_alter_log_dirs_io_max_bytes_per_second

    async def portion(self) -> int:
        """Wait until more may be copied; how many bytes."""
        while True:
            ahead_s = self._free_s - self._clock.monotonic_s()
            if self._limit > 0 and ahead_s <= 0:
                return max(1, min(STEP_BYTES_MAX, int(self._limit * PERIOD_S)))
            await self._tasks.sleep(min(max(ahead_s, 0.0), PERIOD_S) or PERIOD_S)

    def spend(self, size_bytes: int) -> None:
        """Count bytes that are copied, or about to be."""
        now_s = self._clock.monotonic_s()
        self._free_s = max(self._free_s, now_s) + size_bytes / max(1, self._limit)
