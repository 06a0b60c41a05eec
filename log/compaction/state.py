"""The compaction state of a `PartitionLog`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kavka.log.disk import LogLocation
from kavka.log.flush import UnflushedPaths
from kavka.log.producer_snapshots import ProducerStateManager
from kavka.log.segments import SegmentList
from kavka.log.settings import LogSettings
from kavka.wire.steps import Steps

if TYPE_CHECKING:  # imported lazily, when there is something to compact
    from kavka.log.compaction.candidates import Cleanable
    from kavka.log.compaction.order import (
        CompactionLimits,
        CompactionOrder,
        LastRecords,
        Replacement,
    )


class LogCompaction:
    """The compaction state of one log: what is cleanable, and the replacement of segments."""

    __slots__ = (
        "_directory",
        "_producers",
        "_segments",
        "_unflushed",
        "_when_ended",
        "clean_upto",
        "disk",
        "paused",
        "running",
        "serial",
    )

    def __init__(
        self,
        location: LogLocation,
        segments: SegmentList,
        producers: ProducerStateManager,
        unflushed: UnflushedPaths,
    ) -> None:
        self.clean_upto: int | None = None
        """Below this offset the log is compacted; None if it never was. Saved in a checkpoint."""
        self.running = False
        """Whether a compaction process is running; segments should not be deleted meanwhile."""
        self.paused = False
        """Whether compaction is paused because the log moves to another directory."""
        self.serial = 0
        """Incremented by changes that invalidate a running compaction."""
        self.disk = location.disk
        self._directory = location.directory
        self._segments = segments
        self._producers = producers
        self._unflushed = unflushed
        self._when_ended: list[Callable[[], object]] = []

    def started(self) -> None:
        """Mark the log as being compacted by a process."""
        self.running = True

    def ended(self) -> None:
        """Mark the end of the compaction process, and call the `when_ended` callbacks."""
        self.running = False
        callbacks, self._when_ended = self._when_ended, []
        for callback in callbacks:
            callback()

    def when_ended(self, callback: Callable[[], object]) -> None:
        """Call `callback` once when the running compaction has ended."""
        self._when_ended.append(callback)

    def resume(self, clean_upto: int | None) -> bool:
        """Restore the checkpointed offset. False if it is invalid, so that the whole log has to be
        compacted again: only closed segments are ever compacted, and after appends a wrong offset
        would look valid."""
        if clean_upto is not None and clean_upto > self._segments.active.base_offset:
            return False
        self.clean_upto = clean_upto
        return True

    def truncated(self, offset: int) -> None:
        """Lower `clean_upto` to `offset`, to which the log was truncated, and reject the segments
        of a compaction that is under way."""
        self.serial += 1
        if self.clean_upto is not None:
            self.clean_upto = min(self.clean_upto, offset)

    def pause(self) -> None:
        """Pause compaction until `paused` is reset; a running one is invalidated."""
        self.paused = True
        self.serial += 1

    def relocate(self, directory: str) -> None:
        """Use another directory; no compaction may be running."""
        self._directory = directory

    def first_dirty(self, start_offset: int, end_offset: int) -> int:
        """The first dirty offset. A checkpointed offset out of range is ignored: the log has been
        truncated, or its start offset has advanced, since then."""
        saved = self.clean_upto
        return saved if saved is not None and start_offset <= saved <= end_offset else start_offset

    def examine(
        self, settings: LogSettings, *, first_dirty: int, last_stable: int, now_ms: int
    ) -> Cleanable:
        """See `candidates.examine`."""
        from kavka.log.compaction.candidates import examine

        return examine(
            self._segments,
            settings,
            first_dirty=first_dirty,
            last_stable=last_stable,
            now_ms=now_ms,
        )

    def collect_last_records(self, found: LastRecords) -> Steps[None]:
        """Add the last records of all producers, in steps. They may write meanwhile; for each its
        last record at any moment of this will do."""
        for part in self._producers.states.parts():
            found.add(part)
            yield None

    def order(
        self,
        settings: LogSettings,
        cleanable: Cleanable,
        producers: LastRecords,
        limits: CompactionLimits,
        now_ms: int,
    ) -> CompactionOrder:
        """The order to compact this part of the log; `producers` are from `collect_last_records`,
        at the same `serial`."""
        from kavka.log.compaction.order import CompactionOrder

        closed = [s for s in self._segments if s.base_offset < cleanable.end_offset]
        later = [s for s in self._segments if s.base_offset >= cleanable.end_offset]
        return CompactionOrder(
            self._directory,
            tuple((segment.base_offset, segment.size) for segment in closed),
            tuple(segment.base_offset for segment in later if segment.txns.count),
            cleanable.first_dirty,
            cleanable.end_offset,
            producers,
            settings,
            limits,
            now_ms,
        )

    def replace(self, settings: LogSettings, replacement: Replacement, serial: int) -> bool:
        """Replace segments by their cleaned ones. False if the log has changed since `serial`;
        then nothing was done.

        OSError: the log can't be used any more.
        """
        from kavka.log.compaction.swap import fits, swap

        if not self._producers.is_known:  # its segments are being read for `rebuild`
            return False
        if serial != self.serial or not fits(self._segments, replacement):
            return False
        old, renamed = swap(self.disk, self._directory, self._segments, settings, replacement)
        kept = {base for base, _ in replacement.new}
        gone = [segment.base_offset for segment in old if segment.base_offset not in kept]
        renamed += self._producers.snapshots.mark_deleted(gone)
        self.disk.deferred_deletes.add(renamed, settings.file_delete_delay_ms)
        self._unflushed.add_name(renamed[0])
        return True
