"""Compares the offset and time index of a segment with its batches, as these are read."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from kavka.log.fs import FileSystem
from kavka.log.index import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES
from kavka.wire.record_batches import BatchHeader

_OFFSET_ENTRY: Final = struct.Struct(">ii")
_TIME_ENTRY: Final = struct.Struct(">qi")


class OffsetEntry(NamedTuple):
    """The last offset of a batch, or of some, and where they begin."""

    offset: int
    position: int


class TimeEntry(NamedTuple):
    """The greatest timestamp up to an offset."""

    timestamp: int
    offset: int


def _rows(data: bytes, form: struct.Struct) -> Iterator[tuple[int, ...]]:
    """Without the zeros of a file that was open when its broker was killed: Apache Kafka gives it
    its full length beforehand."""
    end = len(data.rstrip(b"\0"))
    whole = len(data) - len(data) % form.size
    last = min(whole, end + -end % form.size)
    yield from form.iter_unpack(data[:last])


class OffsetIndexCheck:
    """Of an offset index: pass it the batches in order, and then `end`."""

    def __init__(self, fs: FileSystem, path: str, base: int) -> None:
        self._data = fs.read_bytes(path)
        rows = _rows(self._data, _OFFSET_ENTRY)
        self.entries: Final = [OffsetEntry(base + relative, at) for relative, at in rows]
        self._next = 0
        self._open: OffsetEntry | None = None
        self._is_behind_damage = False
        self.why: str | None = _form(self._data, OFFSET_ENTRY_BYTES)
        """What is wrong with it first."""

    def skip(self) -> None:
        """What comes next can't be read: entries of it can't be checked."""
        self._is_behind_damage = True
        self._open = None

    def batch(self, position: int, header: BatchHeader) -> None:
        """The next batch of the segment."""
        was_skipped, self._is_behind_damage = self._is_behind_damage, False
        while self._next < len(self.entries) and self.entries[self._next].position <= position:
            entry = self.entries[self._next]
            self._next += 1
            if entry.position < position and was_skipped:
                continue
            if entry.position < position:
                self._note(f"there is no batch at byte {entry.position}")
            self._open = entry
        if self._open is None:
            return
        if header.last_offset == self._open.offset:
            self._open = None
        elif header.last_offset > self._open.offset:
            self._note(f"byte {self._open.position} is not that of offset {self._open.offset}")
            self._open = None

    def end(self, *, is_whole: bool) -> None:
        """There are no more batches. If some can't be read, entries of these can't be checked."""
        if is_whole and self._open is not None:
            self._note(f"the segment ends before offset {self._open.offset}")
        elif is_whole and self._next < len(self.entries):
            self._note(f"there is no batch at byte {self.entries[self._next].position}")

    def _note(self, why: str) -> None:
        self.why = self.why or why


class TimeIndexCheck:
    """Of a time index: pass it the batches in order, and then `end`."""

    def __init__(self, fs: FileSystem, path: str, base: int) -> None:
        data = fs.read_bytes(path)
        rows = _rows(data, _TIME_ENTRY)
        self.entries: Final = [TimeEntry(timestamp, base + offset) for timestamp, offset in rows]
        self._next = 0
        self._is_behind_damage = False
        self.why: str | None = _form(data, TIME_ENTRY_BYTES)
        """What is wrong with it first."""

    def skip(self) -> None:
        """What comes next can't be read: entries of it can't be checked."""
        self._is_behind_damage = True

    def batch(self, header: BatchHeader) -> None:
        """The next batch of the segment."""
        was_skipped, self._is_behind_damage = self._is_behind_damage, False
        while self._next < len(self.entries):
            entry = self.entries[self._next]
            if entry.offset > header.last_offset:
                return
            self._next += 1
            if entry.offset < header.base_offset and was_skipped:
                continue
            if entry.offset < header.base_offset or entry.timestamp != header.max_timestamp:
                self._note(f"{entry.timestamp} is not the timestamp at offset {entry.offset}")

    def end(self, *, is_whole: bool) -> None:
        """There are no more batches."""
        if is_whole and self._next < len(self.entries):
            self._note(f"the segment ends before offset {self.entries[self._next].offset}")

    def _note(self, why: str) -> None:
        self.why = self.why or why


def _form(data: bytes, size: int) -> str | None:
    odd = len(data) % size
    return f"there are {odd} bytes after its last entry" if odd else None
