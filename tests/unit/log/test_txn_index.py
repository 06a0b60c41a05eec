"""The transaction index: Kafka's entries, found by ranges of offsets, against plain lists."""

from __future__ import annotations

import struct
from itertools import count, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.log import txn_index
from kavka.log.errors import CorruptFileError
from kavka.log.memfs import Died, MemFs, _MemFile
from kavka.log.txn_index import (
    ABORTED_MAX,
    READ_ENTRIES,
    TXN_ENTRY_BYTES,
    AbortedSearch,
    AbortedTxn,
    TxnIndex,
    collect_aborted,
)

PATH = "/d/00000000000000000000.txnindex"


@pytest.fixture
def fs() -> MemFs:
    return disk()


def disk() -> MemFs:
    found = MemFs()
    found.make_dir("/d")
    return found


def index_of(fs: MemFs, entries: list[AbortedTxn], path: str = PATH) -> TxnIndex:
    index = TxnIndex(fs, path)
    for entry in entries:
        index.append(entry)
    return index


def split(fs: MemFs, entries: list[AbortedTxn], cuts: list[int]) -> list[TxnIndex]:
    """The indexes of segments that begin at `cuts`."""
    bounds = [0, *sorted(cuts), 10**9]
    parts = [
        [entry for entry in entries if low <= entry.last_offset < high]
        for low, high in pairwise(bounds)
    ]
    return [index_of(fs, part, f"/d/{n}") for n, part in enumerate(parts)]


def test_an_entry_has_kafkas_form(fs: MemFs) -> None:
    """`AbortedTxn`: version, producer id, first offset, last offset, last stable offset."""
    index = TxnIndex(fs, PATH)
    assert not fs.exists(PATH), "there is no file before there is an entry"
    index.append(AbortedTxn(2**40, 3, 2**33, 5))
    assert fs.read_bytes(PATH) == struct.pack(">hqqqq", 0, 2**40, 3, 2**33, 5)
    assert (index.count, index.last_offset) == (1, 2**33)


@st.composite
def stories(draw: st.DrawFn) -> list[AbortedTxn]:
    """Aborted transactions as a log makes them: markers and last stable offsets rise."""
    ongoing: dict[int, int] = {}
    found: list[AbortedTxn] = []
    for offset in range(draw(st.integers(0, 60))):
        producer = draw(st.integers(1, 4))
        if producer not in ongoing:
            ongoing[producer] = offset
        elif draw(st.booleans()):
            first = ongoing.pop(producer)
            stable = min(ongoing.values(), default=offset + 1)
            found.append(AbortedTxn(producer, first, offset, stable))
    return found


@given(stories(), st.integers(0, 60), st.integers(0, 60), st.integers(1, 5))
def test_aborted_transactions_of_a_range_of_offsets(
    entries: list[AbortedTxn], start: int, length: int, block: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(txn_index, "READ_ENTRIES", block)
        fs = disk()
        index = index_of(fs, entries)
        assert list(index.entries()) == entries
        upper = start + length
        found, upto = collect_aborted([index], start, upper, start)
        assert upto is None
        assert found == [
            entry for entry in entries if entry.last_offset >= start and entry.first_offset < upper
        ]
        again = TxnIndex(fs, PATH, len(entries)) if entries else index
        assert again.last_offset == index.last_offset
        assert collect_aborted([again], start, upper, start).found == found


@given(stories(), st.integers(0, 60), st.integers(0, 60), st.lists(st.integers(0, 60), max_size=4))
def test_later_segments_are_searched_until_the_last_stable_offset_is_passed(
    entries: list[AbortedTxn], start: int, length: int, cuts: list[int]
) -> None:
    fs = disk()
    upper = start + length
    indexes = split(fs, entries, cuts)
    assert collect_aborted(indexes, start, upper, start).found == [
        entry for entry in entries if entry.last_offset >= start and entry.first_offset < upper
    ]


def test_a_search_ends_when_later_entries_can_not_match(fs: MemFs) -> None:
    index = index_of(fs, [AbortedTxn(1, 2, 5, 6), AbortedTxn(1, 7, 9, 10)])
    found = AbortedSearch(0, 6, 0)
    assert index.collect(found)
    assert found.transactions == [AbortedTxn(1, 2, 5, 6)]
    assert not index.collect(AbortedSearch(0, 11, 0)), (
        "what begins below 11 may end in a later segment"
    )


@given(
    stories(),
    st.integers(0, 60),
    st.integers(0, 60),
    st.integers(1, 5),
    st.integers(1, 5),
    st.integers(-5, 5),
    st.lists(st.integers(0, 60), max_size=2),
)
def test_of_very_many_only_the_first_are_found(
    entries: list[AbortedTxn],
    start: int,
    length: int,
    many: int,
    block: int,
    gap: int,
    cuts: list[int],
) -> None:
    base, fs = start + gap, disk()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(txn_index, "ABORTED_MAX", many)
        patch.setattr(txn_index, "READ_ENTRIES", block)
        indexes = split(fs, entries, cuts)
        found, upto = collect_aborted(indexes, start, start + length, base)
        assert upto is None or (max(start, base) < upto < start + length and len(found) >= many)
        upper = start + length if upto is None else upto
        expected = [
            entry for entry in entries if entry.last_offset >= start and entry.first_offset < upper
        ]
        assert found == expected
        begun = [entry for entry in expected if entry.first_offset <= max(start, base)]
        assert len(found) <= max(many, len(begun))


def test_entries_within_a_long_transaction_are_skipped(
    fs: MemFs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is decided before it ends, and its marker is the last of all."""
    many = 20_000
    entries = [AbortedTxn(2, 2 * n + 1, 2 * n + 2, 0) for n in range(many)]
    entries.append(AbortedTxn(1, 0, 2 * many + 1, 2 * many + 2))
    index = index_of(fs, entries)
    loaded = TxnIndex(fs, PATH)
    loaded.find()
    assert loaded.damage(0, 3 * many) is None
    read = 0
    pread = _MemFile.pread

    def counted(self: _MemFile, size: int, offset: int) -> bytes:
        nonlocal read
        read += size
        return pread(self, size, offset)

    monkeypatch.setattr(_MemFile, "pread", counted)
    for searched in (index, loaded):
        for start, length, reported in ((0, 50, 26), (20_001, 50, 26), (0, 2 * many, ABORTED_MAX)):
            read = 0
            found, upto = collect_aborted([searched], start, start + length, start)
            assert len(found) == reported and (upto is None) == (reported < ABORTED_MAX)
            assert found[-1].producer_id == 1
            assert read < (reported + 3 * READ_ENTRIES + 50) * TXN_ENTRY_BYTES


@given(stories(), st.integers(0, 61))
def test_truncation(entries: list[AbortedTxn], offset: int) -> None:
    fs = disk()
    index = index_of(fs, entries)
    index.truncate(offset)
    kept = [entry for entry in entries if entry.last_offset < offset]
    assert list(index.entries()) == kept
    assert index.last_offset == (kept[-1].last_offset if kept else -1)
    if entries:
        assert fs.size(PATH) == len(kept) * TXN_ENTRY_BYTES
    more = AbortedTxn(9, 70, 80, 81)
    index.append(more)
    assert list(index.entries()) == [*kept, more]
    assert index.last() == more
    assert collect_aborted([index], 0, 100, 0).found == [*kept, more]


def test_cached_first_offsets_of_dropped_entries_are_removed(
    fs: MemFs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(txn_index, "READ_ENTRIES", 4)
    index = index_of(fs, [AbortedTxn(1, 10 * n, 10 * n + 5, 0) for n in range(1, 20)])
    index.truncate(101)
    last = AbortedTxn(2, 3, 200, 201)
    index.append(last)
    assert collect_aborted([index], 52, 60, 52).found == [AbortedTxn(1, 50, 55, 0), last]


def raw(*fields: int) -> bytes:
    return struct.pack(">hqqqq", *fields)


GOOD = raw(0, 1, 12, 15, 16)


@pytest.mark.parametrize(
    "content",
    [
        GOOD + b"half",
        raw(1, 1, 12, 15, 16),
        bytes(TXN_ENTRY_BYTES),
        GOOD + GOOD,
        GOOD + raw(0, 1, 13, 14, 15),
        raw(0, 1, 2, 9, 10),
        raw(0, 1, 12, 20, 21),
        raw(0, 1, 15, 15, 16),
        raw(0, 1, -1, 15, 16),
        raw(0, 1, 12, 15, 17),
        raw(0, 1, 12, 15, -1),
        b"\xff" * 3 * TXN_ENTRY_BYTES,
    ],
)
def test_damage_is_seen(fs: MemFs, content: bytes) -> None:
    fs.create(PATH).pwrite(content, 0)
    index = TxnIndex(fs, PATH)
    index.find()
    try:
        assert index.damage(10, 20)
    except CorruptFileError as error:
        assert PATH in str(error)


def test_no_damage(fs: MemFs) -> None:
    fs.create(PATH).pwrite(GOOD + raw(0, 2, 3, 19, 14), 0)
    assert TxnIndex(fs, PATH, 2).damage(10, 20) is None


def test_found_dropped_and_recreated(fs: MemFs) -> None:
    fs.create(PATH).pwrite(GOOD + b"half", 0)
    index = TxnIndex(fs, PATH)
    assert not index.has_file and index.count == 0
    index.find()
    assert index.has_file and list(index.entries()) == [AbortedTxn(1, 12, 15, 16)]
    index.drop()
    assert not fs.exists(PATH) and (index.count, index.last_offset) == (0, -1)
    index.drop()
    index.sync()
    index.append(AbortedTxn(2, 3, 4, 5))
    index.sync()
    fs.sync_dir("/")
    fs.crash()
    index.find()
    assert list(index.entries()) == [AbortedTxn(2, 3, 4, 5)]


@pytest.mark.parametrize("new", [[AbortedTxn(1, 2, 5, 6), AbortedTxn(2, 7, 9, 10)], []])
def test_all_entries_are_replaced_at_once(fs: MemFs, new: list[AbortedTxn]) -> None:
    """A crash in between leaves the old entries, or the new ones."""
    old = [AbortedTxn(1, 2, 5, 6), AbortedTxn(3, 6, 7, 8), AbortedTxn(2, 8, 9, 10)]
    for steps in count():
        fs = disk()
        index_of(fs, old).sync()
        fs.sync_dir("/")
        index = TxnIndex(fs, PATH)
        index.find()
        fs.dies_after = steps
        try:
            index.replace(new)
        except Died:
            fs.crash()
        else:
            assert steps and list(index.entries()) == new
            assert (index.count, index.has_file) == (len(new), bool(new))
            fs.dies_after = None
            fs.crash()
            assert fs.exists(PATH) == bool(new), "on the disk, without another word"
            break
        left = TxnIndex(fs, PATH)
        if fs.exists(PATH):
            left.find()
        assert list(left.entries()) in (old, new)
