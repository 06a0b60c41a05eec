"""The log of one partition: a list of segments, with append, read, truncate, retention and flush.

It owns the offsets (log start, log end, recovery point), and updates segments, leader epochs and
producer state. High watermark, replication and isolation are up to the caller. Synchronous and not
thread-safe; only `FlushPlan.run` may run in another thread.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from kavka.log.appended import Appended, duplicate_of
from kavka.log.compaction.state import LogCompaction
from kavka.log.disk import Disk, LogLocation
from kavka.log.epochs import EpochFile
from kavka.log.flush import FlushPlan, UnflushedPaths
from kavka.log.producer_snapshots import ProducerStateManager, truncating_error
from kavka.log.producer_state import ProducerStates
from kavka.log.reader import FileRange, LogReader, file_range_of, out_of_range
from kavka.log.replay import apply_batch
from kavka.log.retention import OffsetBounds, count_deletable_segments, roll_ms
from kavka.log.segment import INDEX, RELATIVE_OFFSET_MAX, TIME_INDEX, Segment
from kavka.log.segments import LAZY_INDEX_BYTES_MAX, SegmentList, mark_deleted
from kavka.log.settings import LogSettings
from kavka.log.snapshots import Snapshots
from kavka.log.times import ANY_NUMBER
from kavka.log.txn_guards import Guard
from kavka.log.txn_index import AbortedTxn, AbortedTxns, OpenTxnIndex
from kavka.wire.control_records import Marker
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.record_batches import BatchHeader, set_offset_and_epoch
from kavka.wire.steps import Steps, run_at_once

logger = logging.getLogger(__name__)

_CHECK_ROLL: Final = -(1 << 63) - 1
"""A value of `_roll_after` that makes `append` check whether to roll."""


class PartitionLog:
    """The log of one partition. Created or loaded by `kavka.log.recovery`."""

    __slots__ = (
        "_active",
        "_active_base",
        "_created_ms",
        "_disk",
        "_epochs",
        "_flush_after",
        "_flushed_ms",
        "_last_offset_max",
        "_reader",
        "_roll_after",
        "_roll_ms",
        "_segment_bytes",
        "_segments",
        "_has_torn_tail",
        "_is_sealed",
        "_truncations",
        "_unflushed",
        "compaction",
        "directory",
        "end_offset",
        "producer_manager",
        "partition",
        "producers",
        "recovery_point",
        "settings",
        "start_offset",
        "topic",
        "topic_id",
        "transactions",
    )

    def __init__(
        self,
        location: LogLocation,
        *,
        segments: Sequence[Segment],
        epochs: EpochFile,
        producers: ProducerStates,
        snapshots: Snapshots,
        start_offset: int,
        end_offset: int,
        recovery_point: int,
    ) -> None:
        """A log with at least one segment, and its state as of `end_offset`."""
        self.directory = location.directory
        self.topic = location.topic
        self.partition = location.partition
        self.settings = location.settings
        self.topic_id: UUID | None = None
        self.start_offset = start_offset
        self.end_offset = end_offset
        self.recovery_point = recovery_point
        self._disk = location.disk
        self._segment_bytes = location.settings.segment_bytes
        self._flush_after = location.settings.flush_after
        self._segments = SegmentList(segments)
        self._reader = LogReader(self._segments)
        self._epochs = epochs
        self._unflushed = UnflushedPaths()
        self.producer_manager = ProducerStateManager(
            self._segments, snapshots, producers, self._unflushed
        )
        """Saves and rebuilds the producer state."""
        self.producers = producers
        """The producer state; read only."""
        self.transactions = producers.transactions
        """The undecided transactions; read only."""
        self.compaction = LogCompaction(
            location, self._segments, self.producer_manager, self._unflushed
        )
        self._truncations = 0
        self._created_ms = self._flushed_ms = location.now_ms
        self._has_torn_tail = False
        self._is_sealed = False
        self._activate(self._segments.active)

    def _activate(self, segment: Segment) -> None:
        if segment.size > LAZY_INDEX_BYTES_MAX:
            segment.activate()
        self._active = segment
        self._active_base = segment.base_offset
        self._last_offset_max = segment.base_offset + RELATIVE_OFFSET_MAX
        self._roll_after = _CHECK_ROLL
        self._roll_ms = roll_ms(self.settings, segment.path)
        self._reader.activate(segment)

    def configure(self, settings: LogSettings) -> None:
        """Use new settings from the next batch on."""
        self.settings = settings
        self._segment_bytes = settings.segment_bytes
        self._flush_after = settings.flush_after
        self._roll_after = _CHECK_ROLL
        self._roll_ms = roll_ms(settings, self._active.path)
        for segment in self._segments:
            segment.configure(settings)

    @property
    def size_bytes(self) -> int:
        """Bytes of all batches."""
        return sum(segment.size for segment in self._segments)

    @property
    def segment_count(self) -> int:
        """Segments, the active one included."""
        return len(self._segments)

    # --- append

    def append(
        self,
        batch: memoryview,
        header: BatchHeader,
        *,
        leader_epoch: int,
        now_ms: int,
        guard: Guard | None = None,
    ) -> Appended:
        """Append one batch, which the caller has checked (size, magic, CRC, count), as leader.

        Base offset and leader epoch are written into `batch`, which is then written to the file
        unchanged, in one write. For a duplicate the offsets of the earlier batch are returned.
        The first batch of a transaction needs a `guard` (KIP-890). Nothing is fsynced.

        ApiError: OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE,
        RECORD_LIST_TOO_LARGE, NOT_LEADER_OR_FOLLOWER during a `truncate_in_steps` and after `seal`.
        After an ApiError or OSError the log is unchanged.
        """
        producer_id = header.producer_id
        if producer_id >= 0:
            earlier = self.producers.check(header, guard)
            if earlier is not None:
                return duplicate_of(earlier)
        base = self.end_offset
        last = base + header.last_offset_delta
        size = len(batch)
        max_timestamp = header.max_timestamp
        segment = self._active
        if (
            segment.size + size > self._segment_bytes
            or max_timestamp > self._roll_after
            or last > self._last_offset_max
            or segment.full
        ):
            segment = self._make_room(size, last, max_timestamp, now_ms)
        if leader_epoch != self._epochs.latest:
            self._begin_epoch(leader_epoch, base)
        set_offset_and_epoch(batch, base, leader_epoch)
        try:
            segment.append(batch, size, last, max_timestamp)
        except OSError:
            self._has_torn_tail = True
            self._roll_after = _CHECK_ROLL
            raise
        self.end_offset = last + 1
        if producer_id >= 0:
            self.producers.update(header, last)
        return Appended(base, last, -1, False)

    def open_txn_index(self, size: int, marker: BatchHeader, now_ms: int) -> OpenTxnIndex:
        """Open the files for appending an abort marker. ApiError, OSError."""
        self._make_room(size, self.end_offset, marker.max_timestamp, now_ms)
        return self._active.txns.open()

    def note_aborted(self, aborted: AbortedTxn, opened: OpenTxnIndex | None = None) -> None:
        """Add the transaction whose abort marker was just appended to the transaction index."""
        txns = self._active.txns
        txns.append(aborted, opened)
        self._unflushed.add(txns.path)
        self._reader.last_abort = aborted.last_offset

    def _make_room(self, size: int, last: int, max_timestamp: int, now_ms: int) -> Segment:
        """The active segment, after rolling if needed for this batch."""
        self._check_appendable()
        if size > self._segment_bytes:
            raise ApiError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"a batch of {size} bytes does not fit into a segment of {self._segment_bytes}",
            )
        return self._roll_if_needed(size, last, max_timestamp, now_ms)

    def _check_appendable(self) -> None:
        if self._is_sealed:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the broker is stopping")
        if not self.producer_manager.is_known:
            raise truncating_error()

    def _roll_if_needed(self, size: int, last: int, max_timestamp: int, now_ms: int) -> Segment:
        """`_make_room` for a batch of any size."""
        segment = self._active
        segment.activate()
        self._repair()
        first = segment.first_timestamp
        waited_ms = max_timestamp - first if first >= 0 else now_ms - self._created_ms
        if segment.size and (
            segment.size + size > self._segment_bytes
            or waited_ms > self._roll_ms
            or last > self._last_offset_max
            or segment.full
        ):
            self.roll(now_ms)
            segment = self._active
        if not segment.size:
            first = max_timestamp
        self._roll_after = first + self._roll_ms if first >= 0 else _CHECK_ROLL
        return segment

    def roll(self, now_ms: int) -> None:
        """Close the active segment, to be synced by the next flush plan, and create a new one at
        the end offset. OSError: nothing has changed."""
        if self._active.size:
            self._roll_at(self.end_offset, now_ms)

    def _roll_at(self, offset: int, now_ms: int) -> None:
        """Roll to a segment at `offset`: the end offset, or above it, if there are no records in
        between; then the log ends there."""
        self._repair()
        self._active.seal()
        self.producer_manager.save_unless_saving(self.start_offset, offset)
        segment = Segment.create(self._disk, self.directory, offset, self.settings)
        self._unflushed.add(self._active.path_of(INDEX))
        self._unflushed.add(self._active.path_of(TIME_INDEX))
        self._unflushed.add_name(segment.path)
        self._segments.append(segment)
        self._created_ms = now_ms
        self.end_offset = offset
        self._activate(segment)

    # --- append as follower: see `kavka.log.follower_append`

    def room_for(self, header: BatchHeader, now_ms: int) -> Segment:
        """The active segment, after rolling if needed for this batch from another broker, which
        gets a segment of its own if it is larger than they should be. ApiError
        NOT_LEADER_OR_FOLLOWER during a `truncate_in_steps`, and after `seal`. OSError."""
        self._check_appendable()
        last = header.last_offset
        if last > self._last_offset_max:
            is_near = last - self.end_offset <= RELATIVE_OFFSET_MAX
            self._roll_at(self.end_offset if is_near else header.base_offset, now_ms)
        return self._roll_if_needed(header.size, last, header.max_timestamp, now_ms)

    def has_room(self, header: BatchHeader, position: int) -> bool:
        """After `room_for`, whether the active segment has room for this batch too, if it is filled
        up to `position` first. The indexes may be full then."""
        return (
            position + header.size <= self._segment_bytes
            and header.last_offset <= self._last_offset_max
            # with _CHECK_ROLL the clock decides when to roll, and has done so
            and (self._roll_after == _CHECK_ROLL or header.max_timestamp <= self._roll_after)
        )

    def append_written(self, header: BatchHeader, marker: Marker | None) -> None:
        """Append a batch, with its marker if it has one, that was written to the active segment as
        it is. OSError: it is not in the log."""
        if header.leader_epoch > self._epochs.latest:
            self._begin_epoch(header.leader_epoch, header.base_offset)
        if header.producer_id >= 0:
            apply_batch(self.producers, header, marker, self.note_aborted)
        segment = self._active
        segment.index_in_memory(segment.size, header)
        self.end_offset = header.last_offset + 1
        if not header.record_count:
            self._reader.activate(segment)  # a cached position would lead a consumer to it

    def note_torn_tail(self) -> None:
        """There may be bytes after the last batch, since an append has failed."""
        self._has_torn_tail = True
        self._roll_after = _CHECK_ROLL

    def _repair(self) -> None:
        if self._has_torn_tail:
            self._active.repair()
            self._unflushed.add(self._active.path)
            self._has_torn_tail = False

    # --- read

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        upto: int,
        at_least_one: bool,
        skip_empty: bool = True,
    ) -> FileRange | None:
        """Find the batches from the one with `offset` up to the offset `upto`: at most
        `max_bytes`, which may cut off the last batch, from a single segment. With `at_least_one`
        the first batch is whole even if it is larger. Batches left empty by compaction are
        skipped if others follow, unless it is a follower that reads: its producer state needs
        them. None: nothing to read.
        ApiError: OFFSET_OUT_OF_RANGE below the start or above the end of the log.
        """
        if offset >= upto or offset < self.start_offset:
            if not self.start_offset <= offset <= self.end_offset:
                name = f"{self.topic}-{self.partition}"
                raise out_of_range(offset, name, self.start_offset, self.end_offset)
            return None
        to_end = upto == self.end_offset
        return self._reader.read(offset, max_bytes, upto, to_end, at_least_one, skip_empty)

    def batch_for_timestamp(
        self, timestamp_ms: int, from_offset: int | None = None, headers_max: int = ANY_NUMBER
    ) -> FileRange | None:
        """The first batch with a record at `timestamp_ms` or later; None if there is none.

        Skips batches that end before `from_offset` (default: the log start offset). The record
        may be below that offset; then the caller searches again after the batch.
        SearchPaused: so many headers were read, and the caller searches on where it says.
        """
        start = self.start_offset if from_offset is None else from_offset
        return file_range_of(self._segments.locate_timestamp(timestamp_ms, start, headers_max))

    def batch_of_max_timestamp(self) -> FileRange | None:
        """The first batch with the greatest timestamp of the log; None if there is none."""
        return file_range_of(self._segments.locate_max_timestamp())

    def offsets_before(self, time_ms: int, now_ms: int, limit: int) -> list[int]:
        """Up to `limit` offsets, newest first: the end offset, if `time_ms` is not in the past,
        and base offsets of segments last modified then or before. For ListOffsets v0."""
        end = [self.end_offset] if self._active.size and now_ms <= time_ms else []
        bases = self._segments.bases_before(None if end else time_ms, limit)
        return [*end, *(max(base, self.start_offset) for base in bases)][:limit]

    # --- epochs and producers

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        """Leader epoch `epoch` starts at `start_offset`; saved with its first record."""
        self._epochs.announce(epoch, start_offset)

    def _begin_epoch(self, epoch: int, start_offset: int) -> None:
        if self._epochs.assign(epoch, start_offset):
            self.mark_unflushed(self._epochs.path)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """The greatest known epoch up to `epoch` and its end offset; (-1, -1) unknown (KIP-320)."""
        return self._epochs.epochs.end_offset(epoch, self.end_offset)

    def epoch_of(self, offset: int) -> int:
        """The leader epoch of the record at `offset`; -1 unknown."""
        return self._epochs.epochs.epoch_of(offset)

    def last_stable_offset(self, high_watermark: int) -> int:
        """The last stable offset: below it all transactions have their markers, which are below
        the high watermark."""
        first = self.transactions.first_unstable(high_watermark)
        if first is None or first >= high_watermark:
            return high_watermark
        return max(first, self.start_offset)

    def aborted_transactions(self, offset: int, found: FileRange) -> AbortedTxns:
        """The aborted transactions in the result `found` of a `read` from `offset`."""
        return self._reader.aborted(offset, found, self.end_offset)

    # --- truncate and delete

    def truncate_in_steps(self, offset: int) -> Steps[None]:
        """Truncate the log to `offset`. The first step does so, with fsync if there are records to
        drop. The others rebuild the producer state; until the last one nothing can be appended.

        The recovery point is reduced too, and has to be checkpointed before the next append
        (`LogManager.truncate_in_steps` does so): otherwise new records would count as flushed.
        """
        if offset < self.end_offset:
            self._truncate(offset, self._segments.truncate(offset), offset)
        else:
            self._truncate_epochs(self.end_offset)
        yield from self._rebuild_producers()

    def truncate_fully_and_start_at(self, offset: int) -> Steps[None]:
        """Remove all records, and start at `offset`, where the log of the leader does; in steps as
        `truncate_in_steps`, and with checkpoints (`LogManager.truncate_fully_and_start_at`)."""
        self._truncate_epochs(0)  # first: after a crash the last one would begin at the new start
        self._truncate(offset, self._segments.remove(0), -1)
        self.start_offset = offset
        yield from self._rebuild_producers()

    def _rebuild_producers(self) -> Steps[None]:
        if not self.producer_manager.is_known:
            self._refresh_producers()
            yield from self.producer_manager.rebuild(self.start_offset, self.end_offset)
            self.compaction.serial += 1  # compactions begun meanwhile had no producer state
            self._refresh_producers()

    def _refresh_producers(self) -> None:
        self.producers = self.producer_manager.states
        self.transactions = self.producers.transactions

    def _truncate(self, offset: int, removed: Sequence[Segment], snapshots_upto: int) -> None:
        """End at `offset`, without the segments `removed` and snapshots after `snapshots_upto`."""
        self._truncations += 1
        self.compaction.truncated(offset)
        if removed:
            self._mark_for_deletion(removed[::-1])
            # a power failure must not bring them back behind the new end
            self._disk.fs.sync_dir(self.directory)
        if not len(self._segments):
            self._segments.append(Segment.create(self._disk, self.directory, offset, self.settings))
        else:
            self._segments.active.truncate(offset)
        self._activate(self._segments.active)
        self._unflushed.add(self._active.path)
        self._unflushed.add(self._active.txns.path)
        self.end_offset = offset
        self.start_offset = min(self.start_offset, offset)
        self.recovery_point = min(self.recovery_point, offset)
        self._truncate_epochs(offset)
        self.producer_manager.invalidate(snapshots_upto)

    def _truncate_epochs(self, end: int) -> None:
        if self._epochs.truncate_end(end):
            self.mark_unflushed(self._epochs.path)

    def _mark_for_deletion(self, segments: Sequence[Segment]) -> None:
        """Mark the files of removed segments for deletion."""
        renamed = mark_deleted(self._disk, segments)
        renamed += self.producer_manager.snapshots.mark_deleted(
            segment.base_offset for segment in segments
        )
        self._disk.deferred_deletes.add(renamed, self.settings.file_delete_delay_ms)

    def advance_start(self, offset: int) -> bool:
        """Advance the log start offset to `offset`, at most the high watermark; whether it changed.

        Segments below it are deleted by `delete_old`.
        """
        if offset <= self.start_offset:
            return False
        self.start_offset = offset
        self._epochs.truncate_start(offset)
        return True

    def delete_old(self, now_ms: int, high_watermark: int) -> int:
        """Delete the oldest segments by retention (see `kavka.log.retention`); how many.

        At most `SEGMENTS_AT_ONCE_MAX`: then there may be more. After an OSError the log can't be
        used any more.
        """
        if not self.producer_manager.is_known or self._is_sealed:
            return 0
        bounds = OffsetBounds(self.start_offset, self.end_offset, high_watermark)
        count = count_deletable_segments(self._segments, self.settings, bounds, now_ms)
        if count == len(self._segments):
            self.roll(now_ms)
        count = self.producer_manager.count_deletable(count, self.start_offset)
        self.advance_start(self._segments.base_at(count))
        self._mark_for_deletion(self._segments.remove_oldest(count))
        return count

    # --- flush and close

    def mark_unflushed(self, path: str) -> None:
        """Have the next flush plan fsync the small file at `path`, and its name."""
        self._unflushed.add(path)

    def mark_name_unflushed(self, path: str) -> None:
        """Have the next flush plan fsync the parent directory of `path`."""
        self._unflushed.add_name(path)

    @property
    def flush_wanted(self) -> bool:
        """Whether a closed segment, or enough records of the active one, have to be flushed."""
        return (
            self.recovery_point < self._active_base
            or self.end_offset - self.recovery_point >= self._flush_after
        )

    def flush_needed(self, now_ms: int) -> bool:
        """`flush_wanted`, or flush.ms have passed since the last flush."""
        return self.flush_wanted or self._waited_for_flush(now_ms)

    def _waited_for_flush(self, now_ms: int) -> bool:
        return (
            self.end_offset > self.recovery_point
            and now_ms - self._flushed_ms >= self.settings.flush_ms
        )

    def flush_plan(
        self, now_ms: int | None = None, *, everything: bool = False
    ) -> FlushPlan | None:
        """A plan for what has to be flushed, if anything: the closed segments, and the active one
        if `flush.messages` or `kavka.durability` requires it, or if `flush.ms` have passed at
        `now_ms` (None: that is not checked). `everything`: the active one in any case, with its
        indexes. One plan at a time; `run` it in a thread and pass it to `flushed`. If it fails it
        is unknown what is on the disk: the log can't be used any more."""
        if self._is_sealed:
            return None
        with_active = (
            everything
            or self.end_offset - self.recovery_point >= self._flush_after
            or (now_ms is not None and self._waited_for_flush(now_ms))
        )
        offset = self.end_offset if with_active else self._active_base
        if offset <= self.recovery_point and not (with_active and self._unflushed):
            return None
        self._repair()
        return self._unflushed.make_plan(
            self._disk.fs,
            self._segments.since(self.recovery_point)[:-1],
            self._active if with_active else None,
            sealed=everything,
            offset=offset,
            truncations=self._truncations,
            made_ms=self._flushed_ms if now_ms is None else now_ms,
        )

    def flushed(self, plan: FlushPlan) -> None:
        """`plan` has been run: advance the recovery point."""
        if plan.truncations == self._truncations:
            self.recovery_point = max(self.recovery_point, plan.offset)
            self._flushed_ms = plan.made_ms

    def before_seal(self) -> Steps[None]:
        """The part of `seal` that may take long, in steps. OSError, StorageError."""
        self.producer_manager.give_up_making()
        if not self.producer_manager.is_known:
            yield from self.truncate_in_steps(self.end_offset)
        if len(self.producers) or self.producer_manager.snapshots.newest >= 0:
            self.producer_manager.save(self.start_offset, self.end_offset)
        while self.producer_manager.write_snapshot_step():
            yield None

    def seal(self) -> FlushPlan | None:
        """Complete the indexes and save the producer state before closing; the flush plan, to be
        run before `release`. Afterwards nothing can be appended: a request that is under way when
        the broker stops may not write into files that are marked as cleanly closed, and that may
        already be another process's. OSError, StorageError."""
        self._repair()
        if self._active.is_opened:
            self._active.seal()
            self._unflushed.add_name(self._active.path)  # so that there is a plan, for its indexes
        run_at_once(self.before_seal())
        plan = self.flush_plan(everything=True)
        self._is_sealed = True
        self._roll_after = _CHECK_ROLL
        return plan

    def move_to(self, disk: Disk) -> None:
        """Use the limits of `disk` from now on, on the same file system."""
        for segment in self._segments:
            segment.move_to(disk)
        self._disk = self.compaction.disk = disk

    def release(self) -> None:
        """Close the files without flushing."""
        for segment in self._segments:
            segment.release()
