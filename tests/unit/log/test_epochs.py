"""Leader epochs: what the questions of KIP-101 and KIP-320 are answered with."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.log.epochs import UNDEFINED, EpochFile, LeaderEpochs
from kavka.log.memfs import Fault, MemFs


def test_nothing_is_known_at_first() -> None:
    epochs = LeaderEpochs()
    assert epochs.latest == -1
    assert epochs.end_offset(0, 10) == UNDEFINED
    assert epochs.end_offset(-2, 10) == UNDEFINED
    assert epochs.epoch_of(0) == -1
    assert len(epochs) == 0


def test_end_offsets() -> None:
    epochs = LeaderEpochs([(2, 10), (5, 30), (6, 40)])
    assert epochs.end_offset(6, 100) == (6, 100), "the newest goes up to the log's end"
    assert epochs.end_offset(5, 100) == (5, 40)
    assert epochs.end_offset(4, 100) == (2, 30), "the last one before, up to the next"
    assert epochs.end_offset(2, 100) == (2, 30)
    assert epochs.end_offset(1, 100) == (1, 10), "older than all: up to the first"
    assert epochs.end_offset(7, 100) == UNDEFINED
    assert epochs.end_offset(-1, 100) == UNDEFINED
    assert epochs.end_offset(-2, 100) == (-2, 10), "Apache Kafka takes it for an old one"


def test_epoch_of_an_offset() -> None:
    epochs = LeaderEpochs([(2, 10), (5, 30)])
    assert [epochs.epoch_of(offset) for offset in (9, 10, 29, 30, 99)] == [-1, 2, 2, 5, 5]


def test_only_a_new_epoch_is_a_change() -> None:
    epochs = LeaderEpochs()
    assert epochs.assign(1, 10)
    assert not epochs.assign(1, 10)
    assert not epochs.assign(1, 20), "an epoch goes on"
    assert epochs.assign(1, 5), "it began earlier than was known"
    assert epochs.entries() == [(1, 5)]


def test_a_new_entry_removes_contradicting_entries() -> None:
    epochs = LeaderEpochs([(1, 10), (2, 20), (3, 30)])
    assert epochs.assign(4, 20)
    assert epochs.entries() == [(1, 10), (4, 20)]
    assert epochs.assign(2, 25), "an older epoch than the newest, from the log itself"
    assert epochs.entries() == [(1, 10), (2, 25)]
    assert epochs.latest == 2


@pytest.mark.parametrize(("epoch", "start"), [(-1, 0), (0, -1)])
def test_impossible_entries(epoch: int, start: int) -> None:
    with pytest.raises(ValueError):
        LeaderEpochs().assign(epoch, start)


def test_truncation_from_the_end() -> None:
    epochs = LeaderEpochs([(1, 10), (2, 20), (3, 30)])
    assert not epochs.truncate_end(31)
    assert epochs.truncate_end(20)
    assert epochs.entries() == [(1, 10)]
    assert epochs.latest == 1
    assert epochs.truncate_end(0)
    assert epochs.latest == -1


def test_truncation_from_the_start() -> None:
    epochs = LeaderEpochs([(1, 10), (2, 20), (3, 30)])
    assert not epochs.truncate_start(10)
    assert epochs.truncate_start(25)
    assert epochs.entries() == [(2, 25), (3, 30)]
    assert epochs.truncate_start(30)
    assert epochs.entries() == [(3, 30)]
    epochs.clear()
    assert epochs.entries() == [] and epochs.latest == -1


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 100))),
    st.integers(0, 21),
    st.integers(0, 120),
)
def test_entries_always_rise(entries: list[tuple[int, int]], requested: int, end: int) -> None:
    epochs = LeaderEpochs(entries)
    kept = epochs.entries()
    assert kept == sorted(kept)
    assert all(
        earlier[0] < later[0] and earlier[1] < later[1]
        for earlier, later in zip(kept, kept[1:], strict=False)
    )
    epoch, offset = epochs.end_offset(requested, end)
    assert epoch <= requested
    assert (offset == -1) == (epoch == -1)


def test_the_file_follows() -> None:
    fs = MemFs()
    fs.make_dir("/d")
    file = EpochFile(fs, "/d", LeaderEpochs())
    assert file.assign(3, 7)
    assert not file.assign(3, 7)
    assert fs.read_bytes("/d/leader-epoch-checkpoint") == b"0\n1\n3 7\n"
    assert file.truncate_end(7)
    assert not file.truncate_end(7)
    assert fs.read_bytes("/d/leader-epoch-checkpoint") == b"0\n0\n"


def test_a_later_start_is_written_with_the_next_change() -> None:
    fs = MemFs()
    fs.make_dir("/d")
    file = EpochFile(fs, "/d", LeaderEpochs([(1, 0), (2, 20)]))
    file.truncate_start(25)
    assert file.epochs.entries() == [(2, 25)] and file.latest == 2
    assert not fs.exists("/d/leader-epoch-checkpoint")
    assert file.assign(3, 30)
    assert fs.read_bytes("/d/leader-epoch-checkpoint") == b"0\n2\n2 25\n3 30\n"


def test_a_failed_write_leaves_the_epochs_unchanged() -> None:
    fs = MemFs()
    fs.make_dir("/d")
    file = EpochFile(fs, "/d", LeaderEpochs())
    fs.faults = [Fault("rename")]
    with pytest.raises(OSError):
        file.assign(3, 7)
    assert file.latest == -1 and file.epochs.entries() == []
