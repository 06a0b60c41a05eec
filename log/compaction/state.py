"""The part of a `PartitionLog` that has to do with its compaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from kavka.log.disk import LogLocation
from kavka.log.flush import Unsynced
from kavka.log.producer_snapshots import ProducerHistory
from kavka.log.segments import SegmentList
from kavka.log.settings import LogSettings

if TYPE_CHECKING:  # what it takes is imported when there is something to compact
    from kavka.log.compaction.candidates import Cleanable
    from kavka.log.compaction.order import (
        CompactionLimits,
        CompactionOrder,
        LastRecords,
        Replacement,
    )


class LogCompaction:
    """What there is to compact in one log, and the exchange of its segments."""

    __slots__ = (
        "_directory",
        "_producers",
        "_segments",
        "_unsynced",
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
        producers: ProducerHistory,
        unsynced: Unsynced,
    ) -> None:
        self.clean_upto: int | None = None
        """Below it the log is compacted; None: it never was. A checkpoint file keeps it."""
        self.running = False
        """Whether a process is at work on it; no segment should go meanwhile."""
        self.paused = False
        """Whether none is to begin: the log moves to another directory."""
        self.serial = 0
        """Counts what makes work that is under way worthless."""
        self.disk = location.disk
        self._directory = location.directory
        self._segments = segments
        self._producers = producers
        self._unsynced = unsynced
        self._when_ended: list[Callable[[], object]] = []

    def begun(self) -> None:
        """A process is at work on it now."""
        self.running = True

    def ended(self) -> None:
        """No process is at work on it any more."""
        self.running = False
        callbacks, self._when_ended = self._when_ended, []
        for callback in callbacks:
            callback()

    def when_ended(self, callback: Callable[[], object]) -> None:
        """Call `callback`, once, when the process that is at work has ended."""
        self._when_ended.append(callback)

    def resume(self, clean_upto: int | None) -> bool:
        """Go on from what was saved. False: that can't be, and all is to be compacted anew. Only
        closed segments ever are compacted; a wrong offset would pass for right when the log has
        grown beyond it."""
        if clean_upto is not None and clean_upto > self._segments.active.base_offset:
            return False
        self.clean_upto = clean_upto
        return True

    def truncated(self, offset: int) -> None:
        """The log ends at `offset` now; what follows will be something else."""
        self.serial += 1
        if self.clean_upto is not None:
            self.clean_upto = min(self.clean_upto, offset)

    def pause(self) -> None:
        """Let none begin before `paused` is taken back; one that runs is ended."""
        self.paused = True
        self.serial += 1

    def relocate(self, directory: str) -> None:
        """Go on in another directory; none is running."""
        self._directory = directory

    def first_dirty(self, start_offset: int, end_offset: int) -> int:
        """From where on the log has not been compacted. An offset out of its bounds was saved
        for a log that has lost its end since, or its beginning."""
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

    def collect(self, found: LastRecords) -> Iterator[None]:
        """Add the last records of all producers, in steps. They may write on meanwhile: of each
        is told what was its last one at some moment of it, which is as good as any other."""
        for part in self._producers.states.parts():
            found.add(part)
            yield

    def order(
        self,
        settings: LogSettings,
        cleanable: Cleanable,
        producers: LastRecords,
        limits: CompactionLimits,
        now_ms: int,
    ) -> CompactionOrder:
        """What the process is told that is to compact this part of the log; `producers` are from
        `collect`, at the same `serial`."""
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
        """Have cleaned segments take the place of those they were made of. False: the log is no
        longer as it was at `serial`, nothing was done.

        OSError: the log is not to be used any more.
        """
        from kavka.log.compaction.swap import fits, swap

        if not self._producers.is_known:  # its segments are read to find out
            return False
        if serial != self.serial or not fits(self._segments, replacement):
            return False
        old, renamed = swap(self.disk, self._directory, self._segments, settings, replacement)
        kept = {base for base, _ in replacement.new}
        gone = [segment.base_offset for segment in old if segment.base_offset not in kept]
        renamed += self._producers.snapshots.mark_deleted(gone)
        self.disk.deferred_deletes.add(renamed, settings.file_delete_delay_ms)
        self._unsynced.add_name(renamed[0])
        return True
