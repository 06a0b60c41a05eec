"""From the files in a partition's directory to its log: after a clean stop, or after a crash.

After a crash everything from the recovery point on is read: each batch with its CRC, up to the
first that is not whole, where the log is cut. Indexes, producer state and leader epochs follow
from the headers and are made anew. Memory is bounded whatever the size of the log.

What Apache Kafka and interrupted work leave behind (`.deleted`, `.cleaned`, `.swap`, `.tmp`) is
settled first.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

from kavka.log.checkpoint import decode_epochs
from kavka.log.epochs import FILE as EPOCH_FILE
from kavka.log.epochs import EpochFile, LeaderEpochs
from kavka.log.errors import CorruptFileError, CorruptLogError
from kavka.log.interrupted_work import base_of, clean_up_interrupted
from kavka.log.partition_log import LogLocation, PartitionLog
from kavka.log.producer_state import ProducerStates
from kavka.log.replay import rebuild_txn_index, replay_batch, replay_producers, txn_index_damage
from kavka.log.scan import BatchScanner, headers
from kavka.log.segment import (
    FILES,
    INDEX,
    LOG,
    RELATIVE_OFFSET_MAX,
    TIME_INDEX,
    TXN_INDEX,
    Segment,
    file_name,
)
from kavka.log.settings import COMPACT, FSYNC
from kavka.log.snapshots import SUFFIX as SNAPSHOT
from kavka.log.snapshots import Snapshots
from kavka.wire.records import BatchHeader

logger = logging.getLogger(__name__)

_INDEXES: Final = (INDEX, TIME_INDEX, TXN_INDEX)


class Checkpointed(NamedTuple):
    """What was known of a log when the broker stopped."""

    clean: bool
    """Whether it stopped in order: nothing has to be recovered."""

    recovery_point: int
    start_offset: int
    compacted_upto: int = 0
    is_point_known: bool = True
    """False: the recovery point was damaged. Where it says 0 it may have been anything."""


def create_log(location: LogLocation) -> PartitionLog:
    """A new, empty log in an existing, empty directory. Nothing is fsynced."""
    return PartitionLog(
        location,
        segments=[Segment.create(location.disk, location.directory, 0, location.settings)],
        epochs=EpochFile(location.disk.fs, location.directory, LeaderEpochs()),
        producers=ProducerStates(),
        snapshots=Snapshots(location.disk.fs, location.directory, ()),
        start_offset=0,
        end_offset=0,
        recovery_point=0,
    )


class LogLoader:
    """One load, in two steps; its fields are what has been found out so far.

    Both raise ApiError or StorageError, naming the file, when a part that should be good is not.
    """

    def __init__(
        self, location: LogLocation, checkpointed: Checkpointed, scanner: BatchScanner
    ) -> None:
        self._location = location
        self._checkpointed = checkpointed
        self._scanner = scanner
        self._fs = location.disk.fs
        names = clean_up_interrupted(self._fs, location.directory)
        self._segments = self._find_segments(names)
        self._snapshots = self._find_snapshots(names)
        self._touched_from = 0
        self._checked_from = 0  # the first segment that `_recover` has read
        self._producers = ProducerStates()
        self._saved_epochs = self._read_epochs(names)
        self._epochs = LeaderEpochs(self._saved_epochs)

    @property
    def bytes_to_check(self) -> int:
        """How much `load` is going to read of what was not flushed for certain."""
        if self._checkpointed.clean:
            return 0
        return sum(segment.size for segment in self._segments[self._first_to_check() :])

    def load(self) -> PartitionLog:
        """The log, recovered if it has to be."""
        clean = self._checkpointed.clean
        end = self._end_of_clean() if clean else None
        if end is None:
            clean = False
            end = self._recover()
            if end < self._checkpointed.recovery_point and self._checked_from:
                # it is wrong, so that nobody knows what was flushed: all is checked
                return self._check_all()
        start, end = self._resolve_bounds(end)
        if clean:
            self._check_txn_indexes(self._segments, end)
            self._rebuild_epochs(self._segments)
            if self._snapshots.newest >= 0:
                replay_producers(self._segments, self._snapshots, self._producers, start, end)
        self._epochs.truncate_end(end)
        self._epochs.truncate_start(start)
        epochs = EpochFile(self._fs, self._location.directory, self._epochs)
        log = PartitionLog(
            self._location,
            segments=self._segments,
            epochs=epochs,
            producers=self._producers,
            snapshots=self._snapshots,
            start_offset=start,
            end_offset=end,
            recovery_point=end if clean else min(self._checkpointed.recovery_point, end),
        )
        if self._epochs.entries() != self._saved_epochs:
            epochs.save(self._epochs)
            log.unsynced(epochs.path)
        if not clean:
            self._mark_all_unsynced(log)
        return log

    def _check_all(self) -> PartitionLog:
        logger.warning(
            "%s ends before its recovery point %d: it is checked from the beginning",
            self._location.directory,
            self._checkpointed.recovery_point,
        )
        for segment in self._segments:
            segment.release()
        unknown = self._checkpointed._replace(clean=False, recovery_point=0, is_point_known=False)
        return LogLoader(self._location, unknown, self._scanner).load()

    def _mark_all_unsynced(self, log: PartitionLog) -> None:
        """What the process before wrote may not be on the disk, be it the directory's name."""
        log.unsynced_name(log.directory)
        for name in self._fs.list_dir(log.directory):
            if name.endswith((LOG, *_INDEXES)) and base_of(name) < self._touched_from:
                continue
            log.unsynced(f"{log.directory}/{name}")

    # --- what is there

    def _find_segments(self, names: Sequence[str]) -> list[Segment]:
        location = self._location
        bases = [base_of(name) for name in names if name.endswith(LOG) and base_of(name) >= 0]
        known = frozenset(bases)
        for name in names:
            if name.endswith(_INDEXES) and base_of(name) not in known:
                logger.warning(
                    "removing %s/%s: an index without its segment", location.directory, name
                )
                self._fs.remove(f"{location.directory}/{name}")
        sizes = [self._fs.size(f"{location.directory}/{file_name(base, LOG)}") for base in bases]
        segments = [
            Segment(location.disk, location.directory, base, size, location.settings)
            for base, size in zip(bases, sizes, strict=True)
        ]
        with_txns = frozenset(base_of(name) for name in names if name.endswith(TXN_INDEX))
        for segment in segments if with_txns else ():
            if segment.base_offset in with_txns:
                segment.txns.find()
        return segments

    def _find_snapshots(self, names: Sequence[str]) -> Snapshots:
        offsets = [base_of(name) for name in names if name.endswith(SNAPSHOT)]
        snapshots = Snapshots(
            self._fs, self._location.directory, [one for one in offsets if one >= 0]
        )
        if self._segments:
            # what came back with a power cut from before the log's beginning tells of an earlier
            # state, and the batches that led on from it are gone
            snapshots.remove_below(self._segments[0].base_offset)
        return snapshots

    def _read_epochs(self, names: Sequence[str]) -> list[tuple[int, int]]:
        if EPOCH_FILE not in names:
            return []
        path = f"{self._location.directory}/{EPOCH_FILE}"
        try:
            return decode_epochs(self._fs.read_bytes(path), path)
        except CorruptFileError as error:
            logger.warning("%s; rebuilding it from the log", error)
            return []

    def _resolve_bounds(self, end: int) -> tuple[int, int]:
        """Start and end offset, with at least one segment and no snapshot beyond the end."""
        start = self._checkpointed.start_offset
        if self._segments and start > end:
            logger.warning(
                "%s ends at %d, before its log start offset %d: segments missing; starting empty",
                self._location.directory,
                end,
                start,
            )
            self._drop(0)
        if not self._segments:
            location = self._location
            self._producers.clear()
            self._epochs.clear()
            self._segments = [
                Segment.create(location.disk, location.directory, start, location.settings)
            ]
            end = start
        self._snapshots.remove_strays([segment.base_offset for segment in self._segments])
        self._snapshots.remove_above(end)
        return max(start, self._segments[0].base_offset), end

    # --- after a clean stop

    def _end_of_clean(self) -> int | None:
        """The end offset; None when the last segment is not as a clean stop leaves it."""
        if not self._segments:
            return self._checkpointed.start_offset
        try:
            return self._segments[-1].next_offset(self._scanner)
        except CorruptLogError as error:
            logger.warning("%s despite a clean shutdown; recovering", error)
            return None

    def _check_txn_indexes(self, segments: Sequence[Segment], end: int) -> None:
        """Make the transaction indexes anew that do not fit these segments, which end at `end`.

        That one is missing can't be seen: Apache Kafka makes none without an entry either.
        """
        for slot, segment in enumerate(segments):
            if segment.txns.has_file:
                following = segments[slot + 1].base_offset if slot + 1 < len(segments) else end
                why = txn_index_damage(segment, following)
                if why is not None:
                    logger.warning("rebuilding %s: %s", segment.txns.path, why)
                    start = self._checkpointed.start_offset
                    rebuild_txn_index(segments, slot, self._snapshots, start)

    def _rebuild_epochs(self, segments: Sequence[Segment]) -> None:
        """Learn the leader epochs from the headers, if there is no file that tells them."""
        if not self._saved_epochs:
            for segment in segments:
                for _, header in headers(segment.file, segment.path, 0, segment.size):
                    self._note_epoch(header)

    def _note_epoch(self, header: BatchHeader) -> None:
        if header.leader_epoch > self._epochs.latest:
            self._epochs.assign(header.leader_epoch, header.base_offset)

    # --- after a crash

    def _first_to_check(self) -> int:
        """Where the segment stands that holds the recovery point."""
        bases = [segment.base_offset for segment in self._segments]
        return max(0, bisect_right(bases, self._checkpointed.recovery_point) - 1)

    def _recover(self) -> int:
        """Check the batches from the recovery point's segment on; the end offset."""
        if not self._segments:
            return self._checkpointed.start_offset
        bases = [segment.base_offset for segment in self._segments]
        self._checked_from = first = self._first_to_check()
        begin = bases[first]
        self._touched_from = bases[max(0, first - 1)]
        if first:
            # it may have been recovered, or closed, after it was flushed; then the power went
            self._segments[first - 1].restore_end(begin)
        self._check_txn_indexes(self._segments[:first], begin)
        self._rebuild_epochs(self._segments[:first])
        self._epochs.truncate_end(begin)
        self._snapshots.remove_above(begin)
        replay_producers(
            self._segments[:first],
            self._snapshots,
            self._producers,
            self._checkpointed.start_offset,
            begin,
        )
        end = begin
        for slot in range(first, len(bases)):
            if end < bases[slot] and slot > first:
                if not self._may_have_gap(end, bases[slot]):
                    # not fsynced: a power cut has taken the end of the segment before
                    self._drop(slot)
                    break
                end = bases[slot]
            if slot > first:
                self._snapshots.save(end, self._producers)
            limit = bases[slot + 1] if slot + 1 < len(bases) else 1 << 63
            whole, end = self._recover_segment(self._segments[slot], limit)
            if not whole:
                self._drop(slot + 1)
                break
        return end

    def _may_have_gap(self, end: int, base: int) -> bool:
        """Whether a gap from `end` to the segment at `base` may come from compaction. Apache
        Kafka's leaves some, Kavka's does not; the policy may have been another when it ran. What
        was flushed is not missing for a power cut, and in doubt nothing is removed."""
        known = self._checkpointed
        if COMPACT in self._location.settings.cleanup_policy:
            return True
        if end < known.recovery_point or not known.is_point_known:
            return True
        return base <= known.compacted_upto or any(map(has_holes, self._segments))

    def _recover_segment(self, segment: Segment, limit: int) -> tuple[bool, int]:
        """Whether all of a segment was good, and where it ends now; batches end below `limit`."""
        size = segment.size
        end = segment.base_offset
        furthest = min(limit - 1, segment.base_offset + RELATIVE_OFFSET_MAX)
        rewritten_from = size
        segment.reset()
        had_txns = segment.txns.has_file
        segment.txns.drop()
        for position, header in self._scanner.batches(segment.file, segment.path, size):
            last = header.base_offset + header.last_offset_delta
            if header.base_offset < end or last > furthest:
                break
            if header.producer_id >= 0 and not self._replay(segment, position, header):
                break
            segment.index(position, header.size, last, header.newest_timestamp)
            self._note_epoch(header)
            end = last + 1
            if end > self._checkpointed.recovery_point:
                rewritten_from = min(rewritten_from, position)
        segment.seal()
        if had_txns:  # those below the recovery point had been flushed, and nobody looks again
            segment.txns.sync()
        if self._location.settings.kavka_durability == FSYNC:
            self._scanner.rewrite(segment.file, rewritten_from, segment.size)
        if segment.size == size:
            return True, end
        logger.warning(
            "truncated %s to %d of its %d bytes, end offset %d: no valid batch follows",
            segment.path,
            segment.size,
            size,
            end,
        )
        segment.truncate_tail()
        return False, end

    def _replay(self, segment: Segment, position: int, header: BatchHeader) -> bool:
        """Learn producer state and aborted transactions; False for a marker without sense."""
        try:
            aborted = replay_batch(self._producers, segment.file, segment.path, position, header)
        except CorruptLogError as error:
            logger.warning("%s", error)
            return False
        if aborted is not None:
            segment.txns.append(aborted)
        return True

    def _drop(self, slot: int) -> None:
        """Remove the segments from `slot` on; waits for the disk if there are any.

        Where gaps are allowed, a second power cut may not bring one back behind what comes now.
        """
        if slot >= len(self._segments):
            return
        for segment in reversed(self._segments[slot:]):
            logger.warning("removing %s: it follows a damaged part", segment.path)
            segment.release()
            for suffix in FILES:
                path = segment.path_of(suffix)
                if self._fs.exists(path):
                    self._fs.remove(path)
        self._fs.sync_dir(self._location.directory)
        del self._segments[slot:]


def has_holes(segment: Segment) -> bool:
    """Whether offsets are missing within a segment, as compaction leaves them: a power cut takes
    records from the end only. What follows a damaged batch is not looked at."""
    following = segment.base_offset
    try:
        for _, header in headers(segment.file, segment.path, 0, segment.size):
            if header.base_offset > following or header.record_count <= header.last_offset_delta:
                return True
            following = header.last_offset + 1
    except CorruptLogError:
        return False
    return False
