"""Loading the log in a partition's directory, with recovery after an unclean shutdown.

Recovery reads everything from the recovery point on: each batch with its CRC, up to the first
invalid one, where the log is truncated. Indexes, producer state and leader epochs are rebuilt from
the headers. Memory is bounded for any size of the log.

First the files of interrupted operations (`.deleted`, `.cleaned`, `.swap`, `.tmp`), also those of
Apache Kafka, are completed or removed.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

from kavka.log.checkpoint import decode_epochs
from kavka.log.disk import LogLocation
from kavka.log.epochs import FILE as EPOCH_FILE
from kavka.log.epochs import EpochFile, LeaderEpochs
from kavka.log.errors import CorruptFileError, CorruptLogError
from kavka.log.interrupted_work import base_of, clean_up_interrupted
from kavka.log.partition_log import PartitionLog
from kavka.log.producer_state import ProducerStates
from kavka.log.recent_batches import WRITTEN_WITHIN_MS
from kavka.log.replay import rebuild_txn_index, replay_batch, replay_in_steps, txn_index_damage
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
from kavka.wire.record_batches import BatchHeader
from kavka.wire.steps import run_at_once

logger = logging.getLogger(__name__)

_INDEXES: Final = (INDEX, TIME_INDEX, TXN_INDEX)


class Checkpointed(NamedTuple):
    """What the checkpoint files have about a log."""

    clean: bool
    """Whether the last shutdown was clean: no recovery is needed."""

    recovery_point: int
    start_offset: int
    compacted_upto: int = 0
    is_point_known: bool = True
    """False: the checkpoint was damaged, so that the recovery point may have been above 0."""


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
    """The loading of one log: create it, then call `load`.

    Both raise ApiError or StorageError, naming the file, if a part that should be intact is not.
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
        self._point_may_be_wrong = False
        self._producers = ProducerStates()
        self._saved_epochs = self._read_epochs(names)
        self._epochs = LeaderEpochs(self._saved_epochs)

    @property
    def bytes_to_check(self) -> int:
        """How many possibly unflushed bytes `load` has to check."""
        if self._checkpointed.clean:
            return 0
        return sum(segment.size for segment in self._segments[self._first_to_check() :])

    def load(self) -> PartitionLog:
        """The log, after recovery if needed."""
        clean = self._checkpointed.clean
        end = self._end_of_clean() if clean else None
        if end is None:
            clean = False
            end = self._recover()
            if end < self._checkpointed.recovery_point and self._point_may_be_wrong:
                return self._check_all()
        start, end = self._resolve_bounds(end, clean=clean)
        if clean:
            self._check_txn_indexes(self._segments, end)
            self._rebuild_epochs(self._segments)
            if self._snapshots.newest >= 0:
                self._replay_upto(self._segments, start, end)
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
            log.mark_unflushed(epochs.path)
        if not clean:
            self._mark_all_unflushed(log)
            if end - log.recovery_point >= self._location.settings.flush_after:
                _flush(log)
        return log

    def _check_all(self) -> PartitionLog:
        logger.warning(
            "%s ends before its recovery point %d: recovering it from the beginning",
            self._location.directory,
            self._checkpointed.recovery_point,
        )
        for segment in self._segments:
            segment.release()
        unknown = self._checkpointed._replace(clean=False, recovery_point=0, is_point_known=False)
        return LogLoader(self._location, unknown, self._scanner).load()

    def _mark_all_unflushed(self, log: PartitionLog) -> None:
        """Files written before the crash, and even the directory's name, may not be on the disk."""
        log.mark_name_unflushed(log.directory)
        for name in self._fs.list_dir(log.directory):
            if name.endswith((LOG, *_INDEXES)) and base_of(name) < self._touched_from:
                continue
            log.mark_unflushed(f"{log.directory}/{name}")

    # --- files

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
            self._fs, self._location.directory, [offset for offset in offsets if offset >= 0]
        )
        if self._segments:
            # an old snapshot may have come back after a power failure, and the batches between it
            # and the start of the log are gone
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

    def _resolve_bounds(self, end: int, *, clean: bool) -> tuple[int, int]:
        """Start and end offset; ensures at least one segment, and no snapshot beyond the end."""
        start = self._checkpointed.start_offset
        if self._segments and start > end:
            found = f"{self._location.directory} ends at {end}, before its log start offset {start}"
            if clean:  # nothing is missing, so that the checkpoint must be wrong
                logger.error("%s, despite a clean shutdown: starting at its first segment", found)
                start = self._segments[0].base_offset
            else:
                logger.warning("%s: segments missing; starting empty", found)
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

    # --- after a clean shutdown

    def _end_of_clean(self) -> int | None:
        """The end offset; None if the last segment is not intact, or does not end at the recovery
        point, as it does after a clean shutdown: no checksum covers a batch's offset."""
        known = self._checkpointed
        if not self._segments:
            return known.start_offset
        try:
            end = self._segments[-1].next_offset(self._scanner)
        except CorruptLogError as error:
            logger.warning("%s despite a clean shutdown; recovering", error)
            return None
        if known.is_point_known and end != known.recovery_point:
            logger.warning(
                "%s ends at offset %d and not at its recovery point %d, despite a clean shutdown; "
                "recovering",
                self._location.directory,
                end,
                known.recovery_point,
            )
            return None
        return end

    def _check_txn_indexes(self, segments: Sequence[Segment], end: int) -> None:
        """Rebuild the transaction indexes that don't match these segments, which end at `end`.

        A missing one can't be detected, since there is none without entries, as in Apache Kafka.
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
        """Rebuild the leader epochs from the headers, if they could not be read from the file."""
        if not self._saved_epochs:
            for segment in segments:
                try:
                    for _, header in headers(segment.file, segment.path, 0, segment.size):
                        self._note_epoch(header)
                except CorruptLogError as damage:
                    logger.error(
                        "%s; leader epochs that began after that are not known", damage.message
                    )

    def _note_epoch(self, header: BatchHeader) -> None:
        if header.leader_epoch > self._epochs.latest:
            self._epochs.assign(header.leader_epoch, header.base_offset)

    # --- after a crash

    def _first_to_check(self) -> int:
        """The slot of the segment with the recovery point."""
        bases = [segment.base_offset for segment in self._segments]
        return max(0, bisect_right(bases, self._checkpointed.recovery_point) - 1)

    def _recover(self) -> int:
        """Check the batches from the segment with the recovery point on; the end offset."""
        if not self._segments:
            return self._checkpointed.start_offset
        bases = [segment.base_offset for segment in self._segments]
        first = self._first_to_check()
        # The recovery point is wrong if an undamaged log ends before it. What was flushed is then
        # unknown. Damage is no such sign: the segments before it count as flushed, and stay.
        self._point_may_be_wrong = first > 0
        begin = bases[first]
        self._touched_from = bases[max(0, first - 1)]
        if first:
            # it may have been changed by a recovery or a close that was not flushed
            self._restore_end(self._segments[first - 1], begin)
        self._check_txn_indexes(self._segments[:first], begin)
        self._rebuild_epochs(self._segments[:first])
        self._epochs.truncate_end(begin)
        self._snapshots.remove_above(begin)
        self._replay_upto(self._segments[:first], self._checkpointed.start_offset, begin)
        end = begin
        for slot in range(first, len(bases)):
            if end < bases[slot] and slot > first:
                if not self._may_have_gap(end, bases[slot]):
                    # a power failure has lost the unflushed end of the previous segment
                    self._drop(slot)
                    break
                end = bases[slot]
            if slot > first:
                self._snapshots.save(end, self._producers)
            limit = bases[slot + 1] if slot + 1 < len(bases) else 1 << 63
            whole, end = self._recover_segment(self._segments[slot], limit)
            if not whole:
                self._point_may_be_wrong = False
                self._drop(slot + 1)
                break
        return end

    def _restore_end(self, segment: Segment, end: int) -> None:
        """Damage before the recovery point is reported to the readers that come upon it."""
        try:
            segment.restore_end(end)
        except CorruptLogError as damage:
            logger.error("%s; the records there can't be read", damage.message)

    def _may_have_gap(self, end: int, base: int) -> bool:
        """Whether a gap from `end` to the segment at `base` may come from compaction. Apache
        Kafka's leaves gaps, Kavka's does not; `cleanup.policy` may have changed since. A gap below
        the recovery point can't come from a power failure. In doubt nothing is removed."""
        known = self._checkpointed
        if COMPACT in self._location.settings.cleanup_policy:
            return True
        if end < known.recovery_point or not known.is_point_known:
            return True
        return base <= known.compacted_upto or any(map(has_offset_gaps, self._segments))

    def _recover_segment(self, segment: Segment, limit: int) -> tuple[bool, int]:
        """Recover a segment; whether it was intact, and its end offset, at most `limit`."""
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
            segment.index(position, header)
            self._note_epoch(header)
            end = last + 1
            if end > self._checkpointed.recovery_point:
                rewritten_from = min(rewritten_from, position)
        segment.seal()
        if had_txns:  # entries below the recovery point count as flushed
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

    def _replay_upto(self, segments: Sequence[Segment], start: int, end: int) -> None:
        """Set the producer state to that before `end`. These segments are flushed: damage in one
        of them is reported to the readers that come upon it, and the rest of the log is served."""
        last_written_ms = self._segments[-1].written_ms()
        run_at_once(
            replay_in_steps(
                segments,
                self._snapshots,
                self._producers,
                start,
                end,
                with_recent=self._location.now_ms - last_written_ms < WRITTEN_WITHIN_MS,
                skip_damage=True,
            )
        )

    def _replay(self, segment: Segment, position: int, header: BatchHeader) -> bool:
        """Update the producer state and transaction index; False for an invalid marker."""
        try:
            replay_batch(
                self._producers,
                segment.file,
                segment.path,
                position,
                header,
                segment.txns.append,
            )
        except CorruptLogError as error:
            logger.warning("%s; truncating there", error)
            return False
        return True

    def _drop(self, slot: int) -> None:
        """Remove the segments from `slot` on, with fsync if there are any.

        Where gaps are allowed a second power failure must not bring one back after new segments.
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


def _flush(log: PartitionLog) -> None:
    """Flush what has been recovered: where records wait for that, those that clients have seen
    before the crash would else be hidden again until the first flush."""
    plan = log.flush_plan()
    assert plan is not None, "there are unflushed records"
    plan.run()
    log.flushed(plan)


def has_offset_gaps(segment: Segment) -> bool:
    """Whether offsets are missing within a segment, as after compaction; a power failure loses
    records at the end only. Stops at a damaged batch."""
    following = segment.base_offset
    try:
        for _, header in headers(segment.file, segment.path, 0, segment.size):
            if header.base_offset > following or header.record_count <= header.last_offset_delta:
                return True
            following = header.last_offset + 1
    except CorruptLogError:
        return False
    return False
