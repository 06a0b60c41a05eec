"""One segment of a log: a file of record batches with its offset, time and transaction indexes.

The last segment of a log is the active one, which is appended to; the others are only read. When
to roll, what to recover and which offsets are visible is decided elsewhere.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from kavka.log.disk import Disk
from kavka.log.errors import CorruptLogError
from kavka.log.fs import Buffer, File
from kavka.log.index import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES, IndexEntry, OffsetIndex, TimeIndex
from kavka.log.scan import SEEK_BYTES, BatchScanner, Extent, extent_at, extents, headers
from kavka.log.settings import LogSettings
from kavka.log.times import ANY_NUMBER, find_timestamp, is_entry_valid, is_last_entry_valid
from kavka.log.txn_index import TxnIndex
from kavka.wire.record_batches import BatchHeader

logger = logging.getLogger(__name__)

RELATIVE_OFFSET_MAX: Final = 0x7FFFFFFF
"""The greatest relative offset in a segment: what an index entry can hold."""

UNKNOWN: Final = -2
"""A timestamp that has not been read yet; -1 means none."""

GAP_BYTES_MAX: Final = 1 << 20
"""A larger gap between index entries makes the index count as damaged, unless the index interval
is longer. Gaps longer than the interval are normal, since each restart begins a new interval."""

LOG: Final = ".log"
INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
TXN_INDEX: Final = ".txnindex"
DELETED: Final = ".deleted"
FILES: Final = (LOG, INDEX, TIME_INDEX, TXN_INDEX)


def file_name(offset: int, suffix: str) -> str:
    """A segment's or snapshot's file name."""
    return f"{offset:020d}{suffix}"


class Segment:
    """The batches from `base_offset` on, up to the next segment. Positions and sizes in bytes."""

    __slots__ = (
        "_disk",
        "_first_timestamp",
        "_index_interval_bytes",
        "_max_timestamp",
        "_max_timestamp_offset",
        "_offsets",
        "_offsets_max",
        "_since_entry",
        "_times",
        "_times_max",
        "base_offset",
        "directory",
        "full",
        "open_file",
        "path",
        "size",
        "txns",
        "used",
    )

    def __init__(
        self, disk: Disk, directory: str, base_offset: int, size: int, settings: LogSettings
    ) -> None:
        """An existing segment whose file has `size` bytes of batches."""
        self._disk = disk
        self.directory = directory
        self.base_offset = base_offset
        self.path = self.path_of(LOG)
        self.size = size
        self.full = False  # whether an index has no room for another entry
        self.open_file: File | None = None
        self.used = False
        self._since_entry = 0  # bytes since the last index entry
        self._first_timestamp = self._max_timestamp = UNKNOWN if size else -1
        self._max_timestamp_offset = base_offset  # last offset of the first batch with it
        self._offsets: OffsetIndex | None = None
        self._times: TimeIndex | None = None
        self.txns = TxnIndex(disk.fs, self.path_of(TXN_INDEX))
        """The aborted transactions with their marker in this segment."""
        self.configure(settings)

    def configure(self, settings: LogSettings) -> None:
        """Use (new) settings."""
        self._index_interval_bytes = settings.index_interval_bytes
        self._offsets_max = settings.segment_index_bytes // OFFSET_ENTRY_BYTES
        # one entry is reserved for `seal`
        self._times_max = settings.segment_index_bytes // TIME_ENTRY_BYTES - 1

    @classmethod
    def create(cls, disk: Disk, directory: str, base_offset: int, settings: LogSettings) -> Segment:
        """A new, empty segment with its files; existing files are truncated."""
        segment = cls(disk, directory, base_offset, 0, settings)
        segment._create_indexes()
        segment._note_fullness()  # the limit may be below one entry
        segment.open_file = disk.fs.create(segment.path)
        disk.files.hold(segment)
        return segment

    def path_of(self, suffix: str) -> str:
        """The path of one of the segment's files."""
        return f"{self.directory}/{self.base_offset:020d}{suffix}"

    @property
    def file(self) -> File:
        """The file with the batches, opened if needed."""
        self.used = True
        file = self.open_file
        if file is None:
            self.open_file = file = self._disk.open(self.path)
            self._disk.files.hold(self)
        return file

    @property
    def first_timestamp(self) -> int:
        """The greatest timestamp of the first batch; -1 when the segment is empty."""
        if self._first_timestamp == UNKNOWN:
            _, header = next(headers(self.file, self.path, 0, self.size))
            self._first_timestamp = header.max_timestamp
        return self._first_timestamp

    @property
    def max_timestamp(self) -> int:
        """The greatest timestamp in the segment; -1 when there is none."""
        if self._max_timestamp == UNKNOWN:
            self._look_up_max_timestamp(self._last_indexed)
        return self._max_timestamp

    def newest_ms(self) -> int:
        """The greatest timestamp; if there is none, when the file was last modified."""
        try:
            newest = self.max_timestamp
        except CorruptLogError as damage:
            logger.warning("using the modification time of %s: %s", self.path, damage)
            newest = -1
        return newest if newest >= 0 else self.written_ms()

    def written_ms(self) -> int:
        """When the file was last written."""
        return self._disk.fs.modified_ms(self.path)

    @property
    def max_timestamp_offset(self) -> int:
        """The last offset of the first batch that holds `max_timestamp`."""
        return self._max_timestamp_offset if self.max_timestamp >= 0 else -1

    # --- writing

    @property
    def is_opened(self) -> bool:
        """Whether an index is open; if none is, nothing has been appended."""
        return self._offsets is not None or self._times is not None

    def activate(self) -> None:
        """Prepare for `append`: load what it relies on."""
        self._max_timestamp = self.max_timestamp
        self._offsets = self.offsets
        self._note_fullness()

    def append(self, batch: Buffer, size: int, last_offset: int, max_timestamp: int) -> None:
        """Append a batch of `size` bytes to the file and the indexes.

        After an OSError there may be bytes beyond the segment's size; see `repair`.
        """
        position = self.size
        indexed = self._since_entry > self._index_interval_bytes
        if indexed and self.offsets.needs_write:
            self.write_indexes()
        (self.open_file or self.file).pwrite(batch, position)
        self.used = True
        self.size = position + size
        if max_timestamp > self._max_timestamp:
            self._max_timestamp = max_timestamp
            self._max_timestamp_offset = last_offset
        if indexed:
            self._add_entry(position, last_offset)
        elif position == 0:
            self._first_timestamp = max_timestamp
        self._since_entry += size

    def truncate_tail(self) -> None:
        """Truncate the file after the last valid batch, with fsync."""
        self._truncate_file(self.size)

    def write(self, batches: Buffer) -> None:
        """Write batches after the last one, each of which then has to be passed to
        `index_in_memory`. After an OSError see `repair`."""
        if self.offsets.needs_write:
            self.write_indexes()
        self.file.pwrite(batches, self.size)

    def index(self, position: int, header: BatchHeader) -> None:
        """Index a batch that is already in the file, as `append` does; see `reset`."""
        if self.offsets.needs_write:
            self.write_indexes()
        self.index_in_memory(position, header)

    def index_in_memory(self, position: int, header: BatchHeader) -> None:
        """`index`, without writing to the index files."""
        size = header.size
        if position == 0:
            self._first_timestamp = header.max_timestamp
        if header.max_timestamp > self._max_timestamp and header.record_count:
            self._max_timestamp = header.max_timestamp
            self._max_timestamp_offset = header.last_offset
        if self._since_entry > self._index_interval_bytes:
            self._add_entry(position, header.last_offset)
        self._since_entry += size
        self.size = position + size

    def _add_entry(self, position: int, last_offset: int) -> None:
        self.offsets.append(last_offset, position)
        self.times.append(self._max_timestamp, self._max_timestamp_offset)
        self._since_entry = 0
        self._note_fullness()

    def _note_fullness(self) -> None:
        self.full = len(self.offsets) >= self._offsets_max or len(self.times) >= self._times_max

    @property
    def entries_left(self) -> int:
        """For how many more entries both indexes have room."""
        offsets, times = self._offsets_max - len(self.offsets), self._times_max - len(self.times)
        return min(offsets, times)

    def repair(self) -> None:
        """Truncate the incomplete batch that a failed `append` may have left."""
        self.file.truncate(self.size)

    def _truncate_file(self, size: int) -> None:
        """Truncate the file to `size` bytes, with fsync: a power failure must not bring back a
        batch after others that were appended in its place."""
        self.size = size
        self.file.truncate(size)
        self.file.sync()

    def write_indexes(self) -> None:
        """Write new index entries to the files, without fsync."""
        self.offsets.write()
        self.times.write()

    def seal(self) -> None:
        """Complete the indexes, before the segment or the log is closed."""
        if self.max_timestamp >= 0:
            self.times.append(self._max_timestamp, self._max_timestamp_offset)
        self.write_indexes()

    def release(self) -> None:
        """Close the file and drop the indexes from memory; they are opened again on demand."""
        if self._offsets is not None:
            self._disk.indexes.forget(self._offsets)
        self._offsets = self._times = None
        self._disk.files.drop(self)

    def move_to(self, disk: Disk) -> None:
        """Use the limits of `disk` from now on; the file is closed until its next use."""
        self._disk.files.drop(self)
        if self._offsets is not None:
            self._offsets.move_to(disk.indexes)
        self._disk = disk

    def relocate(self, directory: str) -> None:
        """Use the equal files in another directory."""
        self._disk.files.drop(self)
        self.directory = directory
        self.path, self.txns.path = self.path_of(LOG), self.path_of(TXN_INDEX)
        for index, suffix in (self._offsets, INDEX), (self._times, TIME_INDEX):
            if index is not None:
                index.relocate(self.path_of(suffix))

    def truncate(self, offset: int) -> None:
        """Drop the batches from the one with `offset` on, with fsync."""
        extent = self.find(offset)
        self.offsets.truncate(offset)
        self.times.truncate(offset)
        self.txns.truncate(offset)
        if extent is not None:
            self._truncate_file(extent.position)
        self._since_entry = 0
        self._note_fullness()
        self._reload_timestamps()

    def restore_end(self, offset: int) -> None:
        """Repair a closed segment below the recovery point after a power failure.

        Truncated bytes after the batch before `offset` may have come back, and the time index
        entry that `seal` had added may be lost. CorruptLogError for other damage. The transaction
        index stays: whether an entry at `offset` or above has come back too, or is a damaged one
        of this segment, only its records show (`TxnIndex.damage`).
        """
        self.offsets.truncate(offset)
        last = self.find(offset - 1)
        if last is not None and last.last_offset == offset - 1:
            end = last.position + last.size
            if end < self.size:
                self._check_follows(end, offset)
                self._truncate_file(end)
        self._reload_timestamps()
        self.seal()

    def _check_follows(self, position: int, offset: int) -> None:
        """CorruptLogError if at `position` there is a batch below `offset`: what was truncated was
        not below it, so that the offsets of a batch before it must be wrong."""
        try:
            extent = self.extent_at(position)
        except CorruptLogError:
            return
        if extent.last_offset < offset:
            raise CorruptLogError(self.path, position, f"offsets before {offset} are out of order")

    def _reload_timestamps(self) -> None:
        """Reload the timestamps after the indexes were truncated, perhaps to too few entries."""
        self._first_timestamp = UNKNOWN if self.size else -1
        if not is_entry_valid(self, self.times, len(self.times) - 1):
            self.rebuild_indexes()
        self._look_up_max_timestamp(self._last_timed)

    def _last_timed(self) -> int:
        """The position of the last batch in the time index, which may have lost more entries in a
        power failure than the offset index; 0 if there is none."""
        timestamp, offset = self.times.last()
        extent = self.find(offset) if timestamp >= 0 else None
        return 0 if extent is None else min(extent.position, self._last_indexed())

    def _look_up_max_timestamp(self, covered: Callable[[], int]) -> None:
        """Find it from the time index, which may be truncated, and the batches that are not in the
        index: those from the position `covered` on. A batch whose offset is damaged can't be read,
        and does not count."""
        self._max_timestamp, self._max_timestamp_offset = self.times.last()
        for _, header in headers(self.file, self.path, covered(), self.size):
            is_possible = 0 <= header.last_offset - self.base_offset <= RELATIVE_OFFSET_MAX
            if header.newest_timestamp > self._max_timestamp and is_possible:
                self._max_timestamp = header.max_timestamp
                self._max_timestamp_offset = header.last_offset

    # --- searching

    def next_offset(self, scanner: BatchScanner) -> int:
        """The offset after the last batch; the base offset if there is none.

        CorruptLogError if the segment does not end with a valid batch, as checked by `scanner`.
        """
        last: Extent | None = None
        start = self._last_indexed() if self.size > SEEK_BYTES else 0
        for extent in extents(self.file, self.path, start, self.size):
            last = extent
        if last is None:
            return self.base_offset
        scanner.check(self.file, self.path, last)
        return last.last_offset + 1

    def _last_indexed(self) -> int:
        """The position of the last batch in the offset index; 0 if there is none."""
        found = self._indexed(lambda: self.offsets.last())
        return 0 if found is None else found.position

    def indexed_before(self, position: int) -> Extent | None:
        """The last indexed batch at `position` or before; None if there is none, or on damage."""
        try:
            return self._indexed(lambda: self.offsets.last_before(position))
        except CorruptLogError:
            return None

    def indexed_after(self, position: int) -> int:
        """The first indexed offset at or after a position; -1 if there is none, or on damage."""
        try:
            found = self._indexed(lambda: self.offsets.first_from(position))
        except CorruptLogError:
            return -1
        return -1 if found is None else found.last_offset

    def _indexed(self, look_up: Callable[[], IndexEntry | None]) -> Extent | None:
        """The batch of an offset index entry. If the entry is wrong the indexes are rebuilt."""
        entry = look_up()
        if entry is None:
            return None
        with suppress(CorruptLogError):
            extent = self.extent_at(entry.position)
            if extent.last_offset == entry.offset:
                return extent
        self.rebuild_indexes()
        entry = look_up()
        return None if entry is None else self.extent_at(entry.position)

    def find(self, offset: int) -> Extent | None:
        """The first batch that ends at `offset` or later; None if the segment ends before.

        CorruptLogError if the segment itself is damaged. A wrong index is rebuilt.
        """
        try:
            found = self._find(offset)
        except _WrongIndexError:
            found = self._find_after_rebuild(offset)
        if found is not None and found.last_offset - self.base_offset > RELATIVE_OFFSET_MAX:
            raise CorruptLogError(self.path, found.position, "its offset would be too high")
        return found

    def _find_after_rebuild(self, offset: int) -> Extent | None:
        self.rebuild_indexes()
        try:
            return self._find(offset)
        except _WrongIndexError as error:
            raise CorruptLogError(self.path, 0, "no index fits its batches") from error

    def _find(self, offset: int) -> Extent | None:
        floor = self.offsets.floor(offset)
        if floor.position and not 0 < floor.position < self.size:
            raise _WrongIndexError
        if floor.offset < offset <= floor.next_offset:
            # a fetch that continues an earlier one asks for exactly this batch
            try:
                candidate = self.extent_at(floor.next_position)
            except CorruptLogError as error:
                raise _WrongIndexError from error
            if candidate.last_offset != floor.next_offset:
                raise _WrongIndexError
            if candidate.base_offset <= offset:
                return candidate
        indexed_upto = floor.position + max(self._index_interval_bytes, GAP_BYTES_MAX)
        beyond = False
        try:
            for extent in extents(self.file, self.path, floor.position, self.size):
                if extent.position == floor.position and floor.offset not in (
                    -1,
                    extent.last_offset,
                ):
                    raise _WrongIndexError
                if beyond:
                    raise _WrongIndexError  # a batch before this one should have had an entry
                if extent.last_offset >= offset:
                    return extent
                beyond = extent.position > indexed_upto
        except CorruptLogError as error:
            if error.position == floor.position and floor.offset >= 0:
                raise _WrongIndexError from error
            raise
        return None

    def extent_at(self, position: int) -> Extent:
        """The batch at `position`; CorruptLogError if there is none."""
        return extent_at(self.file, self.path, position, self.size)

    def find_timestamp(
        self, timestamp_ms: int, from_offset: int, headers_max: int = ANY_NUMBER
    ) -> Extent | None:
        """The first batch with a timestamp of at least `timestamp_ms`, skipping those that end
        before `from_offset`; None if there is none. SearchPaused after `headers_max`."""
        return find_timestamp(self, timestamp_ms, from_offset, headers_max)

    # --- indexes

    @property
    def offsets(self) -> OffsetIndex:
        """The offset index."""
        offsets = self._offsets
        return self._open_offsets() if offsets is None else offsets

    @property
    def times(self) -> TimeIndex:
        """The time index."""
        times = self._times
        return self._open_times() if times is None else times

    def _open_offsets(self) -> OffsetIndex:
        path = self.path_of(INDEX)
        count = self._entries_in(path, OFFSET_ENTRY_BYTES)
        if count is None:
            self.rebuild_indexes()
            return self.offsets
        self._offsets = OffsetIndex(
            self._disk.fs, self._disk.indexes, path, self.base_offset, count
        )
        return self._offsets

    def _open_times(self) -> TimeIndex:
        path = self.path_of(TIME_INDEX)
        count = self._entries_in(path, TIME_ENTRY_BYTES)
        if count is not None:
            times = TimeIndex(self._disk.fs, path, self.base_offset, count)
            valid = is_last_entry_valid(self, times)
            if valid and self._times is None:  # else the check has rebuilt both indexes
                self._times = times
        if self._times is None:
            self.rebuild_indexes()
        return self.times

    def _entries_in(self, path: str, entry_bytes: int) -> int | None:
        try:
            size = self._disk.fs.size(path)
        except FileNotFoundError:
            return None
        return None if size % entry_bytes else size // entry_bytes

    def _create_indexes(self) -> None:
        fs = self._disk.fs
        if self._offsets is not None:
            self._disk.indexes.forget(self._offsets)
        for suffix in (INDEX, TIME_INDEX):
            fs.create(self.path_of(suffix))
        base = self.base_offset
        self._offsets = OffsetIndex(fs, self._disk.indexes, self.path_of(INDEX), base, 0)
        self._times = TimeIndex(fs, self.path_of(TIME_INDEX), base, 0)
        self._since_entry = 0
        self._first_timestamp = self._max_timestamp = -1
        self._max_timestamp_offset = base

    def rebuild_indexes(self) -> None:
        """Rebuild both indexes from the batch headers, without checking CRCs, with fsync.

        For missing or wrong indexes. What lies behind a damaged batch is found through the old
        entries. Where there are none the index ends, and a reader comes upon the damage.
        """
        logger.warning("rebuilding the indexes of %s: they are missing or damaged", self.path)
        end = self.size
        old = self._old_entries()
        self.reset()
        try:
            self._index_all(end, old)
        finally:
            self.size = end
        self.seal()
        for suffix in (INDEX, TIME_INDEX):
            self._disk.fs.sync_file(self.path_of(suffix))
        self._disk.fs.sync_dir(self.directory)

    def _old_entries(self) -> OffsetIndex | None:
        """The offset index as it is, in memory; None if it is missing or has no whole entries."""
        count = self._entries_in(self.path_of(INDEX), OFFSET_ENTRY_BYTES)
        if count is None:
            return None
        old = self.offsets
        old.load()
        self._disk.indexes.forget(old)  # else it would be unloaded
        return old

    def _index_all(self, end: int, old: OffsetIndex | None) -> None:
        """Index all batches up to position `end`, around damage if an old entry is behind it."""
        start = 0
        following = self.base_offset
        while True:
            try:
                for position, header in headers(self.file, self.path, start, end):
                    last = header.last_offset
                    is_too_far = last - self.base_offset > RELATIVE_OFFSET_MAX
                    if header.base_offset < following or is_too_far:
                        raise CorruptLogError(self.path, position, "its offsets are out of order")
                    self.index(position, header)
                    following = last + 1
            except CorruptLogError as damage:
                logger.error("%s; its records can't be read", damage.message)
                resumed = self._first_valid(old, damage.position + 1, following)
                if resumed < 0:
                    return
                start = resumed
                self._since_entry = self._index_interval_bytes + 1  # so that it has an entry
            else:
                return

    def _first_valid(self, old: OffsetIndex | None, position: int, offset: int) -> int:
        """The position of the first old entry at `position` or after that leads to a batch at
        `offset` or after; -1 if there is none."""
        entry = None if old is None else old.first_from(position)
        while old is not None and entry is not None:
            with suppress(CorruptLogError):
                extent = extent_at(
                    self.file, self.path, entry.position, self._disk.fs.size(self.path)
                )
                if extent.last_offset == entry.offset and extent.base_offset >= offset:
                    return entry.position
            entry = old.first_from(entry.position + 1)
        return -1

    def index_paths(self) -> list[str]:
        """The paths of its index files."""
        suffixes = (INDEX, TIME_INDEX, TXN_INDEX)[: 2 + self.txns.has_file]
        return [self.path_of(suffix) for suffix in suffixes]

    def reset(self) -> None:
        """Clear size and indexes. The caller then calls `index` for each valid batch, and `seal`
        and `truncate_tail` at the end."""
        self._create_indexes()
        self.size = 0


class _WrongIndexError(Exception):
    """An index entry does not match the batches."""
