"""The two sparse indexes of a segment, in Apache Kafka's file format.

`.index`: the last offset of a batch (relative to the segment's base offset) and the batch's file
position, 4 bytes each. `.timeindex`: the greatest timestamp up to a batch (8 bytes) and the
batch's relative last offset (4). Big-endian, in increasing order.

Entries are kept in memory and written in blocks, so a crash loses some; recovery rebuilds them.
Of an offset index the newest entries stay in memory; older ones are loaded on demand and evicted
by `IndexCache`, so that memory does not grow with the log. A time index is read from its file.

An index may be damaged. The segment validates each entry that it uses against the log (in
`times.py` for time indexes); no response to a client depends on an unvalidated entry.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

from kavka.log.fs import File, FileSystem

OFFSET_ENTRY_BYTES: Final = 8
TIME_ENTRY_BYTES: Final = 12
TAIL_ENTRIES: Final = 512
"""Entries that an index keeps in memory; at twice as many the older half is dropped."""

_RELATIVE_MAX: Final = 0x7FFFFFFF
_TIME_ENTRY: Final = struct.Struct(">qi")


class IndexEntry(NamedTuple):
    """The last offset of a batch, and its position."""

    offset: int
    position: int


class Floor(NamedTuple):
    """An index entry and the one after it. Offsets are absolute; -1 where there is no entry."""

    offset: int
    position: int
    next_offset: int
    next_position: int


class IndexCache:
    """The offset indexes whose older entries are in memory; an LRU cache."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._held_bytes = 0
        self._sizes: OrderedDict[OffsetIndex, int] = OrderedDict()

    @property
    def held_bytes(self) -> int:
        """Memory of the loaded entries."""
        return self._held_bytes

    def hold(self, index: OffsetIndex, size: int) -> None:
        """Register that `index` has loaded `size` bytes; evict others if there are too many."""
        self.forget(index)
        self._sizes[index] = size
        self._held_bytes += size
        while self._held_bytes > self._limit_bytes and len(self._sizes) > 1:
            oldest, old_size = self._sizes.popitem(last=False)
            self._held_bytes -= old_size
            oldest.unload()

    def forget(self, index: OffsetIndex) -> None:
        """`index` has unloaded its entries itself."""
        self._held_bytes -= self._sizes.pop(index, 0)


class OffsetIndex:
    """Maps offsets to positions in the segment file."""

    __slots__ = (
        "_base",
        "_cache",
        "_count",
        "_first",
        "_fs",
        "_head",
        "_offsets",
        "_path",
        "_positions",
        "_written",
    )

    def __init__(self, fs: FileSystem, cache: IndexCache, path: str, base: int, count: int) -> None:
        """The index at `path`, whose file has `count` entries to use."""
        self._fs = fs
        self._cache = cache
        self._path = path
        self._base = base
        self._count = self._first = self._written = count
        self._offsets = array("i")  # relative offsets of the entries from `_first` on
        self._positions = array("i")
        self._head: tuple[array[int], array[int]] | None = None  # the entries before `_first`

    def __len__(self) -> int:
        return self._count

    @property
    def path(self) -> str:
        """The path of the file."""
        return self._path

    @property
    def needs_write(self) -> bool:
        """Whether `write` should come before the next `append`."""
        return len(self._offsets) >= 2 * TAIL_ENTRIES

    def append(self, offset: int, position: int) -> None:
        """Add the batch that ends with `offset` and starts at `position`; both increase."""
        self._offsets.append(offset - self._base)
        self._positions.append(position)
        self._count += 1

    def floor(self, offset: int) -> Floor:
        """The last entry whose offset is not above `offset`, and the next one."""
        relative = offset - self._base
        base = self._base
        offsets, positions = self._offsets, self._positions
        if self._first and not (offsets and offsets[0] <= relative):
            offsets, positions = self._head or self._load_head()
        after = bisect_right(offsets, relative)
        if after < len(offsets):
            next_offset, next_position = offsets[after] + base, positions[after]
        elif offsets is not self._offsets and self._offsets:
            next_offset, next_position = self._offsets[0] + base, self._positions[0]
        else:
            next_offset = next_position = -1
        if after == 0:
            return Floor(-1, 0, next_offset, next_position)
        return Floor(offsets[after - 1] + base, positions[after - 1], next_offset, next_position)

    def last_before(self, position: int) -> IndexEntry | None:
        """The last entry at `position` or before; None if there is none."""
        offsets, positions = self._offsets, self._positions
        if self._first and not (positions and positions[0] <= position):
            offsets, positions = self._head or self._load_head()
        after = bisect_right(positions, position)
        return IndexEntry(offsets[after - 1] + self._base, positions[after - 1]) if after else None

    def first_from(self, position: int) -> IndexEntry | None:
        """The first entry at `position` or after; None if there is none."""
        offsets, positions = self._offsets, self._positions
        if self._first and not (positions and positions[0] <= position):
            offsets, positions = self._head or self._load_head()
            if not positions or positions[-1] < position:
                offsets, positions = self._offsets, self._positions
        after = bisect_left(positions, position)
        if after == len(offsets):
            return None
        return IndexEntry(offsets[after] + self._base, positions[after])

    def last(self) -> IndexEntry | None:
        """The last entry; None if there is none."""
        offsets, positions = self._offsets, self._positions
        if self._first and not offsets:
            offsets, positions = self._head or self._load_head()
        return IndexEntry(offsets[-1] + self._base, positions[-1]) if offsets else None

    def truncate(self, offset: int) -> None:
        """Drop the entries at `offset` and above, here and in the file."""
        relative = min(max(offset - self._base, -1), _RELATIVE_MAX)
        if self._first and not (self._offsets and self._offsets[0] < relative):
            keep = bisect_left((self._head or self._load_head())[0], relative)
        else:
            keep = self._first + bisect_left(self._offsets, relative)
        self._truncate_entries(keep)

    def _truncate_entries(self, keep: int) -> None:
        if keep >= self._count:
            return
        if keep < self._first:
            self.unload()
            self._cache.forget(self)
            self._first = keep
        del self._offsets[keep - self._first :]
        del self._positions[keep - self._first :]
        self._count = keep
        if keep < self._written:
            self._fs.open(self._path).truncate(keep * OFFSET_ENTRY_BYTES)
            self._written = keep

    def write(self) -> None:
        """Write new entries to the file, without fsync, and drop old ones from memory."""
        if self._written < self._count:
            start = self._written - self._first
            block = array("i", bytes((self._count - self._written) * OFFSET_ENTRY_BYTES))
            block[0::2] = self._offsets[start:]
            block[1::2] = self._positions[start:]
            if sys.byteorder == "little":
                block.byteswap()
            file = self._fs.open(self._path)
            file.pwrite(block.tobytes(), self._written * OFFSET_ENTRY_BYTES)
            self._written = self._count
        drop = len(self._offsets) - TAIL_ENTRIES
        if drop > 0:
            self._drop_oldest(drop)

    def _drop_oldest(self, count: int) -> None:
        if self._head is not None:
            self._head[0].extend(self._offsets[:count])
            self._head[1].extend(self._positions[:count])
            self._cache.hold(self, OFFSET_ENTRY_BYTES * len(self._head[0]))
        del self._offsets[:count]
        del self._positions[:count]
        self._first += count

    def load(self) -> None:
        """Load all entries into memory."""
        if self._first and self._head is None:
            self._load_head()

    def unload(self) -> None:
        """Drop the entries that were loaded from the file."""
        self._head = None

    def move_to(self, cache: IndexCache) -> None:
        """Use `cache` from now on; drops what was loaded."""
        self._cache.forget(self)
        self.unload()
        self._cache = cache

    def relocate(self, path: str) -> None:
        """Use the file at another path, which has the same content."""
        self._path = path

    def _load_head(self) -> tuple[array[int], array[int]]:
        data = self._fs.open(self._path).pread(self._first * OFFSET_ENTRY_BYTES, 0)
        entries = array("i")
        entries.frombytes(data[: len(data) - len(data) % OFFSET_ENTRY_BYTES])
        if sys.byteorder == "little":
            entries.byteswap()
        self._head = head = (entries[0::2], entries[1::2])
        self._cache.hold(self, len(data))
        return head


class TimeIndex:
    """Maps timestamps to offsets: the greatest timestamp up to an offset."""

    __slots__ = ("_base", "_fs", "_offsets", "_path", "_timestamps", "_written", "last_timestamp")

    def __init__(self, fs: FileSystem, path: str, base: int, count: int) -> None:
        """The index at `path`, whose file has `count` entries to use."""
        self._fs = fs
        self._path = path
        self._base = base
        self._written = count
        self._timestamps = array("q")  # the entries that are not in the file yet
        self._offsets = array("i")
        self.last_timestamp = -1
        if count:
            self.last_timestamp = self.entry(count - 1)[0]

    def __len__(self) -> int:
        return self._written + len(self._timestamps)

    @property
    def path(self) -> str:
        """The path of the file."""
        return self._path

    def append(self, timestamp: int, offset: int) -> None:
        """Add an entry with the greatest timestamp so far; ignored if not above the last one."""
        if timestamp > self.last_timestamp:
            self._timestamps.append(timestamp)
            self._offsets.append(offset - self._base)
            self.last_timestamp = timestamp

    def entry(self, slot: int) -> tuple[int, int]:
        """Timestamp and offset of one entry."""
        if slot >= self._written:
            slot -= self._written
            return self._timestamps[slot], self._offsets[slot] + self._base
        return self._read(self._fs.open(self._path), slot)

    def _read(self, file: File, slot: int) -> tuple[int, int]:
        data = file.pread(TIME_ENTRY_BYTES, slot * TIME_ENTRY_BYTES)
        timestamp, relative = _TIME_ENTRY.unpack(data)
        return timestamp, relative + self._base

    def last(self) -> tuple[int, int]:
        """The last entry; (-1, base offset) if there is none."""
        return self.entry(len(self) - 1) if len(self) else (-1, self._base)

    def slot(self, timestamp: int) -> int:
        """The last entry whose timestamp is not above `timestamp`; -1: there is none."""
        return bisect_right(range(len(self)), timestamp, key=self._slot_key(0)) - 1

    def truncate(self, offset: int) -> None:
        """Drop the entries at `offset` and above, here and in the file."""
        self._truncate_entries(bisect_left(range(len(self)), offset, key=self._slot_key(1)))

    def _slot_key(self, column: int) -> Callable[[int], int]:
        """A bisect key for slots; opens the file only once."""
        file = self._fs.open(self._path)

        def key(slot: int) -> int:
            entry = self.entry(slot) if slot >= self._written else self._read(file, slot)
            return entry[column]

        return key

    def _truncate_entries(self, keep: int) -> None:
        if keep >= len(self):
            return
        del self._timestamps[max(0, keep - self._written) :]
        del self._offsets[max(0, keep - self._written) :]
        if keep < self._written:
            self._fs.open(self._path).truncate(keep * TIME_ENTRY_BYTES)
            self._written = keep
        self.last_timestamp = self.last()[0]

    def write(self) -> None:
        """Write new entries to the file, without fsync, and drop them from memory."""
        if not self._timestamps:
            return
        block = b"".join(map(_TIME_ENTRY.pack, self._timestamps, self._offsets))
        self._fs.open(self._path).pwrite(block, self._written * TIME_ENTRY_BYTES)
        self._written += len(self._timestamps)
        del self._timestamps[:]
        del self._offsets[:]

    def relocate(self, path: str) -> None:
        """Use the file at another path, which has the same content."""
        self._path = path
