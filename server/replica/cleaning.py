"""What there is to compact in a replica's log, and what the metrics tell of it; the work is
`kavka.server.cleaner`'s."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kavka.log.compaction.candidates import Cleanable
    from kavka.log.compaction.order import Outcome
    from kavka.server.replica.manager import Replica


@dataclass(slots=True)
class CleaningStats:
    """Since the start of the broker."""

    dirtiest_ratio: float = 0.0
    """Of the dirtiest log, from 0 to 1, when it was looked last."""

    looked_ms: int = 0
    """When that was."""

    overdue_ms: int = 0
    """How long a record had waited beyond `max.compaction.lag.ms` when a log was compacted last."""

    last: dict[int, Outcome] = field(default_factory=dict)
    """What came of it last, by the number of the runner."""

    uncleanable: dict[Replica, None] = field(default_factory=dict)
    """Hosted logs that could not be compacted; they are not tried again before a restart."""

    dead: dict[int, None] = field(default_factory=dict)
    """The numbers of runners that failed; they begin again with other settings, or a restart."""


def examine(replica: Replica, now_ms: int) -> Cleanable:
    """What may be compacted. CorruptLogError, OSError."""
    log = replica.log
    return log.compaction.examine(
        log.settings,
        first_dirty=log.compaction.first_dirty(log.start_offset, log.end_offset),
        # a record that is on the disk may not go for one that a power cut would take
        last_stable=min(replica.last_stable_offset, log.recovery_point),
        now_ms=now_ms,
    )
