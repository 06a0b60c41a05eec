"""The snapshots of a partition: saved, found again, and not trusted when they are broken."""

from __future__ import annotations

import pytest

from kavka.log import producer_state
from kavka.log.memfs import MemFs
from kavka.log.producer_state import ProducerStates
from kavka.log.snapshots import Snapshots
from kavka.wire.record_batches import read_header
from kavka.wire.steps import run_at_once
from support import logs
from support.logs import Producer


@pytest.fixture
def fs() -> MemFs:
    found = MemFs()
    found.make_dir("/d")
    return found


def states(sequence: int) -> ProducerStates:
    found = ProducerStates()
    found.update(read_header(logs.batch([b"v"], producer=Producer(1, 0, sequence))), sequence)
    return found


def last_sequence(found: ProducerStates) -> int:
    entry = found.get(1)
    return -1 if entry is None else entry.last_sequence


def test_the_newest_snapshot_at_or_below_an_offset_is_loaded(fs: MemFs) -> None:
    snapshots = Snapshots(fs, "/d", [])
    assert snapshots.newest == -1
    for offset in (30, 10, 20):
        snapshots.save(offset, states(offset))
    assert snapshots.save(20, states(21)) == "/d/00000000000000000020.snapshot"
    assert snapshots.offsets == [10, 20, 30]
    found = ProducerStates()
    assert run_at_once(snapshots.load(29, found)) == 20
    assert last_sequence(found) == 21
    assert run_at_once(snapshots.load(9, found)) == -1
    assert last_sequence(found) == -1


def test_a_corrupt_snapshot_is_skipped_and_removed(fs: MemFs) -> None:
    snapshots = Snapshots(fs, "/d", [])
    for offset in (10, 20):
        snapshots.save(offset, states(offset))
    fs.open("/d/00000000000000000020.snapshot").truncate(11)
    found = ProducerStates()
    assert run_at_once(snapshots.load(99, found)) == 10
    assert last_sequence(found) == 10
    assert fs.list_dir("/d") == ["00000000000000000010.snapshot"]


def test_removing(fs: MemFs) -> None:
    snapshots = Snapshots(fs, "/d", [])
    for offset in (10, 20, 30, 40):
        snapshots.save(offset, states(offset))
    snapshots.remove(25)
    snapshots.remove(10)
    snapshots.remove_above(30)
    assert snapshots.offsets == [20, 30]
    assert len(fs.list_dir("/d")) == 2
    snapshots.remove_below(30)
    assert snapshots.offsets == [30]
    assert len(fs.list_dir("/d")) == 1


def test_some_are_left_for_others_to_remove(fs: MemFs) -> None:
    snapshots = Snapshots(fs, "/d", [])
    for offset in (10, 20, 30):
        snapshots.save(offset, states(offset))
    assert snapshots.mark_deleted([10, 15, 30]) == [
        "/d/00000000000000000010.snapshot.deleted",
        "/d/00000000000000000030.snapshot.deleted",
    ]
    assert snapshots.offsets == [20]
    assert len(fs.list_dir("/d")) == 3


@pytest.mark.parametrize(
    ("bases", "kept"),
    [
        ([0, 10, 20], [10, 20, 35]),  # 35: written by a clean stop, behind all segments
        ([0, 20, 40], [20]),
        ([0], [35]),
    ],
)
def test_stray_snapshots(fs: MemFs, bases: list[int], kept: list[int]) -> None:
    snapshots = Snapshots(fs, "/d", [])
    for offset in (10, 15, 20, 35):
        snapshots.save(offset, states(offset))
    snapshots.remove_strays(bases)
    assert snapshots.offsets == kept


def test_a_snapshot_in_pieces_counts_when_it_is_complete(
    fs: MemFs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer_state, "ENTRIES_PER_STEP", 2)
    snapshots = Snapshots(fs, "/d", [5])
    found = ProducerStates()
    for number in range(5):
        header = read_header(logs.batch([b"v"], producer=Producer(number, 0, number)))
        found.update(header, number)
    whole = found.encode()
    snapshots.begin(30, found)
    assert snapshots.is_writing
    assert [snapshots.write_step(), snapshots.write_step()] == [None, None]
    assert snapshots.offsets == [5] and not fs.exists("/d/00000000000000000030.snapshot")
    assert snapshots.write_step() == "/d/00000000000000000030.snapshot"
    assert snapshots.write_step() is None and not snapshots.is_writing
    assert snapshots.offsets == [5, 30]
    assert fs.read_bytes("/d/00000000000000000030.snapshot") == whole
    assert fs.list_dir("/d") == ["00000000000000000030.snapshot"]


def test_a_snapshot_in_pieces_is_replaced_by_a_newer_one(fs: MemFs) -> None:
    snapshots = Snapshots(fs, "/d", [])
    for end in (
        lambda: snapshots.mark_deleted([10]),
        lambda: snapshots.save(20, states(20)),
        snapshots.abandon,
    ):
        found = states(10)
        snapshots.begin(10, found)
        assert fs.exists("/d/00000000000000000010.snapshot.tmp")
        end()
        assert not snapshots.is_writing
        assert not fs.exists("/d/00000000000000000010.snapshot.tmp")
        assert last_sequence(found) == 10
    snapshots.begin(10, states(10))
    snapshots.mark_deleted([20])
    assert snapshots.is_writing
    snapshots.begin(30, states(30))
    while snapshots.is_writing:
        snapshots.write_step()
    assert snapshots.offsets == [30]
