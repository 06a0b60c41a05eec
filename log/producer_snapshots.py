"""What a log knows of its producers, and what of that is on disk: snapshots, and the batches since.

Where producers are many, a snapshot is written in steps, and so is all that is known made anew
after the log was cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from kavka.log.flush import Unsynced
from kavka.log.producer_entry import AppendedBatch
from kavka.log.producer_state import ENTRIES_PER_STEP, ProducerStates
from kavka.log.replay import replay_in_steps
from kavka.log.segments import SegmentList
from kavka.log.snapshots import Snapshots
from kavka.log.transactions import Transactions
from kavka.log.txn_guards import Guard
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.records import BatchHeader


class ProducerHistory:
    """The producers of one log, whose `segments` it shares."""

    __slots__ = (
        "_truncations",
        "_forgotten",
        "_segments",
        "_unsynced",
        "is_known",
        "snapshots",
        "states",
    )

    def __init__(
        self,
        segments: SegmentList,
        snapshots: Snapshots,
        states: ProducerStates,
        unsynced: Unsynced,
    ) -> None:
        self._segments = segments
        self._unsynced = unsynced
        self.snapshots = snapshots
        self.states = states
        self._forgotten = ProducerStates()
        self._truncations = 0
        self.is_known = True
        """False while `rebuild` is not at its end: nothing may be appended, and no segment go."""

    def save(self, start: int, end: int) -> None:
        """Save the state of a log with these offsets, unless it is on disk or not known; where
        producers are many, `write_snapshot_step` does it. OSError."""
        # a log that was emptied still knows its producers
        is_of_use = len(self.states) or end > start
        if end <= self.snapshots.newest or not is_of_use or not self.is_known:
            return
        if len(self.states) > ENTRIES_PER_STEP:
            self.snapshots.begin(end, self.states)
        else:
            self._unsynced.add(self.snapshots.save(end, self.states))

    def save_unless_saving(self, start: int, end: int) -> None:
        """The same, unless an earlier state is being saved: without this one a start after a
        crash has more to read, and that is all. OSError."""
        if not self.snapshots.is_writing:
            self.save(start, end)

    @property
    def is_saving(self) -> bool:
        """Whether `write_snapshot_step` has something to do: the next flush sees to it."""
        return self.snapshots.is_writing

    def write_snapshot_step(self) -> bool:
        """Write another piece of the snapshot that was begun; False: there is no more. OSError."""
        path = self.snapshots.write_step()
        if path is not None:
            self._unsynced.add(path)
        return self.snapshots.is_writing

    def count_deletable(self, count: int) -> int:
        """How many of the `count` oldest segments may go: what they tell of producers is saved
        for where the log begins then. Else whoever is killed would know too little of those that
        go on, and refuse them. After another roll there is a snapshot, whatever was skipped."""
        while count and len(self.states) and not self.snapshots.has(self._segments.base_at(count)):
            count -= 1
        return count

    def invalidate(self, offset: int) -> None:
        """The log ends at `offset` now; what is known counts no more. Waits for the disk if there
        are snapshots of a later state. OSError."""
        self.snapshots.abandon()
        self.snapshots.remove_above(offset)
        self._forgotten = self.states
        self.states = UnknownProducers()
        self.states.checks_txn_sequences = self._forgotten.checks_txn_sequences
        self.is_known = False
        self._truncations += 1

    def rebuild(self, start: int, end: int) -> Iterator[None]:
        """After `invalidate`, find out what is known of a log with these offsets, in steps.

        OSError, CorruptLogError: and it stays unknown.
        """
        truncations, states = self._truncations, ProducerStates()
        replay = replay_in_steps(self._segments, self.snapshots, states, start, end)
        for _ in chain(self._forgotten.clear_in_steps(), replay):
            yield
            if self.is_known or truncations != self._truncations:
                return  # somebody else has found out, or has to find out something else
        states.checks_txn_sequences = (
            self.states.checks_txn_sequences
        )  # which may have been set meanwhile
        self.states = states
        self.is_known = True


class UnknownProducers(ProducerStates):
    """What stands in the place of a state that is not known yet."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__()
        self.transactions = _UnknownTransactions()

    def check(self, header: BatchHeader, guard: Guard | None = None) -> AppendedBatch | None:
        """It can't be told whether a batch may be appended."""
        raise truncating_error()

    def verification(
        self, producer_id: int, sequence: int, epoch: int, now_ms: int, *, v2: bool
    ) -> Guard | None:
        """Nor what has to be confirmed before."""
        raise truncating_error()


class _UnknownTransactions(Transactions):
    """Anything may belong to a transaction that goes on."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__()
        self.settled = False

    def first_unstable(self, high_watermark: int) -> int | None:
        return 0


def truncating_error() -> ApiError:
    """Why nothing is appended: who was told to lead before its log was cut to its end."""
    return ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the log is being cut")
