"""The transaction index of a segment (`.txnindex`): aborted transactions whose marker is in it.

Kafka's format: 34 bytes an entry, in the order of the markers. Fetches of read_committed consumers
return these transactions, so that the consumer skips their records (KIP-98). There is no file
without entries. Entries are written at once, without fsync: recovery rebuilds the index.
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
"""Entries read or skipped at a time."""

ABORTED_MAX: Final = 2000
"""Aborted transactions in one response, at 1 us each. More only if the first batch needs them,
because so many transactions were ongoing at once."""

_VERSION: Final = 0
_ENTRY: Final = struct.Struct(">hqqqq")
_FIRST_OFFSET: Final = struct.Struct(">10xq16x")
_LAST_OFFSET: Final = struct.Struct(">18xq8x")
_STABLE: Final = struct.Struct(">26xq")


_NOTHING: Final[array[int]] = array("q")


class AbortedTxn(NamedTuple):
    """An aborted transaction: the offsets of its first record and its marker, and the last stable
    offset when the marker was appended."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TxnIndex:
    """The index at `path`, with `count` entries to use.

    Entries are in the order of the markers, but a fetch needs the transactions that start before
    an offset, which can be anywhere after a long transaction. To skip blocks in a scan the least
    first offset of each `READ_ENTRIES` entries is kept in memory.
    """

    __slots__ = ("_fs", "_least", "_scanned", "count", "has_file", "last_offset", "path")

    def __init__(self, fs: FileSystem, path: str, count: int = 0) -> None:
        """Without entries there is no file unless `find` is called."""
        self._fs = fs
        self.path = path
        self.has_file = count > 0
        self._load(count)

    def find(self, suffix: str = "") -> None:
        """Use the existing file, up to its last whole entry. `suffix` is a suffix of its name that
        will be removed. OSError: nothing has changed."""
        path = self.path + suffix
        self._load(self._fs.size(path) // TXN_ENTRY_BYTES, path)
        self.has_file = True

    def _load(self, count: int, path: str | None = None) -> None:
        self.count = count
        self._least = _NOTHING
        self._scanned = 0  # entries that `_least` covers
        self.last_offset = -1
        """The marker offset of the last entry; -1 if there is none."""
        if count:
            file = self._fs.open(path or self.path)
            self.last_offset = self._number_at(file, count - 1, _LAST_OFFSET)

    def open(self) -> OpenTxnIndex:
        """Open the file, creating it if needed. OSError."""
        file = self._fs.open(self.path) if self.count else self._fs.create(self.path)
        self.has_file = True
        return OpenTxnIndex(self, file)

    def append(self, aborted: AbortedTxn, opened: OpenTxnIndex | None = None) -> None:
        """Add an entry; marker offsets increase. `opened` may be the file of this index. OSError:
        it was not added."""
        if opened is None or opened.of is not self:
            opened = self.open()
        opened.file.pwrite(_ENTRY.pack(_VERSION, *aborted), self.count * TXN_ENTRY_BYTES)
        if self._scanned == self.count:
            self._note_first_offset(aborted.first_offset)
        self.count += 1
        self.last_offset = aborted.last_offset

    def drop(self) -> None:
        """Remove all entries and the file; `append` creates a new one."""
        if self.has_file:
            self._fs.remove(self.path)
            self.has_file = False
            self._load(0)

    def replace(self, entries: Sequence[AbortedTxn]) -> None:
        """Replace all entries, atomically and with fsync, since missing entries could not be
        detected later. OSError."""
        if not entries:
            self.drop()
            self.sync()
            return
        data = b"".join(_ENTRY.pack(_VERSION, *aborted) for aborted in entries)
        self._fs.write_atomic(self.path, data, sync=True)
        self.has_file = True
        self._load(len(entries))

    def sync(self) -> None:
        """fsync the file, or its removal."""
        if self.has_file:
            self._fs.sync_file(self.path)
        self._fs.sync_dir(self.path.rpartition("/")[0])

    def truncate(self, offset: int) -> None:
        """Drop the entries with a marker at `offset` or above, in memory and in the file."""
        if self.last_offset < offset:
            return
        file = self._fs.open(self.path)
        self.count = self._slot(file, offset)
        file.truncate(self.count * TXN_ENTRY_BYTES)
        self._scanned = min(self._scanned, self.count)
        del self._least[-(-self._scanned // READ_ENTRIES) :]
        self.last_offset = self._number_at(file, self.count - 1, _LAST_OFFSET) if self.count else -1

    def collect(self, found: AbortedSearch) -> bool:
        """Add the matching transactions to `found`. True if later segments have none, because all
        that start before `found.upper` had ended when an entry was written."""
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
        """Scan the remaining entries of an existing file."""
        while self._scanned < self.count:
            size = min(READ_ENTRIES, self.count - self._scanned) * TXN_ENTRY_BYTES
            data = file.pread(size, self._scanned * TXN_ENTRY_BYTES)
            for (first,) in _FIRST_OFFSET.iter_unpack(data):
                self._note_first_offset(first)

    def _note_first_offset(self, first_offset: int) -> None:
        """Include the first offset of the next entry in `_least`."""
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
        """Why this index is invalid for a segment with these offsets; None if it is valid."""
        odd = self._fs.size(self.path) - self.count * TXN_ENTRY_BYTES
        if odd:
            return f"there are {odd} bytes after its last entry"
        before = base_offset - 1
        self._scanned = 0
        for _, first, last, stable in self.entries():
            self._note_first_offset(first)
            if not before < last < end_offset or not 0 <= first < last:
                return f"a transaction from {first} to {last} does not belong in it"
            if not 0 <= stable <= last + 1:
                return f"{stable} can't be the last stable offset at {last}"
            before = last
        return None

    def last(self) -> AbortedTxn:
        """The last entry; there must be one."""
        return next(self._entries(self._fs.open(self.path), self.count - 1, self.count))

    def _entries(self, file: File, slot: int, end: int) -> Iterator[AbortedTxn]:
        while slot < end:
            count = min(READ_ENTRIES, end - slot)
            data = file.pread(count * TXN_ENTRY_BYTES, slot * TXN_ENTRY_BYTES)
            for version, *fields in _ENTRY.iter_unpack(data):
                if version != _VERSION:
                    raise CorruptFileError(self.path, f"an entry has version {version}")
                yield AbortedTxn._make(fields)
            slot += count

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
    """An index with its open file, so that adding an entry needs no file descriptor."""

    of: TxnIndex
    file: File


class AbortedSearch:
    """Collects the transactions with records from `from_offset` on and below `upper`.

    If there are more than `ABORTED_MAX`, `upper` is lowered to the start of one of them, but stays
    above `base_offset`, where the first batch of the response starts.
    """

    __slots__ = ("_enough", "base_offset", "from_offset", "transactions", "upper")

    def __init__(self, from_offset: int, upper: int, base_offset: int) -> None:
        self.from_offset = from_offset
        self.base_offset = base_offset
        self.upper = upper
        self.transactions: list[AbortedTxn] = []
        self._enough = ABORTED_MAX + READ_ENTRIES

    def add(self, transactions: Iterable[AbortedTxn]) -> None:
        """Add those that start below `upper`; their markers are after `from_offset`."""
        upper = self.upper
        self.transactions += [txn for txn in transactions if txn.first_offset < upper]
        if len(self.transactions) > self._enough:
            self.lower()
            # don't try again for each block if `upper` can't be lowered
            self._enough = max(self._enough, 2 * len(self.transactions))

    def lower(self) -> None:
        """Lower `upper` if there are too many transactions and it is possible."""
        if len(self.transactions) > ABORTED_MAX:
            firsts = sorted([txn.first_offset for txn in self.transactions])
            slot = max(ABORTED_MAX, bisect_right(firsts, self.base_offset))
            if slot < len(firsts):
                self.upper = upper = firsts[slot]
                self.transactions = [txn for txn in self.transactions if txn.first_offset < upper]


class AbortedTxns(NamedTuple):
    """The aborted transactions of a range of offsets; only those below `upto`, if that is given."""

    found: Sequence[AbortedTxn] = ()
    upto: int | None = None


def collect_aborted(
    indexes: Iterable[TxnIndex], from_offset: int, upper: int, base_offset: int
) -> AbortedTxns:
    """The aborted transactions with records from `from_offset` on and below `upper`, from the
    indexes of the segment with `from_offset` and of those after it.

    If there are very many, only those up to an offset after `base_offset`, which is the first
    batch of the response.
    """
    found = AbortedSearch(from_offset, upper, max(from_offset, base_offset))
    for index in indexes:
        if index.collect(found):
            break
    found.lower()
    return AbortedTxns(found.transactions, found.upper if found.upper < upper else None)
