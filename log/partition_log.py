"""The log of one partition: segments in a row, appended to at the end and read from anywhere.

It owns the offsets (start, end, recovery point), and drives segments, leader epochs and producer
state. High watermark, replicas and who may read what are the caller's. Synchronous, for one
thread; the only thing meant for another thread is `FlushPlan.run`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from kavka.log.compaction.state import LogCompaction
from kavka.log.disk import Disk
from kavka.log.disk import LogPlace as LogPlace
from kavka.log.epochs import EpochFile
from kavka.log.flush import FlushPlan, Unsynced
from kavka.log.producer_entry import AppendedBatch
from kavka.log.producer_snapshots import ProducerHistory, unknown
from kavka.log.producer_state import ProducerStates
from kavka.log.reader import LogReader, out_of_range, slice_of
from kavka.log.reader import Slice as Slice
from kavka.log.retention import Bounds, count_old, roll_ms
from kavka.log.segment import INDEX, RELATIVE_OFFSET_MAX, TIME_INDEX, Segment
from kavka.log.segments import UNREAD_BYTES_MAX, SegmentList, mark_deleted
from kavka.log.settings import LogSettings
from kavka.log.snapshots import Snapshots
from kavka.log.txn_guards import Guard
from kavka.log.txn_index import Aborted, AbortedTxn, OpenTxnIndex
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.records import BatchHeader, set_offset_and_epoch

logger = logging.getLogger(__name__)

_LOOK: Final = -(1 << 63) - 1
"""A time after which to roll that makes `append` look more closely."""


class Appended(NamedTuple):
    """Where a batch is in the log. `log_append_time_ms` is -1 for the producer's own times."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    duplicate: bool


def duplicate_of(earlier: AppendedBatch) -> Appended:
    """The answer to a copy of a batch that is in the log."""
    # Apache Kafka answers a duplicate with the batch's timestamp in place of the append time
    return Appended(earlier.base_offset, earlier.last_offset, earlier.timestamp, True)


class PartitionLog:
    """One partition on disk. `kavka.log.recovery` makes it from what is there."""

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
        "_torn",
        "_truncations",
        "_unsynced",
        "compaction",
        "directory",
        "end_offset",
        "history",
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
        place: LogPlace,
        *,
        segments: Sequence[Segment],
        epochs: EpochFile,
        producers: ProducerStates,
        snapshots: Snapshots,
        start_offset: int,
        end_offset: int,
        recovery_point: int,
    ) -> None:
        """A log with at least one segment and all state as of `end_offset`."""
        self.directory = place.directory
        self.topic = place.topic
        self.partition = place.partition
        self.settings = place.settings
        self.topic_id: UUID | None = None
        self.start_offset = start_offset
        self.end_offset = end_offset
        self.recovery_point = recovery_point
        self._disk = place.disk
        self._segment_bytes = place.settings.segment_bytes
        self._flush_after = place.settings.flush_after
        self._segments = SegmentList(segments)
        self._reader = LogReader(self._segments)
        self._epochs = epochs
        self._unsynced = Unsynced()
        self.history = ProducerHistory(self._segments, snapshots, producers, self._unsynced)
        """For who saves what is known of very many."""
        self.producers = producers
        """What is known of them; to be looked at."""
        self.transactions = producers.transactions
        """Those that are not decided; to be looked at."""
        self.compaction = LogCompaction(place, self._segments, self.history, self._unsynced)
        self._truncations = 0
        self._created_ms = self._flushed_ms = place.now_ms
        self._torn = False
        self._activate(self._segments.active)

    def _activate(self, segment: Segment) -> None:
        if segment.size > UNREAD_BYTES_MAX:
            segment.activate()
        self._active = segment
        self._active_base = segment.base_offset
        self._last_offset_max = segment.base_offset + RELATIVE_OFFSET_MAX
        self._roll_after = _LOOK
        self._roll_ms = roll_ms(self.settings, segment.path)
        self._reader.activate(segment)

    def configure(self, settings: LogSettings) -> None:
        """Take over other settings; they count from the next batch on."""
        self.settings = settings
        self._segment_bytes = settings.segment_bytes
        self._flush_after = settings.flush_after
        self._roll_after = _LOOK
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

        Base offset and leader epoch are written into `batch`, which then goes to the file as it
        is, in one write. A copy of a batch that is here already is answered with its offsets.
        The first one of a transaction needs a `guard` (KIP-890). Nothing is fsynced.

        ApiError: OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE,
        RECORD_LIST_TOO_LARGE, NOT_LEADER_OR_FOLLOWER during a `truncation`.
        After it, and after an OSError, the log is as it was.
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
            self._torn = True
            self._roll_after = _LOOK
            raise
        self.end_offset = last + 1
        if producer_id >= 0:
            self.producers.update(header, last)
        return Appended(base, last, -1, False)

    def open_txn_index(self, size: int, marker: BatchHeader, now_ms: int) -> OpenTxnIndex:
        """Open what it takes to append a marker and to note that it aborts. ApiError, OSError."""
        self._make_room(size, self.end_offset, marker.max_timestamp, now_ms)
        return self._active.txns.open()

    def note_aborted(self, aborted: AbortedTxn, opened: OpenTxnIndex) -> None:
        """Put the transaction whose marker was appended last into the transaction index."""
        txns = self._active.txns
        txns.append(aborted, opened)
        self._unsynced.add(txns.path)
        self._reader.last_abort = aborted.last_offset

    def _make_room(self, size: int, last: int, max_timestamp: int, now_ms: int) -> Segment:
        """The active segment, rolled if it has to be for a batch like this."""
        if not self.history.is_known:
            raise unknown()
        if size > self._segment_bytes:
            raise ApiError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"a batch of {size} bytes does not fit into a segment of {self._segment_bytes}",
            )
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
        self._roll_after = first + self._roll_ms if first >= 0 else _LOOK
        return segment

    def roll(self, now_ms: int) -> None:
        """Close the active segment, which the next flush plan is to sync, and begin a new one at
        the end offset. OSError: nothing has changed."""
        if not self._active.size:
            return
        self._repair()
        end = self.end_offset
        self._active.seal()
        self.history.save_soon(self.start_offset, end)
        segment = Segment.create(self._disk, self.directory, end, self.settings)
        self._unsynced.add(self._active.path_of(INDEX))
        self._unsynced.add(self._active.path_of(TIME_INDEX))
        self._unsynced.add_name(segment.path)
        self._segments.append(segment)
        self._created_ms = now_ms
        self._activate(segment)

    def _repair(self) -> None:
        if self._torn:
            self._active.repair()
            self._unsynced.add(self._active.path)
            self._torn = False

    # --- read

    def read(self, offset: int, max_bytes: int, *, upto: int, at_least_one: bool) -> Slice | None:
        """Where the batches from the one with `offset` on are, up to the offset `upto`. At most
        `max_bytes`, which may cut the last batch, and from one segment; with `at_least_one` the
        first batch is whole even if it is larger. Batches that compaction has left without
        records are passed over, as far as others follow. None: nothing to read.
        ApiError: OFFSET_OUT_OF_RANGE below the start or above the end of the log.
        """
        if offset >= upto or offset < self.start_offset:
            if not self.start_offset <= offset <= self.end_offset:
                name = f"{self.topic}-{self.partition}"
                raise out_of_range(offset, name, self.start_offset, self.end_offset)
            return None
        return self._reader.read(offset, max_bytes, upto, upto == self.end_offset, at_least_one)

    def batch_for_timestamp(
        self, timestamp_ms: int, from_offset: int | None = None
    ) -> Slice | None:
        """The first batch with a record at `timestamp_ms` or later, whole; None: there is none.

        Batches that end before `from_offset` (the log's start) are passed over: whoever finds
        no such record at or above that offset in the batch goes on behind it.
        """
        start = self.start_offset if from_offset is None else from_offset
        return slice_of(self._segments.locate_timestamp(timestamp_ms, start))

    def batch_of_max_timestamp(self) -> Slice | None:
        """The first batch that holds the log's greatest timestamp, whole; None: there is none."""
        return slice_of(self._segments.locate_max_timestamp())

    def offsets_before(self, time_ms: int, now_ms: int, limit: int) -> list[int]:
        """Up to `limit` offsets, newest first: the end, if it is not later than `time_ms`, and
        where segments begin that were last written then or before. For ListOffsets v0."""
        end = [self.end_offset] if self._active.size and now_ms <= time_ms else []
        bases = self._segments.bases_before(None if end else time_ms, limit)
        return [*end, *(max(base, self.start_offset) for base in bases)][:limit]

    # --- epochs and producers

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        """Note that leader epoch `epoch` begins at `start_offset`; saved with its first record."""
        self._epochs.announce(epoch, start_offset)

    def _begin_epoch(self, epoch: int, start_offset: int) -> None:
        if self._epochs.assign(epoch, start_offset):
            self.unsynced(self._epochs.path)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """The greatest known epoch up to `epoch` and its end offset; (-1, -1) unknown (KIP-320)."""
        return self._epochs.epochs.end_offset(epoch, self.end_offset)

    def epoch_of(self, offset: int) -> int:
        """The leader epoch of the record at `offset`; -1 unknown."""
        return self._epochs.epochs.epoch_of(offset)

    def last_stable_offset(self, high_watermark: int) -> int:
        """Below it every transaction is decided: its marker is below the high watermark."""
        first = self.transactions.first_unstable(high_watermark)
        if first is None or first >= high_watermark:
            return high_watermark
        return max(first, self.start_offset)

    def aborted_transactions(self, offset: int, found: Slice) -> Aborted:
        """The aborted transactions whose records are in what a `read` from `offset` on found."""
        return self._reader.aborted(offset, found, self.end_offset)

    # --- cut

    def truncation(self, offset: int) -> Iterator[None]:
        """Drop the records at `offset` and above; the end offset becomes `offset`. The first step
        does it, and waits for the disk when there are any. The others find out what is known of
        the producers that are left; before the end nothing can be appended.

        The recovery point goes back too and has to reach its checkpoint before the next append
        (`LogManager.truncation` sees to it), else new records would pass for flushed ones.
        """
        if offset < self.end_offset:
            self._cut(offset)
        else:
            self._truncate_epochs(self.end_offset)
        if not self.history.is_known:
            self._look_at_producers()
            yield from self.history.rebuild(self.start_offset, self.end_offset)
            self.compaction.serial += 1  # what was begun meanwhile knew no producer
            self._look_at_producers()

    def _look_at_producers(self) -> None:
        self.producers = self.history.states
        self.transactions = self.producers.transactions

    def _cut(self, offset: int) -> None:
        self._truncations += 1
        self.compaction.truncated(offset)
        removed = self._segments.cut(offset)
        if removed:
            self._bury(removed[::-1])
            # a power cut may not bring them back behind an end that lies before them
            self._disk.fs.sync_dir(self.directory)
        if not len(self._segments):
            self._segments.append(Segment.create(self._disk, self.directory, offset, self.settings))
        else:
            self._segments.active.truncate(offset)
        self._activate(self._segments.active)
        self._unsynced.add(self._active.path)
        self._unsynced.add(self._active.txns.path)
        self.end_offset = offset
        self.start_offset = min(self.start_offset, offset)
        self.recovery_point = min(self.recovery_point, offset)
        self._truncate_epochs(offset)
        self.history.forget(offset)

    def _truncate_epochs(self, end: int) -> None:
        if self._epochs.truncate_end(end):
            self.unsynced(self._epochs.path)

    def _bury(self, segments: Sequence[Segment]) -> None:
        """Have the files of segments that are out of the row removed after a while."""
        buried = mark_deleted(self._disk, segments)
        buried += self.history.snapshots.mark_deleted(segment.base_offset for segment in segments)
        self._disk.garbage.add(buried, self.settings.file_delete_delay_ms)

    def advance_start(self, offset: int) -> bool:
        """Have the log begin at `offset`, at most the high watermark; whether that is news.

        What lies before is read no more; its segments go with `delete_old`.
        """
        if offset <= self.start_offset:
            return False
        self.start_offset = offset
        self._epochs.truncate_start(offset)
        return True

    def delete_old(self, now_ms: int, high_watermark: int) -> int:
        """Drop the oldest segments if they are to go (see `kavka.log.retention`); how many.

        At most `SEGMENTS_AT_ONCE_MAX`: then there may be more. After an OSError the log is not
        to be used any more.
        """
        if not self.history.is_known:
            return 0
        bounds = Bounds(self.start_offset, self.end_offset, high_watermark)
        count = count_old(self._segments, self.settings, bounds, now_ms)
        if count == len(self._segments):
            self.roll(now_ms)
        count = self.history.count_told(count)
        self.advance_start(self._segments.base_at(count))
        self._bury(self._segments.remove_oldest(count))
        return count

    # --- flush and close

    def unsynced(self, path: str) -> None:
        """Have the next flush plan fsync the small file at `path`, and its name."""
        self._unsynced.add(path)

    def unsynced_name(self, path: str) -> None:
        """Have the next flush plan fsync the directory that names the file or directory."""
        self._unsynced.add_name(path)

    @property
    def flush_wanted(self) -> bool:
        """Whether a closed segment is to be fsynced, or as many records as may wait for it."""
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
        """What is due for fsync, if anything: closed segments and, when flush.messages,
        kavka.durability or (given the time) flush.ms say so, the active one's records; or simply
        everything. One plan at a time; `run` it in a thread and hand it to `flushed`. If it fails,
        nobody knows what is on the disk: the log is not to be used any more."""
        with_active = (
            everything
            or self.end_offset - self.recovery_point >= self._flush_after
            or (now_ms is not None and self._waited_for_flush(now_ms))
        )
        offset = self.end_offset if with_active else self._active_base
        if offset <= self.recovery_point and not (with_active and self._unsynced):
            return None
        self._repair()
        return self._unsynced.take(
            self._disk.fs,
            self._segments.since(self.recovery_point)[:-1],
            self._active if with_active else None,
            sealed=everything,
            offset=offset,
            truncations=self._truncations,
            made_ms=self._flushed_ms if now_ms is None else now_ms,
        )

    def flushed(self, plan: FlushPlan) -> None:
        """Take note that `plan` has been run."""
        if plan.truncations == self._truncations:
            self.recovery_point = max(self.recovery_point, plan.offset)
            self._flushed_ms = plan.made_ms

    def before_seal(self) -> Iterator[None]:
        """What of `seal` may take long, in steps. OSError, StorageError."""
        if not self.history.is_known:
            yield from self.truncation(self.end_offset)
        if len(self.producers) or self.history.snapshots.newest >= 0:
            self.history.save(self.start_offset, self.end_offset)
        while self.history.write_on():
            yield

    def seal(self) -> FlushPlan | None:
        """Complete indexes and producer state, for good; what is to be flushed, then `release`.
        OSError, StorageError."""
        self._repair()
        if self._active.is_opened:
            self._active.seal()
            self._unsynced.add_name(self._active.path)  # a plan for its indexes, come what may
        for _ in self.before_seal():
            pass
        return self.flush_plan(everything=True)

    def move_to(self, disk: Disk) -> None:
        """Count for the limits of `disk` from now on, on the same file system."""
        for segment in self._segments:
            segment.move_to(disk)
        self._disk = self.compaction.disk = disk

    def release(self) -> None:
        """Close the files as they are; the log is going to be removed, or its disk has failed."""
        for segment in self._segments:
            segment.release()
