"""The transaction index of a segment (`.txnindex`): aborted transactions whose marker is in it.

Kafka's format: 34 bytes an entry, in the order of the markers. A reader of committed records is
told by it whose records to skip (KIP-98). There is no file before there is an entry. What is
appended is in the file at once, without fsync: a crash has the index made anew from the batches.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from kavka.log.errors import CorruptFileError
from kavka.log.fs import File, FileSystem

TXN_ENTRY_BYTES: Final = 34
READ_ENTRIES: Final = 128
"""Entries read at a time."""

ABORTED_MAX: Final = 2000
"""Aborted transactions that a reader is told of at once, at 1 us each. More only where none of
the records could be given without them."""

_VERSION: Final = 0
_ENTRY: Final = struct.Struct(">hqqqq")
_LAST_OFFSET: Final = struct.Struct(">18xq8x")


class AbortedTxn(NamedTuple):
    """An aborted transaction: its first record, its marker, and the offset below which every
    transaction was decided when that was written."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TxnIndex:
    """The index at `path`, of which `count` entries may be relied on."""

    __slots__ = ("_fs", "count", "has_file", "last_offset", "path")

    def __init__(self, fs: FileSystem, path: str, count: int = 0) -> None:
        """One without entries has no file, as far as is known; see `find`."""
        self._fs = fs
        self.path = path
        self.has_file = count > 0
        self._take(count)

    def find(self) -> None:
        """Take over the file that is there, as far as it has whole entries."""
        self.has_file = True
        self._take(self._fs.size(self.path) // TXN_ENTRY_BYTES)

    def _take(self, count: int) -> None:
        self.count = count
        self.last_offset = -1
        """The marker of the last entry; -1 when there is none."""
        if count:
            self.last_offset = self._last_offset_at(self._fs.open(self.path), count - 1)

    def append(self, aborted: AbortedTxn) -> None:
        """Add an entry; markers rise. OSError: it is not there."""
        file = self._fs.open(self.path) if self.count else self._fs.create(self.path)
        self.has_file = True
        file.pwrite(_ENTRY.pack(_VERSION, *aborted), self.count * TXN_ENTRY_BYTES)
        self.count += 1
        self.last_offset = aborted.last_offset

    def drop(self) -> None:
        """Remove the file and all entries; `append` makes another."""
        if self.has_file:
            self._fs.remove(self.path)
            self.has_file = False
            self._take(0)

    def replace(self, entries: Sequence[AbortedTxn]) -> None:
        """Have these in the place of all entries, at once and on the disk: that some are lacking
        could not be seen later. OSError."""
        if not entries:
            self.drop()
            self.sync()
            return
        data = b"".join(_ENTRY.pack(_VERSION, *aborted) for aborted in entries)
        self._fs.write_atomic(self.path, data, sync=True)
        self.has_file = True
        self._take(len(entries))

    def sync(self) -> None:
        """Have the entries, or that there are none, survive a power cut."""
        if self.has_file:
            self._fs.sync_file(self.path)
        self._fs.sync_dir(self.path.rpartition("/")[0])

    def truncate(self, offset: int) -> None:
        """Drop the entries with a marker at `offset` or above, here and in the file."""
        if self.last_offset < offset:
            return
        file = self._fs.open(self.path)
        self.count = self._slot(file, offset)
        file.truncate(self.count * TXN_ENTRY_BYTES)
        self.last_offset = self._last_offset_at(file, self.count - 1) if self.count else -1

    def collect(self, from_offset: int, upper: int, found: list[AbortedTxn]) -> int | None:
        """Add the transactions that have records from `from_offset` on and below `upper`.

        Returns the offset below which later segments hold none, because all was decided when an
        entry was written: `upper` or more, or less where `ABORTED_MAX` were found; None: not yet.
        """
        if self.last_offset < from_offset:
            return None
        file = self._fs.open(self.path)
        for aborted in self._entries(file, self._slot(file, from_offset)):
            if aborted.first_offset < upper:
                found.append(aborted)
            stable = aborted.last_stable_offset
            if stable >= upper or (len(found) >= ABORTED_MAX and stable > from_offset):
                return stable
        return None

    def entries(self) -> Iterator[AbortedTxn]:
        """All entries."""
        if self.count:
            yield from self._entries(self._fs.open(self.path), 0)

    def damage(self, base_offset: int, end_offset: int) -> str | None:
        """Why this can't be the index of a segment with these offsets; None when it can."""
        odd = self._fs.size(self.path) - self.count * TXN_ENTRY_BYTES
        if odd:
            return f"{odd} bytes are left behind its last entry"
        before = base_offset - 1
        for _, first, last, stable in self.entries():
            if not before < last < end_offset or not 0 <= first < last:
                return f"a transaction from {first} to {last} has no place in it"
            if not 0 <= stable <= last + 1:
                return f"{stable} can't be the last stable offset at {last}"
            before = last
        return None

    def last(self) -> AbortedTxn:
        """The last entry, if there is one."""
        return next(self._entries(self._fs.open(self.path), self.count - 1))

    def _entries(self, file: File, slot: int) -> Iterator[AbortedTxn]:
        while slot < self.count:
            wanted = min(READ_ENTRIES, self.count - slot)
            data = file.pread(wanted * TXN_ENTRY_BYTES, slot * TXN_ENTRY_BYTES)
            for version, *fields in _ENTRY.iter_unpack(data):
                if version != _VERSION:
                    raise CorruptFileError(self.path, f"an entry has version {version}")
                yield AbortedTxn._make(fields)
            slot += wanted

    def _slot(self, file: File, offset: int) -> int:
        """The first entry with a marker at `offset` or above."""
        return bisect_left(
            range(self.count), offset, key=lambda slot: self._last_offset_at(file, slot)
        )

    @staticmethod
    def _last_offset_at(file: File, slot: int) -> int:
        offset: int
        (offset,) = _LAST_OFFSET.unpack(file.pread(TXN_ENTRY_BYTES, slot * TXN_ENTRY_BYTES))
        return offset


class Aborted(NamedTuple):
    """The aborted transactions of a range of offsets; all of them below `upto`, if that is given:
    it lies behind the beginning of the range."""

    found: Sequence[AbortedTxn] = ()
    upto: int | None = None


def collect_aborted(indexes: Iterable[TxnIndex], from_offset: int, upper: int) -> Aborted:
    """The aborted transactions with records from `from_offset` on and below `upper`, by the
    indexes of the segment that `from_offset` is in and of those behind it.

    Where there are very many only those up to some offset are found.
    """
    found: list[AbortedTxn] = []
    for index in indexes:
        stable = index.collect(from_offset, upper, found)
        if stable is not None:
            return Aborted(found, stable if stable < upper else None)
    return Aborted(found)
