"""The transaction index of a segment (`.txnindex`): aborted transactions whose marker is in it.

Kafka's format: 34 bytes an entry, in the order of the markers. A reader of committed records is
told by it whose records to skip (KIP-98). There is no file before there is an entry. What is
appended is in the file at once, without fsync: a crash has the index made anew from the batches.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from kavka.log.errors import CorruptFileError
from kavka.log.fs import File, FileSystem

TXN_ENTRY_BYTES: Final = 34
READ_ENTRIES: Final = 128
"""Entries read at a time, or passed over."""

ABORTED_MAX: Final = 2000
"""Aborted transactions that a reader is told of at once, at 1 us each. More only where none of
the records could be given without them: so many were going on at once."""

_VERSION: Final = 0
_ENTRY: Final = struct.Struct(">hqqqq")
_FIRST_OFFSET: Final = struct.Struct(">10xq16x")
_LAST_OFFSET: Final = struct.Struct(">18xq8x")
_STABLE: Final = struct.Struct(">26xq")


_NOTHING: Final[array[int]] = array("q")


class AbortedTxn(NamedTuple):
    """An aborted transaction: its first record, its marker, and the offset below which every
    transaction was decided when that was written."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TxnIndex:
    """The index at `path`, of which `count` entries may be relied on.

    Entries stand in the order of the markers, and readers ask for transactions that begin before
    an offset: where one of them goes on for long, those within it can only be looked through. So
    the least first offset of each `READ_ENTRIES` entries is kept.
    """

    __slots__ = ("_fs", "_least", "_scanned", "count", "has_file", "last_offset", "path")

    def __init__(self, fs: FileSystem, path: str, count: int = 0) -> None:
        """One without entries has no file, as far as is known; see `find`."""
        self._fs = fs
        self.path = path
        self.has_file = count > 0
        self._load(count)

    def find(self, suffix: str = "") -> None:
        """Take over the file that is there, as far as it has whole entries. With `suffix` behind
        its name, which it is about to lose. OSError: nothing has been taken over."""
        path = self.path + suffix
        self._load(self._fs.size(path) // TXN_ENTRY_BYTES, path)
        self.has_file = True

    def _load(self, count: int, path: str | None = None) -> None:
        self.count = count
        self._least = _NOTHING
        self._scanned = 0  # so many entries were looked at for it
        self.last_offset = -1
        """The marker of the last entry; -1 when there is none."""
        if count:
            file = self._fs.open(path or self.path)
            self.last_offset = self._number_at(file, count - 1, _LAST_OFFSET)

    def open(self) -> OpenTxnIndex:
        """The file, made if it is not there. OSError."""
        file = self._fs.open(self.path) if self.count else self._fs.create(self.path)
        self.has_file = True
        return OpenTxnIndex(self, file)

    def append(self, aborted: AbortedTxn, opened: OpenTxnIndex | None = None) -> None:
        """Add an entry; markers rise. `opened` may be this index. OSError: it is not there."""
        if opened is None or opened.of is not self:
            opened = self.open()
        opened.file.pwrite(_ENTRY.pack(_VERSION, *aborted), self.count * TXN_ENTRY_BYTES)
        if self._scanned == self.count:
            self._note_first_offset(aborted.first_offset)
        self.count += 1
        self.last_offset = aborted.last_offset

    def drop(self) -> None:
        """Remove the file and all entries; `append` makes another."""
        if self.has_file:
            self._fs.remove(self.path)
            self.has_file = False
            self._load(0)

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
        self._load(len(entries))

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
        self._scanned = min(self._scanned, self.count)
        del self._least[-(-self._scanned // READ_ENTRIES) :]
        self.last_offset = self._number_at(file, self.count - 1, _LAST_OFFSET) if self.count else -1

    def collect(self, found: AbortedSearch) -> bool:
        """Add the transactions that are looked for. True: later segments hold none, because all
        that begins before `found.upper` was decided when an entry was written."""
        from_offset = found.from_offset
        if self.last_offset < from_offset:
            return False
        file = self._fs.open(self.path)
        self._scan_rest(file)
        start = self._slot(file, from_offset)
        decided = bisect_left(
            range(self.count),
            found.upper,
            lo=start,
            key=lambda slot: self._number_at(file, slot, _STABLE),
        )
        end = min(decided + 1, self.count)
        for block in range(start // READ_ENTRIES, -(-end // READ_ENTRIES)):
            if self._least[block] < found.upper:
                first = max(start, block * READ_ENTRIES)
                last = min(end, (block + 1) * READ_ENTRIES)
                found.add(self._entries(file, first, last))
        return decided < self.count

    def _scan_rest(self, file: File) -> None:
        """Look at the entries of a file that was found."""
        while self._scanned < self.count:
            size = min(READ_ENTRIES, self.count - self._scanned) * TXN_ENTRY_BYTES
            data = file.pread(size, self._scanned * TXN_ENTRY_BYTES)
            for (first,) in _FIRST_OFFSET.iter_unpack(data):
                self._note_first_offset(first)

    def _note_first_offset(self, first_offset: int) -> None:
        """Take note of where the transaction of the next entry begins."""
        block, place = divmod(self._scanned, READ_ENTRIES)
        if not block and not place:
            self._least = array("q")
        if not place:
            self._least.append(first_offset)
        elif first_offset < self._least[block]:
            self._least[block] = first_offset
        self._scanned += 1

    def entries(self) -> Iterator[AbortedTxn]:
        """All entries."""
        if self.count:
            yield from self._entries(self._fs.open(self.path), 0, self.count)

    def damage(self, base_offset: int, end_offset: int) -> str | None:
        """Why this can't be the index of a segment with these offsets; None when it can."""
        odd = self._fs.size(self.path) - self.count * TXN_ENTRY_BYTES
        if odd:
            return f"{odd} bytes are left behind its last entry"
        before = base_offset - 1
        self._scanned = 0
        for _, first, last, stable in self.entries():
            self._note_first_offset(first)
            if not before < last < end_offset or not 0 <= first < last:
                return f"a transaction from {first} to {last} has no place in it"
            if not 0 <= stable <= last + 1:
                return f"{stable} can't be the last stable offset at {last}"
            before = last
        return None

    def last(self) -> AbortedTxn:
        """The last entry, if there is one."""
        return next(self._entries(self._fs.open(self.path), self.count - 1, self.count))

    def _entries(self, file: File, slot: int, end: int) -> Iterator[AbortedTxn]:
        while slot < end:
            wanted = min(READ_ENTRIES, end - slot)
            data = file.pread(wanted * TXN_ENTRY_BYTES, slot * TXN_ENTRY_BYTES)
            for version, *fields in _ENTRY.iter_unpack(data):
                if version != _VERSION:
                    raise CorruptFileError(self.path, f"an entry has version {version}")
                yield AbortedTxn._make(fields)
            slot += wanted

    def _slot(self, file: File, offset: int) -> int:
        """The first entry with a marker at `offset` or above."""
        return bisect_left(
            range(self.count), offset, key=lambda slot: self._number_at(file, slot, _LAST_OFFSET)
        )

    @staticmethod
    def _number_at(file: File, slot: int, field: struct.Struct) -> int:
        number: int
        (number,) = field.unpack(file.pread(TXN_ENTRY_BYTES, slot * TXN_ENTRY_BYTES))
        return number


class OpenTxnIndex(NamedTuple):
    """One that is ready for an entry, and needs no descriptor for that any more."""

    of: TxnIndex
    file: File


class AbortedSearch:
    """The transactions with records from `from_offset` on and below `upper`.

    Where they are more than `ABORTED_MAX`, `upper` is lowered to where one begins, but not to
    `base_offset` or below: the first batch that a reader is given begins there, or before.
    """

    __slots__ = ("_enough", "base_offset", "from_offset", "transactions", "upper")

    def __init__(self, from_offset: int, upper: int, base_offset: int) -> None:
        self.from_offset = from_offset
        self.base_offset = base_offset
        self.upper = upper
        self.transactions: list[AbortedTxn] = []
        self._enough = ABORTED_MAX + READ_ENTRIES

    def add(self, transactions: Iterable[AbortedTxn]) -> None:
        """Add those that begin below `upper`, of some whose markers lie behind `from_offset`."""
        upper = self.upper
        self.transactions += [one for one in transactions if one.first_offset < upper]
        if len(self.transactions) > self._enough:
            self.lower()
            # not looked through again and again if so many can't be done without
            self._enough = max(self._enough, 2 * len(self.transactions))

    def lower(self) -> None:
        """Lower `upper`, if they are too many and it can be."""
        if len(self.transactions) > ABORTED_MAX:
            firsts = sorted([one.first_offset for one in self.transactions])
            slot = max(ABORTED_MAX, bisect_right(firsts, self.base_offset))
            if slot < len(firsts):
                self.upper = upper = firsts[slot]
                self.transactions = [one for one in self.transactions if one.first_offset < upper]


class Aborted(NamedTuple):
    """The aborted transactions of a range of offsets; all of them below `upto`, if that is given:
    it lies behind the beginning of the range."""

    found: Sequence[AbortedTxn] = ()
    upto: int | None = None


def collect_aborted(
    indexes: Iterable[TxnIndex], from_offset: int, upper: int, base_offset: int
) -> Aborted:
    """The aborted transactions with records from `from_offset` on and below `upper`, by the
    indexes of the segment that `from_offset` is in and of those behind it.

    Where there are very many only those up to some offset behind `base_offset` are found, where
    the first batch is that the reader is given.
    """
    found = AbortedSearch(from_offset, upper, max(from_offset, base_offset))
    for index in indexes:
        if index.collect(found):
            break
    found.lower()
    return Aborted(found.transactions, found.upper if found.upper < upper else None)
