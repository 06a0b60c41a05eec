"""Segments that compaction writes, read back as a segment of a log."""

from __future__ import annotations

import pytest

from kavka.log.compaction import cleaned
from kavka.log.compaction.cleaned import SYNC_BYTES, WRITE_BYTES, CleanedSegment
from kavka.log.disk import Disk
from kavka.log.interrupted_work import CLEANED
from kavka.log.memfs import Fault, MemFs
from kavka.log.segment import FILES, Segment
from kavka.log.txn_index import AbortedTxn
from kavka.wire.record_batches import set_offset_and_epoch
from support import logs

BASE = 1000
SETTINGS = logs.settings(index_interval_bytes=300)


def a_segment(fs: MemFs, **settings: int) -> CleanedSegment:
    fs.make_dir("/log")
    fs.sync_dir("/")
    return CleanedSegment(fs, "/log", BASE, logs.settings(index_interval_bytes=300, **settings))


def write(segment: CleanedSegment, count: int, *, size: int = 100, step: int = 3) -> None:
    """Batches of one record, with gaps between them."""
    for number in range(count):
        batch = logs.batch([bytes(size)], timestamps=logs.TIMESTAMP + number)
        set_offset_and_epoch(batch, BASE + step * number, 0)
        segment.append(batch, BASE + step * number, logs.TIMESTAMP + number)


def taken_over(fs: MemFs, size: int) -> Segment:
    for name in fs.list_dir("/log"):
        fs.rename(f"/log/{name}", f"/log/{name.removesuffix(CLEANED)}")
    disk = Disk(fs, open_files_max=10, index_cache_bytes=1 << 20)
    return Segment(disk, "/log", BASE, size, SETTINGS)


def test_it_is_a_segment_with_its_indexes(caplog: pytest.LogCaptureFixture) -> None:
    fs = MemFs()
    cleaned_segment = a_segment(fs)
    write(cleaned_segment, 200)
    assert cleaned_segment.next_offset == BASE + 3 * 199 + 1
    cleaned_segment.finish()
    segment = taken_over(fs, cleaned_segment.size)
    assert fs.size(segment.path) == cleaned_segment.size
    assert len(segment.offsets) > 40
    assert segment.max_timestamp == logs.TIMESTAMP + 199
    for number in range(200):
        extent = segment.find(BASE + 3 * number)
        assert extent is not None
        assert extent.last_offset == BASE + 3 * number
        between = segment.find(BASE + 3 * number - 1)
        assert between == extent
    found = segment.find_timestamp(logs.TIMESTAMP + 77, 0)
    assert found is not None
    assert found.last_offset == BASE + 3 * 77
    assert "rebuilding" not in caplog.text, "the indexes were right"


def test_there_is_a_transaction_index_when_there_are_entries() -> None:
    fs = MemFs()
    cleaned_segment = a_segment(fs)
    write(cleaned_segment, 1)
    cleaned_segment.finish()
    assert [name for name in fs.list_dir("/log") if "txn" in name] == []
    entries = [AbortedTxn(9, BASE - 5, BASE + 1, BASE - 5), AbortedTxn(8, BASE, BASE + 2, BASE)]
    again = CleanedSegment(fs, "/log", BASE, SETTINGS)
    again.add_aborted(entries[:1])
    write(again, 1)
    again.add_aborted(entries[1:])
    again.finish()
    segment = taken_over(fs, again.size)
    segment.txns.find()
    assert list(segment.txns.entries()) == entries


def test_a_finished_segment_survives_a_power_failure() -> None:
    fs = MemFs()
    cleaned_segment = a_segment(fs)
    cleaned_segment.add_aborted([AbortedTxn(9, BASE, BASE + 2, BASE)])
    write(cleaned_segment, 100)
    cleaned_segment.finish()
    before = {name: fs.read_bytes(f"/log/{name}") for name in fs.list_dir("/log")}
    assert len(before) == len(FILES)
    fs.sync_dir("/log")
    fs.crash()
    assert {name: fs.read_bytes(f"/log/{name}") for name in fs.list_dir("/log")} == before


def test_it_is_synced_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the last fsync has little to do. Counted by letting one fail."""
    monkeypatch.setattr(cleaned, "SYNC_BYTES", 4 * WRITE_BYTES)
    fs = MemFs()
    cleaned_segment = a_segment(fs)
    fs.faults.append(Fault("sync"))
    write(cleaned_segment, 3, size=WRITE_BYTES)
    with pytest.raises(OSError, match="Input/output"):
        write(cleaned_segment, 2, size=WRITE_BYTES)
    assert SYNC_BYTES > 10 * WRITE_BYTES


def test_a_discarded_one_leaves_nothing() -> None:
    fs = MemFs()
    cleaned_segment = a_segment(fs)
    cleaned_segment.add_aborted([AbortedTxn(9, BASE, BASE + 2, BASE)])
    write(cleaned_segment, 10)
    cleaned_segment.discard()
    assert fs.list_dir("/log") == []


def test_an_empty_one_can_be_finished() -> None:
    fs = MemFs()
    cleaned_segment = a_segment(fs)
    cleaned_segment.finish()
    assert taken_over(fs, 0).max_timestamp == -1


def test_it_has_room_up_to_the_limits_of_its_files() -> None:
    cleaned_segment = a_segment(MemFs(), segment_index_bytes=24)
    assert cleaned_segment.has_room(1 << 40, BASE), "the first batch has to go somewhere"
    write(cleaned_segment, 1)
    assert cleaned_segment.has_room(cleaned.SIZE_MAX - cleaned_segment.size, BASE + 10)
    assert not cleaned_segment.has_room(cleaned.SIZE_MAX - cleaned_segment.size + 1, BASE + 10)
    assert cleaned_segment.has_room(1, BASE + 0x7FFFFFFF)
    assert not cleaned_segment.has_room(1, BASE + 0x80000000)
    write(cleaned_segment, 6)
    assert not cleaned_segment.has_room(1, BASE + 10), "an index is full"
