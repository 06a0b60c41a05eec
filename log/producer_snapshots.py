"""The producer state of a log: its snapshots on disk, and its rebuilding after a truncation.

With many producers a snapshot is written in steps. The state is rebuilt in steps too.
"""

from __future__ import annotations

import logging
from itertools import chain

from kavka.log.errors import CorruptLogError
from kavka.log.flush import UnflushedPaths
from kavka.log.producer_entry import AppendedBatch
from kavka.log.producer_state import ENTRIES_PER_STEP, ProducerStates
from kavka.log.replay import replay_in_steps
from kavka.log.segment import Segment
from kavka.log.segments import SegmentList
from kavka.log.snapshots import Snapshots
from kavka.log.transactions import Transactions
from kavka.log.txn_guards import Guard
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.record_batches import BatchHeader
from kavka.wire.steps import Steps

logger = logging.getLogger(__name__)


class ProducerStateManager:
    """The producer state of one log, whose `segments` it shares."""

    __slots__ = (
        "_truncations",
        "_forgotten",
        "_making",
        "_segments",
        "_unflushed",
        "is_known",
        "snapshots",
        "states",
    )

    def __init__(
        self,
        segments: SegmentList,
        snapshots: Snapshots,
        states: ProducerStates,
        unflushed: UnflushedPaths,
    ) -> None:
        self._segments = segments
        self._unflushed = unflushed
        self.snapshots = snapshots
        self.states = states
        self._forgotten = ProducerStates()
        self._truncations = 0
        self._making: Steps[None] | None = None
        self.is_known = True
        """False until `rebuild` has ended: no append, and no deletion of segments."""

    def save(self, start: int, end: int) -> None:
        """Save the state of a log with these offsets, unless it is saved already or not known.
        With many producers `write_snapshot_step` does the work. OSError."""
        # an empty log may have producer state
        is_of_use = len(self.states) or end > start
        if end <= self.snapshots.newest or not is_of_use or not self.is_known:
            return
        if len(self.states) > ENTRIES_PER_STEP:
            self.snapshots.begin(end, self.states)
        else:
            self._unflushed.add(self.snapshots.save(end, self.states))

    def save_unless_saving(self, start: int, end: int) -> None:
        """`save`, unless an earlier state is being saved: skipping one only means that recovery has
        to read more. OSError."""
        if not self.snapshots.is_writing:
            self.save(start, end)

    @property
    def is_saving(self) -> bool:
        """Whether a snapshot is being written, or made; the next flush calls
        `write_snapshot_step`."""
        return self.snapshots.is_writing or self._making is not None

    def write_snapshot_step(self) -> bool:
        """Write a part of the snapshot being written, or make a part of a missing one; False when
        it is complete. OSError."""
        if self.snapshots.is_writing:
            path = self.snapshots.write_step()
            if path is not None:
                self._unflushed.add(path)
        elif self._making is not None:
            try:
                next(self._making)
            except StopIteration:
                self._making = None
        return self.is_saving

    def count_deletable(self, count: int, start: int) -> int:
        """How many of the `count` oldest segments of a log that starts at `start` may be deleted:
        there must be a snapshot at the new start. Otherwise producer state would be lost in a
        crash, and valid batches would be rejected.

        If none of them may be deleted, as rolls made no snapshots while another was being written,
        the missing one is made; it is there when `write_snapshot_step` is done.
        """
        new_start = self._segments.base_at(count)
        while count and len(self.states) and not self.snapshots.has(self._segments.base_at(count)):
            count -= 1
        if not count and new_start > self._segments.base_at(0) and self._making is None:
            self._making = self._make(start, new_start)
        return count

    def _make(self, start: int, end: int) -> Steps[None]:
        """Make the snapshot at `end`, the base offset of a segment, from the one before it and the
        batches since; unless that is not possible, or the segments are replaced meanwhile."""
        segments, states = self._segments_before(end), ProducerStates()
        try:
            yield from replay_in_steps(segments, self.snapshots, states, start, end)
        except CorruptLogError as damage:
            logger.error("%s; records before offset %d can't be deleted", damage.message, end)
            return
        if self._segments_before(end) != segments:
            return
        if len(states) > ENTRIES_PER_STEP:
            self.snapshots.begin(end, states)
        else:
            self._unflushed.add(self.snapshots.save(end, states))

    def _segments_before(self, end: int) -> list[Segment]:
        return [segment for segment in self._segments if segment.base_offset < end]

    def give_up_making(self) -> None:
        """Make no missing snapshot."""
        self._making = None

    def invalidate(self, offset: int) -> None:
        """The log was truncated to `offset`: the state is unknown until `rebuild`. Waits for the
        disk if there are later snapshots. OSError."""
        self.give_up_making()
        self.snapshots.abandon()
        self.snapshots.remove_above(offset)
        self._forgotten = self.states
        self.states = UnknownProducers()
        self.states.checks_txn_sequences = self._forgotten.checks_txn_sequences
        self.is_known = False
        self._truncations += 1

    def rebuild(self, start: int, end: int) -> Steps[None]:
        """After `invalidate`, rebuild the state of a log with these offsets, in steps.

        After an OSError or CorruptLogError it stays unknown.
        """
        truncations, states = self._truncations, ProducerStates()
        replay = replay_in_steps(
            self._segments, self.snapshots, states, start, end, with_recent=True
        )
        for _ in chain(self._forgotten.clear_in_steps(), replay):
            yield None
            if self.is_known or truncations != self._truncations:
                return  # rebuilt by another call, or truncated again
        states.checks_txn_sequences = (
            self.states.checks_txn_sequences
        )  # may have been set meanwhile
        self.states = states
        self.is_known = True


class UnknownProducers(ProducerStates):
    """Placeholder for a state that is not known yet."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__()
        self.transactions = _UnknownTransactions()

    def check(self, header: BatchHeader, guard: Guard | None = None) -> AppendedBatch | None:
        """Rejects all batches."""
        raise truncating_error()

    def verification(
        self, producer_id: int, sequence: int, epoch: int, now_ms: int, *, v2: bool
    ) -> Guard | None:
        """Rejects all transactions."""
        raise truncating_error()


class _UnknownTransactions(Transactions):
    """Treats everything as part of an ongoing transaction."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__()
        self.all_decided = False

    def first_unstable(self, high_watermark: int) -> int | None:
        return 0


def truncating_error() -> ApiError:
    """The error for appends during a truncation, if this broker becomes leader meanwhile."""
    return ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the log is being truncated")
