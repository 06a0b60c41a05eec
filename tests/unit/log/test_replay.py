"""Producer state of any offset: from a snapshot, or from the very beginning."""

from __future__ import annotations

import pytest

from kavka.compat_tests.raw.codec.batches import CONTROL, Written, around, build, patch
from kavka.log.errors import CorruptLogError
from kavka.log.memfs import MemFs
from kavka.log.partition_log import PartitionLog
from kavka.log.producer_state import ProducerStates
from kavka.log.replay import replay_batch, replay_in_steps
from kavka.log.snapshots import Snapshots
from kavka.log.txn_index import AbortedTxn
from kavka.wire.record_batches import read_header
from kavka.wire.steps import run_at_once
from support import logs
from support.logs import Broker, Producer


@pytest.fixture
def log(fs: MemFs) -> PartitionLog:
    """20 batches of two records, by two producers in turn."""
    log = Broker(fs, log_settings=logs.settings(segment_bytes=500)).log()
    for number in range(20):
        producer = Producer(number % 2, 0, number // 2 * 2)
        logs.append(log, logs.batch([b"v", b"w"], producer=producer))
    return log


def state_at(log: PartitionLog, snapshots: Snapshots, end: int, start: int = 0) -> dict[int, int]:
    states = ProducerStates()
    run_at_once(replay_in_steps(log._segments, snapshots, states, start, end))
    return {state.producer_id: state.last_sequence for state in states}


def state_of(batches: range) -> dict[int, int]:
    return {number % 2: number // 2 * 2 + 1 for number in batches}


@pytest.mark.parametrize("with_snapshots", [True, False])
def test_the_state_at_each_batch(log: PartitionLog, fs: MemFs, with_snapshots: bool) -> None:
    taken = log.producer_manager.snapshots.offsets
    assert len(taken) == 3
    snapshots = Snapshots(fs, log.directory, taken if with_snapshots else [])
    for batches in range(21):
        assert state_at(log, snapshots, 2 * batches) == state_of(range(batches))
    assert state_at(log, snapshots, 7) == state_of(range(3)), "a batch counts when it is whole"


def test_nothing_before_the_start_counts(log: PartitionLog, fs: MemFs) -> None:
    none = Snapshots(fs, log.directory, [])
    assert state_at(log, none, 40, start=38) == state_of(range(19, 20))
    assert state_at(log, none, 40, start=40) == {}


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (around(b"", count=1), "0 bytes"),
        (build([Written(b"\0\0\0\1", b"\0\0")]), "coordinator"),
        (build([Written(b"\0\0\0\1", b"\0" * 5000)]), "control batch of 5"),
    ],
)
def test_a_marker_without_sense_is_named(fs: MemFs, made: bytearray, why: str) -> None:
    control = patch(made, attributes=CONTROL | 0x10, producer_id=7)
    file = fs.create("/0.log")
    file.pwrite(control, 0)
    noted: list[AbortedTxn] = []
    with pytest.raises(CorruptLogError, match=f"/0.log .* byte 0: .*{why}"):
        replay_batch(ProducerStates(), file, "/0.log", 0, read_header(control), noted.append)


def test_no_segments(fs: MemFs) -> None:
    states = ProducerStates()
    run_at_once(replay_in_steps([], Snapshots(fs, "/", []), states, 0, 0))
    assert len(states) == 0


def test_producers_of_deleted_records_are_kept_from_the_snapshot(
    fs: MemFs, log: PartitionLog
) -> None:
    """DeleteRecords takes no producer's state away as long as the broker runs; nor may a start."""
    snapshots = log.producer_manager.snapshots
    assert snapshots.newest > 0
    assert state_at(log, snapshots, 40, start=38) == state_of(range(20))
