"""One segment of a partition: a file of record batches, its two indexes and their upkeep.

The last segment of a log is its active one and is appended to; the others only get read. Which
offsets a reader may see, when to roll and what to recover are the owners' business.
"""

from __future__ import annotations

from typing import Final

from kavka.log.disk import Disk
from kavka.log.errors import CorruptLogError
from kavka.log.fs import Buffer, File
from kavka.log.index import (
    OFFSET_ENTRY_BYTES,
    TIME_ENTRY_BYTES,
    OffsetIndex,
    TimeIndex,
)
from kavka.log.scan import Extent, extents, headers

RELATIVE_OFFSET_MAX: Final = 0x7FFFFFFF
"""How far a segment may reach beyond its base offset: what an index entry can hold."""

UNKNOWN: Final = -2
"""A timestamp that has not been looked up yet."""

LOG: Final = ".log"
INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
TXN_INDEX: Final = ".txnindex"
SNAPSHOT: Final = ".snapshot"
DELETED: Final = ".deleted"


def file_name(offset: int, suffix: str) -> str:
    """A segment's or snapshot's file name."""
    return f"{offset:020d}{suffix}"


class Segment:
    """The batches from `base_offset` on, up to the next segment. Positions and sizes in bytes."""

    __slots__ = (
        "_disk",
        "_max_timestamp",
        "_max_timestamp_offset",
        "_offsets",
        "_times",
        "base_offset",
        "directory",
        "first_timestamp",
        "open_file",
        "since_index_entry",
        "size",
        "used",
    )

    def __init__(self, disk: Disk, directory: str, base_offset: int, size: int) -> None:
        """An existing segment whose file holds `size` bytes of batches."""
        self._disk = disk
        self.directory = directory
        self.base_offset = base_offset
        self.size = size
        self.open_file: File | None = None
        self.used = False
        self.since_index_entry = 0
        self.first_timestamp = UNKNOWN if size else -1
        self._max_timestamp = UNKNOWN if size else -1
        self._max_timestamp_offset = base_offset
        self._offsets: OffsetIndex | None = None
        self._times: TimeIndex | None = None

    @classmethod
    def create(cls, disk: Disk, directory: str, base_offset: int) -> Segment:
        """A new, empty segment with its files; leftovers of the same names are emptied."""
        segment = cls(disk, directory, base_offset, 0)
        segment.create_indexes()
        segment.open_file = disk.fs.create(segment.path)
        disk.files.hold(segment)
        return segment

    def create_indexes(self) -> None:
        """Start with empty index files."""
        fs = self._disk.fs
        for suffix in (INDEX, TIME_INDEX):
            fs.create(self.path_of(suffix))
        self._forget_indexes()
        self._offsets = OffsetIndex(
            fs, self._disk.indexes, self.path_of(INDEX), self.base_offset, 0
        )
        self._times = TimeIndex(fs, self.path_of(TIME_INDEX), self.base_offset, 0)

    def path_of(self, suffix: str) -> str:
        """The path of one of the segment's files."""
        return f"{self.directory}/{self.base_offset:020d}{suffix}"

    @property
    def path(self) -> str:
        """The path of the batches."""
        return self.path_of(LOG)

    @property
    def file(self) -> File:
        """The file with the batches, opened when it isn't."""
        self.used = True
        file = self.open_file
        if file is None:
            self.open_file = file = self._disk.fs.open(self.path)
            self._disk.files.hold(self)
        return file

    # --- indexes

    @property
    def offsets(self) -> OffsetIndex:
        """The offset index."""
        return self._offsets or self._open_offsets()

    @property
    def times(self) -> TimeIndex:
        """The time index."""
        return self._times or self._open_times()

    def _open_offsets(self) -> OffsetIndex:
        path = self.path_of(INDEX)
        size = self._index_size(path, OFFSET_ENTRY_BYTES)
        if size is None:
            self.rebuild_indexes()
            assert self._offsets is not None
            return self._offsets
        self._offsets = OffsetIndex(
            self._disk.fs,
            self._disk.indexes,
            path,
            self.base_offset,
            size // OFFSET_ENTRY_BYTES,
        )
        return self._offsets

    def _open_times(self) -> TimeIndex:
        path = self.path_of(TIME_INDEX)
        size = self._index_size(path, TIME_ENTRY_BYTES)
        times = None
        if size is not None:
            times = TimeIndex(self._disk.fs, path, self.base_offset, size // TIME_ENTRY_BYTES)
            timestamp, offset = times.last()
            if size and (timestamp < times.entry(0)[0] or offset < self.base_offset):
                times = None
        if times is None:
            self.rebuild_indexes()
            assert self._times is not None
            return self._times
        self._times = times
        return times

    def _index_size(self, path: str, entry_bytes: int) -> int | None:
        try:
            size = self._disk.fs.size(path)
        except FileNotFoundError:
            return None
        return size if size % entry_bytes == 0 else None

    def rebuild_indexes(self) -> None:
        """Write both indexes anew from the batches' headers; CRCs are not looked at.

        For indexes that are missing or wrong in a segment that can be relied on otherwise.
        """
        raise NotImplementedError
