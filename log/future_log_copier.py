"""Copies a log to its future log in another log directory, while it is being appended to.

It copies file by file. The copy has the same segments as the log, byte for byte, so that the
in-memory state of the log is valid for its copy too, and the log can continue there without being
loaded (`relocation.py`). Nothing is decoded. The next `CopyStep` is planned on the loop and run in
a thread, in bounded portions; meanwhile the log may be appended to, rolled, and lose its oldest
segments. After a truncation of the log, or a restart of the broker, the copy is compared with the
log from the beginning, and what is equal is kept.

After a crash the copy is what Apache Kafka expects of a future log: whole segments except
for the last, which may be torn. `truncate_to_whole_batch` makes it a cleanly closed log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from kavka.log import dir_names as names
from kavka.log.epochs import FILE as EPOCH_FILE
from kavka.log.file_copying import (
    copy_bytes,
    copy_file,
    count_equal,
    of_source,
    open_or_create,
    remove_content,
    remove_files,
)
from kavka.log.fs import FileSystem
from kavka.log.index import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES
from kavka.log.interrupted_work import base_of
from kavka.log.partition_log import PartitionLog
from kavka.log.segment import FILES, INDEX, LOG, TIME_INDEX, TXN_INDEX, Segment, file_name
from kavka.log.snapshots import SUFFIX as SNAPSHOT
from kavka.log.txn_index import TXN_ENTRY_BYTES

STEP_BYTES_MAX: Final = 4 << 20
"""What one step copies: a disk of 100 MB/s takes 40 ms."""

SYNC_BYTES: Final = 32 << 20
"""Bytes written between two fsyncs, so that none of them takes long."""

TAIL_BYTES_MAX: Final = 512 << 10
"""At most this is copied on the loop when the copy is promoted: 0.3 ms. A producer of 100 MB/s
writes as much during one `CopyStep`."""

_INDEXES: Final = (INDEX, TIME_INDEX, TXN_INDEX)
_SMALL: Final = (EPOCH_FILE, names.PARTITION_FILE)


class CopyStep(NamedTuple):
    """Work for a thread, one step at a time. OSError of the copy; SourceError, to be ignored if the
    step is outdated (`FutureLogCopier.is_outdated`)."""

    run: Callable[[], object]
    size_bytes: int = 0
    """How much of the log it reads."""
    segment: Segment | None = None
    """The segment that it reads."""


class _Copy:
    """The copy of one segment."""

    __slots__ = ("is_closed", "size", "file_size", "unflushed")

    def __init__(self, file_size: int) -> None:
        self.size = 0
        """Bytes of the segment's batches that are in the copy."""
        self.file_size = file_size
        """Length of the copy's file; its content from `size` on is unknown."""
        self.unflushed = 0
        self.is_closed = False
        """Whether it is complete, with its indexes, and flushed."""


class _Active:
    """The active segment, and how much of its indexes is in the copy."""

    __slots__ = ("_offsets", "_times", "index_sizes", "segment")

    def __init__(self, segment: Segment) -> None:
        segment.write_indexes()
        self.segment = segment
        self._offsets, self._times = segment.offsets, segment.times
        self.index_sizes = index_sizes(segment)

    @property
    def is_same(self) -> bool:
        """Whether its indexes have only been appended to."""
        segment = self.segment
        return segment.offsets is self._offsets and segment.times is self._times


def index_sizes(segment: Segment) -> list[int]:
    """Lengths of the files of `_INDEXES` once they are written."""
    return [
        len(segment.offsets) * OFFSET_ENTRY_BYTES,
        len(segment.times) * TIME_ENTRY_BYTES,
        segment.txns.count * TXN_ENTRY_BYTES,
    ]


class FutureLogCopier:
    """Copies `log` to the directory `path`, which is empty or has an incomplete copy."""

    def __init__(
        self, fs: FileSystem, log: PartitionLog, path: str, *, is_kept: bool = True
    ) -> None:
        """Does no I/O. `is_kept`: whether an existing copy may be reused."""
        self._fs = fs
        self.log = log
        self.path = path
        self._is_kept = is_kept
        self._files: dict[str, int] | None = None  # sizes by name; None: not listed yet
        self._copies: dict[Segment, _Copy] = {}
        self._snapshots: dict[int, None] = {}
        self._truncations = log._truncations
        self._state: Sequence[object] = ()  # of the log, when the copy was completed
        self._active: _Active | None = None
        self._clean_row: object = None  # segments and snapshots at the last check for stray files
        self._flushed_end = 0

    # --- progress

    @property
    def flushed_end(self) -> int:
        """Below this offset the copy is flushed; 0 after a truncation."""
        return self._flushed_end if self._truncations == self.log._truncations else 0

    @property
    def size_bytes(self) -> int:
        """Bytes of all batches in the copy."""
        return sum(copy.size for copy in self._copies.values())

    @property
    def end_offset(self) -> int:
        """The copy has all batches of the log below this offset. OSError."""
        segments = list(self.log._segments)
        for segment in segments:
            copy = self._copies.get(segment)
            if copy is None:
                return segment.base_offset
            if copy.size < segment.size:
                last = segment.indexed_before(copy.size)
                return segment.base_offset if last is None else last.base_offset
        return self.log.end_offset

    # --- copying

    def next(self, bytes_max: int = STEP_BYTES_MAX) -> CopyStep | None:
        """The next step; None if only `complete` remains. OSError of the log itself."""
        self._follow_truncation()
        if self._files is None:
            return CopyStep(self._list_files)
        segments = list(self.log._segments)
        row = segments, self.log.producer_manager.snapshots.offsets
        if row != self._clean_row:  # not each time: with a thousand segments it takes a while
            self._copies = {
                segment: self._copies[segment] for segment in segments if segment in self._copies
            }
            if strays := self._strays(segments):
                return self._remove(strays)
            self._clean_row = row
        for segment in segments:
            copy = self._copies.get(segment)
            if copy is None:
                file_size = self._files.get(file_name(segment.base_offset, LOG), 0)
                copy = self._copies[segment] = _Copy(file_size)
            if copy.size < segment.size:
                return self._copy(segment, copy, bytes_max)
            if segment is not segments[-1] and not copy.is_closed:
                return self._close(segment, copy)
        return None

    def _follow_truncation(self) -> None:
        if self._truncations != self.log._truncations:
            self._truncations = self.log._truncations
            self._files = self._active = self._clean_row = None
            self._copies = {}
            self._snapshots.clear()
            self._flushed_end = 0

    def is_outdated(self, step: CopyStep) -> bool:
        """Whether the log has changed since the last `next` so that `step` may not find what it
        reads: it was truncated, or has lost the segment."""
        if self._truncations != self.log._truncations:
            return True
        return step.segment is not None and step.segment not in self.log._segments

    def _list_files(self) -> None:
        fs, path = self._fs, self.path
        if not self._is_kept:
            remove_content(fs, path)
            self._is_kept = True
        self._files = {name: fs.size(f"{path}/{name}") for name in fs.list_dir(path)}

    def _strays(self, segments: Sequence[Segment]) -> list[str]:
        """Files that the log does not have (any more)."""
        bases = {segment.base_offset for segment in segments}
        snapshots = self.log.producer_manager.snapshots
        found = []
        for name in self._files or ():
            base, suffix = base_of(name), name[name.find(".") :]
            is_wanted = (
                name in (*_SMALL, names.MOVED_FILE)
                or (suffix in FILES and base in bases)
                or (suffix == SNAPSHOT and base in self._snapshots and snapshots.has(base))
            )
            if not is_wanted:
                found.append(name)
        return found

    def _remove(self, strays: Sequence[str]) -> CopyStep:
        assert self._files is not None
        for name in strays:
            del self._files[name]
            if name.endswith(SNAPSHOT):
                self._snapshots.pop(base_of(name), None)
        paths = [f"{self.path}/{name}" for name in strays]
        return CopyStep(lambda: remove_files(self._fs, paths))

    def _target(self, name: str) -> str:
        assert self._files is not None
        self._files.setdefault(name, 0)
        return f"{self.path}/{name}"

    def _of_segment(self, segment: Segment, suffix: str) -> str:
        return self._target(file_name(segment.base_offset, suffix))

    def _copy(self, segment: Segment, copy: _Copy, bytes_max: int) -> CopyStep:
        """Copy, or compare, some batches of a segment."""
        fs, source, target = self._fs, segment.file, self._of_segment(segment, LOG)
        begin = copy.size
        end = min(segment.size, begin + max(1, min(bytes_max, STEP_BYTES_MAX)))

        def run() -> None:
            equal_upto = begin
            if begin < copy.file_size:
                compared = min(end, copy.file_size)
                equal_upto = count_equal(fs, source, target, begin, compared)
                if equal_upto < compared:
                    copy.file_size = equal_upto
            copy.unflushed += end - begin  # equal bytes may not have been flushed either
            if equal_upto < end:
                file = copy_bytes(fs, source, target, equal_upto, end)
                copy.file_size = end
                if copy.unflushed >= SYNC_BYTES:
                    file.sync()
                    copy.unflushed = 0
            copy.size = end

        return CopyStep(run, end - begin, segment)

    def _close(self, segment: Segment, copy: _Copy) -> CopyStep:
        """Complete and flush the copy of a closed segment."""
        fs, source, target = self._fs, segment.path, self._of_segment(segment, LOG)
        pairs = [(segment.path_of(end), self._of_segment(segment, end)) for end in _INDEXES]
        size = segment.size

        def run() -> None:
            for index, path in pairs:
                copy_file(fs, index, path)
            file = open_or_create(fs, target)
            if file.size() > size:
                file.truncate(size)
            file.sync()
            if fs.exists(source):  # the age of a segment whose records have no timestamps
                fs.set_modified_ms(target, of_source(lambda: fs.modified_ms(source)))
            copy.file_size, copy.is_closed = size, True

        return CopyStep(run, segment=segment)

    # --- the end

    def complete(self, *, moved_file: bool) -> CopyStep:
        """Copy the rest and all small files, and flush the copy, when there is no `next`. With
        `moved_file` the copy gets `MOVED_FILE`, and the log loses it. OSError of the log itself."""
        log, fs = self.log, self._fs
        segments = list(log._segments)
        active = self._active = _Active(segments[-1])
        segment, copy = active.segment, self._copies[active.segment]
        state, truncations, end_offset = self._state_of_log(), self._truncations, log.end_offset
        offsets = log.producer_manager.snapshots.offsets
        missing = [offset for offset in offsets if offset not in self._snapshots]
        source, size = segment.file, segment.size
        pairs = [
            (segment.path_of(suffix), self._of_segment(segment, suffix), length)
            for suffix, length in zip(_INDEXES, active.index_sizes, strict=True)
        ]
        target = self._of_segment(segment, LOG)
        small = [*_SMALL, *(file_name(offset, SNAPSHOT) for offset in missing)]
        whole = [(f"{log.directory}/{name}", self._target(name)) for name in small]
        marks = f"{log.directory}/{names.MOVED_FILE}", self._target(names.MOVED_FILE)

        def run() -> None:
            copy_bytes(fs, source, target, copy.size, size).sync()
            copy.size = copy.file_size = size
            copy.unflushed = 0
            for index, path, length in pairs:
                copy_file(fs, index, path, length)
            for origin, path in whole:
                copy_file(fs, origin, path)
            self._snapshots |= dict.fromkeys(missing)
            if moved_file:
                _mark(fs, *marks)
            fs.sync_dir(self.path)
            if truncations == self._truncations:
                self._state, self._flushed_end = state, end_offset

        return CopyStep(run, size - copy.size, segment)

    def _state_of_log(self) -> Sequence[object]:
        """What must not change after the copy was completed, apart from appends."""
        log = self.log
        return (
            log._truncations,
            list(log._segments),
            log._epochs.saves,
            log.producer_manager.snapshots.offsets,
        )

    @property
    def is_ready(self) -> bool:
        """Whether `copy_tail` may complete the copy: little is missing in it, and what was flushed
        of the log is flushed in the copy too."""
        log, active = self.log, self._active
        return (
            active is not None
            and self._state == self._state_of_log()
            and active.is_same
            and log.recovery_point <= self.flushed_end
            and log.producer_manager.is_known
            and not log.producer_manager.is_saving
            and not log.compaction.running
            and active.segment.size - self._copies[active.segment].size <= TAIL_BYTES_MAX
        )

    def copy_tail(self) -> None:
        """Complete a copy that `is_ready`. OSError of the copy; SourceError."""
        assert self._active is not None
        segment, copy = self._active.segment, self._copies[self._active.segment]
        of_source(segment.write_indexes)
        fs, size = self._fs, segment.size
        copy_bytes(fs, segment.file, self._of_segment(segment, LOG), copy.size, size)
        copy.size = copy.file_size = size
        before, now = self._active.index_sizes, index_sizes(segment)
        for suffix, begin, end in zip(_INDEXES, before, now, strict=True):
            if begin < end:
                source = segment.path_of(suffix)
                file = of_source(partial(fs.open, source))
                copy_bytes(fs, file, self._of_segment(segment, suffix), begin, end)
        self._active.index_sizes = now

    def truncate_to_whole_batch(self) -> CopyStep | None:
        """Truncate the copy to a whole batch, so that it can be resumed after a restart. None: not
        needed. OSError of the log itself."""
        if self._files is None:
            return None
        if self._truncations != self.log._truncations:  # it no longer has what was copied
            return CopyStep(lambda: remove_content(self._fs, self.path))
        truncated: tuple[str, int] | None = None
        removed: list[str] = []
        for segment in self.log._segments:
            copy = self._copies.get(segment) or _Copy(0)
            if copy.is_closed and truncated is None:
                continue
            files = [f"{self.path}/{file_name(segment.base_offset, end)}" for end in FILES]
            size = copy.size
            if size < segment.size:
                last = segment.indexed_before(size)
                size = 0 if last is None else last.position
            if truncated is None:
                truncated = files[0], size
                removed += files[0 if not size else 1 :]
            else:
                removed += files
        fs = self._fs

        def run() -> None:
            remove_files(fs, removed)
            if truncated is not None and truncated[1] and fs.exists(truncated[0]):
                fs.open(truncated[0]).truncate(truncated[1])

        return CopyStep(run)


def _mark(fs: FileSystem, source: str, target: str) -> None:
    if of_source(lambda: fs.exists(source)):
        of_source(lambda: fs.remove(source))
        of_source(lambda: fs.sync_dir(source.rpartition("/")[0]))
    open_or_create(fs, target).sync()
