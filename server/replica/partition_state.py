"""One partition as its leader sees it: a pure machine without I/O.

It knows who leads in which epoch, which replicas are in sync and how far each has got, and from
that the high watermark: the offset below which every record is on all in-sync replicas. Events
are its methods; what has to be done about them is returned as commands.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

STORY_EVENTS_MAX: Final = 32

NO_LEADER: Final = -1
NO_EPOCH: Final = -1
NEVER: Final = 2**63 - 1
"""As `flush_after`: records never wait for an fsync."""


@dataclass(frozen=True, slots=True)
class Leadership:
    """What the controller decided about a partition, in LeaderAndIsr's terms."""

    controller_epoch: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AssignEpoch:
    """Record in the epoch cache that `epoch` begins at `start_offset` (KIP-101)."""

    epoch: int
    start_offset: int


class PartitionState:
    """State of one partition on broker `broker_id`. Offsets are exclusive ends.

    `high_watermark` never goes back while this broker leads.
    """

    __slots__ = (
        "broker_id",
        "epoch_start",
        "flush_after",
        "flushed_end",
        "high_watermark",
        "is_leader",
        "isr",
        "leader",
        "leader_epoch",
        "log_end",
        "partition_epoch",
        "replicas",
        "story",
        "_replica_ends",
    )

    def __init__(self, broker_id: int, *, high_watermark: int, log_end: int) -> None:
        self.broker_id = broker_id
        self.leader = NO_LEADER
        self.leader_epoch = NO_EPOCH
        self.partition_epoch = NO_EPOCH
        self.isr: tuple[int, ...] = ()
        self.replicas: tuple[int, ...] = ()
        self.is_leader = False
        self.epoch_start = 0
        """Where the log ended when this leader epoch began."""
        self.log_end = log_end
        self.flushed_end = 0
        self.flush_after = NEVER
        """The number of unflushed records from which on none of them is below the high watermark:
        `LogSettings.flush_after`."""
        self.high_watermark = min(high_watermark, log_end)
        self._replica_ends: dict[int, int] = {}
        self.story: deque[str] = deque(maxlen=STORY_EVENTS_MAX)

    def lead(self, decision: Leadership) -> Sequence[AssignEpoch]:
        """Become leader, or stay leader with another ISR. A stale decision changes nothing."""
        if self._is_stale(decision):
            return ()
        new_epoch = decision.leader_epoch > self.leader_epoch
        self._adopt(decision)
        self.is_leader = True
        if new_epoch:
            self._replica_ends = {}
            self.epoch_start = self.log_end
        self._advance()
        self.story.append(f"lead epoch {decision.leader_epoch} isr {decision.isr}")
        return (AssignEpoch(decision.leader_epoch, self.log_end),) if new_epoch else ()

    def follow(self, decision: Leadership) -> None:
        """Stop leading; the high watermark stays where it is until the leader sends a new one."""
        if self._is_stale(decision):
            return
        self._adopt(decision)
        self.is_leader = False
        self.story.append(f"follow {decision.leader} epoch {decision.leader_epoch}")

    def stop(self) -> None:
        """Stop leading or following: this broker no longer has the replica."""
        self.is_leader = False
        self.leader = NO_LEADER
        self.story.append("stop")

    def _is_stale(self, decision: Leadership) -> bool:
        """As in Apache Kafka: within a leader epoch an older partition epoch is an older ISR."""
        return (
            decision.leader_epoch < self.leader_epoch
            or decision.partition_epoch < self.partition_epoch
        )

    def _adopt(self, decision: Leadership) -> None:
        self.leader = decision.leader
        self.leader_epoch = decision.leader_epoch
        self.partition_epoch = decision.partition_epoch
        self.isr = decision.isr
        self.replicas = decision.replicas

    def appended(self, log_end: int) -> bool:
        """The leader's log has grown to `log_end`. Whether the high watermark moved."""
        self.log_end = log_end
        return self._advance()

    def flushed(self, end: int) -> bool:
        """Everything below `end` is on this broker's disk. Whether the high watermark moved."""
        self.flushed_end = max(self.flushed_end, end)
        return self.is_leader and self._advance()

    def configure(self, flush_after: int) -> bool:
        """Change `flush_after`. Whether the high watermark moved; it never moves back."""
        self.flush_after = flush_after
        return self.is_leader and self._advance()

    @property
    def awaits_flush(self) -> bool:
        """Whether there are records that stay above the high watermark until the next fsync."""
        return self.log_end - self.flushed_end >= self.flush_after

    @property
    def is_catching_up(self) -> bool:
        """Whether the high watermark lags behind what the log held when this leader epoch began:
        records acknowledged by an earlier leader may lie above it (KIP-207)."""
        return self.high_watermark < self.epoch_start

    def is_safe_here(self, offset: int) -> bool:
        """Whether the record at `offset` is as safe on this broker as its topic asks."""
        return offset < self.flushed_end or not self.awaits_flush

    def _advance(self) -> bool:
        """Advance the high watermark to the lowest log end offset of the in-sync replicas, this one
        included; but not past the flushed end where records wait for an fsync (`flush_after`).
        Whether it moved."""
        least = self.log_end
        if least - self.flushed_end >= self.flush_after:
            least = self.flushed_end
        if len(self.isr) > 1:
            for replica in self.isr:
                if replica != self.broker_id:
                    least = min(least, self._replica_ends.get(replica, 0))
        if least <= self.high_watermark:
            return False
        self.high_watermark = least
        return True

    def check_invariants(self) -> None:
        """AssertionError, with the story, when the state contradicts itself."""
        story = " | ".join(self.story)
        assert 0 <= self.high_watermark <= self.log_end, story
        assert self.flushed_end <= self.log_end, story
        assert not self.is_leader or self.leader == self.broker_id, story
        assert not self.is_leader or self.broker_id in self.isr, story
        assert all(replica in self.replicas for replica in self.isr), story
