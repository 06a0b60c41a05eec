"""Counts of the log cleaner for the metrics; see `kavka.server.replica.log_cleaner`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kavka.server.replica.replica import Replica

if TYPE_CHECKING:
    from kavka.log.compaction.order import CompactionResult


@dataclass(slots=True)
class CleaningStats:
    """Since the start of the broker."""

    dirtiest_ratio: float = 0.0
    """Of the dirtiest log, from 0 to 1, at the last check."""

    checked_ms: int = 0
    """When the last check was, in milliseconds since the epoch."""

    overdue_ms: int = 0
    """How long a record had waited beyond `max.compaction.lag.ms` when a log was compacted last."""

    last: dict[int, CompactionResult] = field(default_factory=dict)
    """The last outcome of each runner, by its number."""

    uncleanable: dict[Replica, None] = field(default_factory=dict)
    """Hosted logs that could not be compacted; they are not tried again before a restart."""

    dead: dict[int, None] = field(default_factory=dict)
    """The numbers of runners that failed; they are started again by a change of settings, or a
    restart."""
