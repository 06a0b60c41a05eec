"""Indexes: Kafka's bytes, found again by search, both in memory and in the file."""

from __future__ import annotations

import struct
from bisect import bisect_right

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.log import index as index_module
from kavka.log.index import TAIL_ENTRIES, IndexCache, OffsetIndex, TimeIndex
from kavka.log.memfs import Fault, MemFs

BASE = 10**12

ENTRIES = st.lists(
    st.tuples(st.integers(1, 1000), st.integers(1, 10**5)), max_size=40
).map(lambda steps: [(sum(a for a, _ in steps[: i + 1]), sum(b for _, b in steps[: i + 1]))
                     for i in range(len(steps))])  # fmt: skip


def offset_index(fs: MemFs, cache: IndexCache | None = None, count: int = 0) -> OffsetIndex:
    if not count:
        fs.create("/i")
    return OffsetIndex(fs, cache or IndexCache(1 << 20), "/i", BASE, count)


def time_index(fs: MemFs, count: int = 0) -> TimeIndex:
    if not count:
        fs.create("/t")
    return TimeIndex(fs, "/t", BASE, count)


def drop_tail(index: OffsetIndex) -> None:
    """Have it hold nothing in memory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_module, "TAIL_ENTRIES", 0)
        index.write()


def test_an_empty_index() -> None:
    index = offset_index(MemFs())
    assert index.floor(BASE) == (-1, 0, -1, -1)
    assert index.last_before(100) is index.first_from(0) is index.last() is None
    index.write()
    index.truncate(BASE)
    assert len(index) == 0


@settings(max_examples=200)
@given(ENTRIES, st.data())
def test_lookup_of_the_next_entry_at_or_after_a_position(
    entries: list[tuple[int, int]], data: st.DataObject
) -> None:
    index = offset_index(MemFs())
    written = data.draw(st.integers(0, len(entries)))
    for number, (offset, position) in enumerate(entries):
        if number == written:
            drop_tail(index)
        index.append(BASE + offset, position)
    last = entries[-1][1] if entries else 0
    for position in {0, last + 1, data.draw(st.integers(0, last + 1)), *(at for _, at in entries)}:
        behind = [(BASE + offset, at) for offset, at in entries if at >= position]
        assert index.first_from(position) == (behind[0] if behind else None)
    assert index.last() == ((BASE + entries[-1][0], last) if entries else None)


def test_the_files_bytes() -> None:
    fs = MemFs()
    index = offset_index(fs)
    index.append(BASE + 5, 0)
    index.append(BASE + 0x01020304, 0x0A0B0C0D)
    times = time_index(fs)
    times.append(0x0102030405060708, BASE + 5)
    assert fs.size("/i") == fs.size("/t") == 0
    index.write()
    times.write()
    assert fs.read_bytes("/i") == bytes.fromhex("00000005 00000000 01020304 0a0b0c0d")
    assert fs.read_bytes("/t") == bytes.fromhex("0102030405060708 00000005")


@settings(max_examples=200)
@given(ENTRIES, st.data())
def test_offsets_are_found_in_every_part_of_the_index(
    entries: list[tuple[int, int]], data: st.DataObject
) -> None:
    fs = MemFs()
    cache = IndexCache(data.draw(st.sampled_from([1, 1 << 20])))
    index = offset_index(fs, cache)
    other = OffsetIndex(fs, cache, "/other", 0, 0)
    written = data.draw(st.integers(0, len(entries)))
    for number, (relative, position) in enumerate(entries):
        if number == written:
            drop_tail(index)
        index.append(BASE + relative, position)
    if data.draw(st.booleans()):
        drop_tail(index)
    if data.draw(st.booleans()):
        index.write()
        index = offset_index(fs, cache, len(entries))
    offsets = [relative for relative, _ in entries]
    for relative in data.draw(st.lists(st.integers(0, 50_000), max_size=5)):
        at = bisect_right(offsets, relative) - 1
        before = entries[at] if at >= 0 else None
        after = entries[at + 1] if at + 1 < len(entries) else None
        assert index.floor(BASE + relative) == (
            BASE + before[0] if before else -1,
            before[1] if before else 0,
            BASE + after[0] if after else -1,
            after[1] if after else -1,
        )
        cache.hold(other, 1)
    for position in data.draw(st.lists(st.integers(0, 10**6), max_size=5)):
        before_it = [(BASE + offset, at) for offset, at in entries if at <= position]
        assert index.last_before(position) == (before_it[-1] if before_it else None)


@settings(max_examples=200)
@given(ENTRIES, st.data())
def test_truncation_drops_entries_here_and_in_the_file(
    entries: list[tuple[int, int]], data: st.DataObject
) -> None:
    fs = MemFs()
    index, times = offset_index(fs), time_index(fs)
    written = data.draw(st.integers(0, len(entries)))
    for number, (relative, position) in enumerate(entries):
        if number == written:
            drop_tail(index)
            times.write()
        index.append(BASE + relative, position)
        times.append(position, BASE + relative)
    cut = data.draw(st.integers(0, 50_000))
    kept = [entry for entry in entries if entry[0] < cut]
    index.truncate(BASE + cut)
    times.truncate(BASE + cut)
    assert len(index) == len(times) == len(kept)
    assert times.last_timestamp == (kept[-1][1] if kept else -1)
    index.append(BASE + 60_000, 10**7)
    times.append(10**7, BASE + 60_000)
    index.write()
    times.write()
    expected = [*kept, (60_000, 10**7)]
    assert fs.read_bytes("/i") == b"".join(struct.pack(">ii", *entry) for entry in expected)
    assert fs.read_bytes("/t") == b"".join(
        struct.pack(">qi", position, relative) for relative, position in expected
    )


def test_a_long_index_stays_small_in_memory() -> None:
    fs = MemFs()
    cache = IndexCache(1 << 20)
    index = offset_index(fs, cache)
    for number in range(10 * TAIL_ENTRIES):
        if index.needs_write:
            index.write()
        index.append(BASE + number, number * 10)
    assert fs.size("/i") >= 8 * TAIL_ENTRIES * 8
    assert cache.held_bytes == 0, "the newest entries need no loading"
    assert index.floor(BASE + 10 * TAIL_ENTRIES - 5).position == (10 * TAIL_ENTRIES - 5) * 10
    assert cache.held_bytes == 0
    assert index.floor(BASE + 3).position == 30
    held = cache.held_bytes
    assert held > 0
    for number in range(10 * TAIL_ENTRIES, 13 * TAIL_ENTRIES):
        if index.needs_write:
            index.write()
        index.append(BASE + number, number * 10)
    assert cache.held_bytes > held, "what leaves the tail joins what was loaded"
    assert index.floor(BASE + 10 * TAIL_ENTRIES).position == 100 * TAIL_ENTRIES


def test_the_cache_keeps_to_its_limit() -> None:
    fs = MemFs()
    cache = IndexCache(limit_bytes=200)
    indexes = []
    for number in range(5):
        path = f"/{number}"
        fs.create(path).pwrite(struct.pack(">20i", *range(20)), 0)
        indexes.append(OffsetIndex(fs, cache, path, 0, 10))
    for index in indexes:
        assert index.floor(4) == (4, 5, 6, 7)
        assert cache.held_bytes <= 200
    fs.faults = [Fault("open", times=100)]
    assert indexes[4].floor(4) == (4, 5, 6, 7)
    assert indexes[3].floor(4) == (4, 5, 6, 7)
    with pytest.raises(OSError):
        indexes[0].floor(4)
    fs.faults = []
    assert indexes[0].floor(4) == (4, 5, 6, 7)
    indexes[0].truncate(0)
    assert len(indexes[0]) == 0 and fs.size("/0") == 0


def test_an_entry_whose_write_failed_is_written_with_the_next() -> None:
    fs = MemFs()
    index, times = offset_index(fs), time_index(fs)
    index.append(BASE + 1, 10)
    times.append(5, BASE + 1)
    fs.faults = [Fault("pwrite", times=2)]
    for failing in (index, times):
        with pytest.raises(OSError):
            failing.write()
    index.append(BASE + 2, 20)
    index.write()
    times.write()
    assert fs.read_bytes("/i") == struct.pack(">4i", 1, 10, 2, 20)
    assert fs.read_bytes("/t") == struct.pack(">qi", 5, 1)


@given(st.lists(st.integers(0, 100), max_size=30), st.data())
def test_times_are_found(steps: list[int], data: st.DataObject) -> None:
    fs = MemFs()
    index = time_index(fs)
    expected: list[tuple[int, int]] = []
    for number, step in enumerate(steps):
        timestamp = (expected[-1][0] if expected else 0) + step
        index.append(timestamp, BASE + number)
        if not expected or step:
            expected.append((timestamp, BASE + number))
        if data.draw(st.booleans()):
            index.write()
    assert len(index) == len(expected)
    assert index.last() == (expected[-1] if expected else (-1, BASE))
    for timestamp in data.draw(st.lists(st.integers(-5, 3000), max_size=5)):
        assert index.slot(timestamp) == sum(entry[0] <= timestamp for entry in expected) - 1
    index.write()
    again = time_index(fs, len(expected))
    assert again.last_timestamp == index.last_timestamp
    again.truncate(BASE)
    assert fs.size("/t") == 0 and again.last_timestamp == -1
