"""One partition as this broker's replica of it sees it: a pure machine without I/O.

It knows who leads in which epoch, which replicas are in sync and how far each has got, and from
that the high watermark: the offset below which every record is on all in-sync replicas. Events
are its methods; what has to be done about them is returned as commands.

The ISR is changed by the controller only. A leader that wants to change it proposes a new one
(AlterPartition, KIP-497), and until the controller has answered, it assumes the worse for the high
watermark: a follower that is being added counts as in sync already, and one that is being removed
still does. All in-sync replicas of either outcome are the maximal ISR.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kavka.server.replica.follower_progress import FollowerProgress

STORY_EVENTS_MAX: Final = 32

NO_LEADER: Final = -1
NO_EPOCH: Final = -1
NEVER: Final = 2**63 - 1
"""As `flush_after`: records never wait for an fsync."""


def _always(broker_id: int) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class LeaderAndIsrState:
    """What a LeaderAndIsr request says of one partition."""

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


@dataclass(frozen=True, slots=True)
class ProposeIsr:
    """Ask the controller for another ISR, in this leader epoch and from this partition epoch."""

    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]


class PartitionState:
    """State of one partition on broker `broker_id`. Offsets are exclusive ends (one above the last
    record's), times are in ms of the monotonic clock.

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
        "lag_max_ms",
        "leader",
        "leader_epoch",
        "led_since_epoch",
        "log_end",
        "min_insync_replicas",
        "partition_epoch",
        "proposed_isr",
        "replicas",
        "story",
        "_followers",
        "_is_live",
        "_now_ms",
    )

    def __init__(
        self,
        broker_id: int,
        *,
        high_watermark: int,
        log_end: int,
        lag_max_ms: int = 30_000,
        is_live: Callable[[int], bool] = _always,
    ) -> None:
        """`lag_max_ms`: `replica.lag.time.max.ms`. `is_live`: whether a broker is live."""
        self.broker_id = broker_id
        self.lag_max_ms = lag_max_ms
        self.leader = NO_LEADER
        self.leader_epoch = NO_EPOCH
        self.partition_epoch = NO_EPOCH
        self.isr: tuple[int, ...] = ()
        """The in-sync replicas, as last decided by the controller."""
        self.proposed_isr: tuple[int, ...] | None = None
        """The ISR that the controller has been asked for, while it has not answered."""
        self.min_insync_replicas = 1
        self.replicas: tuple[int, ...] = ()
        self.is_leader = False
        self.led_since_epoch = NO_EPOCH
        """The leader epoch in which this broker last became leader. While it stays the same, no
        record that was appended here has been truncated."""
        self.epoch_start = 0
        """Where the log ended when this leader epoch began."""
        self.log_end = log_end
        self.flushed_end = 0
        self.flush_after = NEVER
        """The number of unflushed records from which on none of them is below the high watermark:
        `LogSettings.flush_after`."""
        self.high_watermark = min(high_watermark, log_end)
        self._followers: dict[int, FollowerProgress] = {}
        self._is_live = is_live
        self._now_ms = 0
        """The time of the last event that had one."""
        self.story: deque[str] = deque(maxlen=STORY_EVENTS_MAX)

    def lead(self, leader_and_isr: LeaderAndIsrState, now_ms: int = 0) -> Sequence[AssignEpoch]:
        """Become leader, or stay leader with another ISR. A stale LeaderAndIsr changes nothing."""
        if self._is_stale(leader_and_isr):
            return ()
        new_epoch = leader_and_isr.leader_epoch > self.leader_epoch
        self._adopt(leader_and_isr)
        if not self.is_leader:
            self.led_since_epoch = leader_and_isr.leader_epoch
        self.is_leader = True
        self._now_ms = now_ms
        known = self._followers
        self._followers = {
            broker_id: known.get(broker_id) or FollowerProgress()
            for broker_id in leader_and_isr.replicas
            if broker_id != self.broker_id
        }
        if new_epoch:
            self.epoch_start = self.log_end
            for broker_id, follower in self._followers.items():
                follower.begin_epoch(now_ms, in_sync=broker_id in leader_and_isr.isr)
        self._advance()
        self.story.append(f"lead epoch {leader_and_isr.leader_epoch} isr {leader_and_isr.isr}")
        return (AssignEpoch(leader_and_isr.leader_epoch, self.log_end),) if new_epoch else ()

    def follow(self, leader_and_isr: LeaderAndIsrState) -> None:
        """Stop leading; the high watermark stays where it is until the leader sends a new one."""
        if self._is_stale(leader_and_isr):
            return
        self._adopt(leader_and_isr)
        self.is_leader = False
        self._followers = {}
        self.story.append(f"follow {leader_and_isr.leader} epoch {leader_and_isr.leader_epoch}")

    def stop(self) -> None:
        """Stop leading or following: this broker no longer has the replica."""
        self.is_leader = False
        self.leader = NO_LEADER
        self.proposed_isr = None
        self._followers = {}
        self.story.append("stop")

    def _is_stale(self, leader_and_isr: LeaderAndIsrState) -> bool:
        """Whether this LeaderAndIsr is older than the last one, or equal. An equal one (the request
        was sent twice) must not end a proposal that the controller has not answered yet."""
        return (
            leader_and_isr.leader_epoch < self.leader_epoch
            or leader_and_isr.partition_epoch < self.partition_epoch
            or (leader_and_isr.leader_epoch, leader_and_isr.partition_epoch)
            == (self.leader_epoch, self.partition_epoch)
        )

    def _adopt(self, leader_and_isr: LeaderAndIsrState) -> None:
        self.leader = leader_and_isr.leader
        self.leader_epoch = leader_and_isr.leader_epoch
        self.partition_epoch = leader_and_isr.partition_epoch
        self.isr = leader_and_isr.isr
        self.proposed_isr = None
        self.replicas = leader_and_isr.replicas

    def appended(self, log_end: int) -> bool:
        """The leader's log has grown to `log_end`. Whether the high watermark moved."""
        self.log_end = log_end
        return self._advance()

    def replicated(self, log_end: int, leader_high_watermark: int) -> bool:
        """This follower has fetched up to `log_end`, with this high watermark of its leader.
        Whether its own high watermark moved. It may go back: that of a new leader may be lower
        until it knows how far the other replicas have got (KIP-207)."""
        self.log_end = log_end
        before, self.high_watermark = self.high_watermark, min(leader_high_watermark, log_end)
        return self.high_watermark != before

    def truncated(self, log_end: int) -> None:
        """This follower's log was truncated to what its leader has."""
        self.log_end = log_end
        self.flushed_end = min(self.flushed_end, log_end)
        self.high_watermark = min(self.high_watermark, log_end)
        self.story.append(f"truncate to {log_end}")

    def flushed(self, end: int) -> bool:
        """Everything below `end` is on this broker's disk. Whether the high watermark moved."""
        self.flushed_end = max(self.flushed_end, end)
        return self.is_leader and self._advance()

    def configure(self, flush_after: int, min_insync_replicas: int) -> bool:
        """Change `flush_after` and `min_insync_replicas`. Whether the high watermark moved; it
        never moves back."""
        self.flush_after = flush_after
        self.min_insync_replicas = min_insync_replicas
        return self.is_leader and self._advance()

    def brokers_gone(self) -> bool:
        """Some brokers are no longer live. Whether the high watermark moved."""
        return self.is_leader and self._advance()

    # Followers, as the leader sees them

    def fetched(self, follower: int, offset: int, now_ms: int) -> ProposeIsr | None:
        """A follower, one of `replicas`, has fetched from `offset`, so the high watermark may have
        moved. Returns the ISR to propose if the follower may join it."""
        self._now_ms = now_ms
        self._followers[follower].fetched(offset, self.log_end, now_ms)
        self._advance()
        if self.proposed_isr is not None or follower in self.isr:
            return None
        if offset < max(self.high_watermark, self.epoch_start):
            return None
        isr = {*self.isr, follower}
        return self._propose(tuple(broker_id for broker_id in self.replicas if broker_id in isr))

    def starts_at(self, follower: int, log_start: int) -> bool:
        """The log of a follower, one of `replicas`, starts at `log_start`. Whether that is higher
        than before. (It may be lower, if the follower has lost its log.)"""
        progress = self._followers[follower]
        before, progress.log_start = progress.log_start, log_start
        return log_start > before

    def low_watermark(self, log_start: int, live: Container[int]) -> int:
        """The offset below which neither this log, which starts at `log_start`, nor those of live
        followers have records (KIP-107)."""
        starts = (
            follower.log_start
            for broker_id, follower in self._followers.items()
            if broker_id in live
        )
        return min((log_start, *starts))

    def shrink(self, now_ms: int) -> ProposeIsr | None:
        """The ISR to propose, without followers that have lagged for too long. None if there are no
        such followers, or an earlier proposal is not answered yet."""
        self._now_ms = now_ms
        if not self.is_leader or self.proposed_isr is not None:
            return None
        stay = tuple(
            broker_id
            for broker_id in self.isr
            if broker_id == self.broker_id
            or self._followers[broker_id].is_in_sync(self.log_end, now_ms, self.lag_max_ms)
        )
        return None if stay == self.isr else self._propose(stay)

    def _propose(self, isr: tuple[int, ...]) -> ProposeIsr:
        self.proposed_isr = isr
        self.story.append(f"propose isr {isr}")
        return ProposeIsr(self.leader_epoch, self.partition_epoch, isr)

    def isr_decided(self, leader_epoch: int, isr: tuple[int, ...], partition_epoch: int) -> bool:
        """The controller has answered a proposal with the present ISR. Whether the high watermark
        moved. A response that is older than the last LeaderAndIsr changes nothing."""
        if not self.is_leader or leader_epoch != self.leader_epoch:
            return False
        if partition_epoch < self.partition_epoch:
            return False
        self.isr, self.partition_epoch, self.proposed_isr = isr, partition_epoch, None
        self.story.append(f"isr {isr} at {partition_epoch}")
        return self._advance()

    def isr_refused(self, proposal: ProposeIsr) -> bool:
        """The controller has refused a proposal because of the replicas in it: the ISR stays as it
        was. Whether the high watermark moved."""
        if not self.is_leader or proposal.leader_epoch != self.leader_epoch:
            return False
        if proposal.isr != self.proposed_isr:
            return False
        self.proposed_isr = None
        return self._advance()

    @property
    def followers(self) -> Mapping[int, FollowerProgress]:
        """The other replicas, while this broker leads."""
        return self._followers

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """The ISR, and the replicas that a pending proposal adds (KIP-497)."""
        proposed = self.proposed_isr or ()
        return self.isr + tuple(broker_id for broker_id in proposed if broker_id not in self.isr)

    @property
    def effective_min_isr(self) -> int:
        """`min.insync.replicas`, but no more than there are replicas."""
        return min(self.min_insync_replicas, len(self.replicas))

    @property
    def has_enough_in_sync(self) -> bool:
        """Whether a record that all in-sync replicas have is on `min.insync.replicas` of them."""
        return len(self.maximal_isr) >= self.effective_min_isr

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
        """Whether the record at `offset` is flushed, if its topic requires that (`flush.messages`,
        `kavka.durability=fsync`)."""
        return offset < self.flushed_end or not self.awaits_flush

    def _advance(self) -> bool:
        """Advance the high watermark to the lowest log end offset of the maximal ISR, this broker
        included; but not past the flushed end where records wait for an fsync (`flush_after`), and
        not at all while the ISR is smaller than `min.insync.replicas`. Whether it moved."""
        least = self.log_end
        if least - self.flushed_end >= self.flush_after:
            least = self.flushed_end
        if self._followers:
            if len(self.isr) < self.effective_min_isr:
                return False
            least = min(least, self._least_follower_end())
        if least <= self.high_watermark:
            return False
        self.high_watermark = least
        return True

    def _least_follower_end(self) -> int:
        """Followers outside the ISR count too while they have caught up: else the high watermark
        would always be ahead of them, and they could never join. Not those on brokers that have
        gone, as after a clean stop: producers would wait for them until they lag."""
        maximal, now_ms, lag_max_ms = self.maximal_isr, self._now_ms, self.lag_max_ms
        return min(
            (
                follower.log_end
                for broker_id, follower in self._followers.items()
                if broker_id in maximal
                or (
                    follower.is_in_sync(self.log_end, now_ms, lag_max_ms)
                    and self._is_live(broker_id)
                )
            ),
            default=self.log_end,
        )

    def check_invariants(self) -> None:
        """AssertionError, with the last events (`story`), when the state contradicts itself."""
        story = " | ".join(self.story)
        assert 0 <= self.high_watermark <= self.log_end, story
        assert self.flushed_end <= self.log_end, story
        assert not self.is_leader or self.leader == self.broker_id, story
        assert not self.is_leader or self.broker_id in self.isr, story
        # without a leader, some of the ISR may be replicas that a reassignment has dropped
        assigned = [replica in self.replicas for replica in self.maximal_isr]
        assert all(assigned) or (self.leader == NO_LEADER and any(assigned)), story
        assert self.is_leader or self.proposed_isr is None, story
        assert self.is_leader or not self._followers, story
