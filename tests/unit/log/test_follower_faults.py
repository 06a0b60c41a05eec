"""A disk and a process that fail at any step of a follower's append."""

from __future__ import annotations

import errno
import random

import pytest

from kavka.compat_tests.raw.codec import batches
from kavka.compat_tests.raw.codec.batches import patch
from kavka.log.memfs import Died, Fault, MemFs
from support import logs, replication
from support.logs import Broker
from support.replication import (
    example_follower,
    example_leader,
    example_state,
    fetch,
    replicate,
    state,
    take,
    take_rest,
)

STEPS = ["pwrite", "create", "rename", "open", "truncate"]
SUFFIXES = [".log", ".index", ".timeindex", ".txnindex", ".snapshot.tmp", "checkpoint.tmp"]


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("op", STEPS)
@pytest.mark.parametrize("then", ["go on", "kill"])
def test_an_error_of_the_disk_leaves_what_was_counted(op: str, suffix: str, then: str) -> None:
    """The log is as after the batches before; it goes on, or is found so by the next start."""
    failures = 0
    for skip in range(100):
        broker = example_follower()
        assert isinstance(broker.fs, MemFs)
        before = broker.log().end_offset
        fault = Fault(op, suffix, error=errno.ENOSPC, skip=skip)
        broker.fs.faults = [fault]
        try:
            take_rest(broker)
        except OSError:
            failures += 1
        else:
            assert fault.times, "an error was ignored"
            break
        end = broker.log().end_offset
        assert before <= end < example_leader().log.end_offset
        if then == "kill":
            broker.kill()
            assert broker.log().end_offset >= end
        assert state(broker.log(), broker.fs) == example_state(broker.log().end_offset)
        replicate(example_leader().log, broker.log(), random.Random(skip))
        assert state(broker.log(), broker.fs) == example_state(example_leader().log.end_offset)
        broker.restart()
        assert state(broker.log(), broker.fs) == example_state(example_leader().log.end_offset)
    if (op, suffix) in {
        ("pwrite", ".log"),
        ("pwrite", ".txnindex"),
        ("pwrite", "checkpoint.tmp"),
        ("create", ".log"),
        ("create", ".txnindex"),
        ("create", ".snapshot.tmp"),
        ("rename", "checkpoint.tmp"),
    }:
        assert failures, "nothing failed"


@pytest.mark.parametrize("leads", [False, True])
def test_the_rest_of_a_failed_write_is_cut_off(leads: bool) -> None:
    """Also if this broker has become leader meanwhile: whole batches may be there."""
    broker = Broker(MemFs(), log_settings=logs.settings())
    log, fs = broker.log(), broker.fs
    assert isinstance(fs, MemFs)
    data = fetch(example_leader().log, 0)
    take(log, data[: replication.headers_in(data)[0].size])
    fs.faults = [Fault("pwrite", "checkpoint.tmp"), Fault("pwrite", ".txnindex")]
    for _ in range(2):
        with pytest.raises(OSError, match="Input"):
            take(log, fetch(example_leader().log, log.end_offset))
    before = log.end_offset
    assert fs.size(f"{log.directory}/{0:020d}.log") > log.size_bytes
    batch = batches.build([batches.Written(None, b"")])
    if leads:
        logs.append(log, memoryview(batch), leader_epoch=9)
    else:
        take(log, memoryview(patch(batch, base_offset=before)))
    assert fs.size(f"{log.directory}/{0:020d}.log") == log.size_bytes
    broker.kill()
    assert broker.log().end_offset == before + 1


def test_an_error_after_a_roll_to_a_far_offset() -> None:
    """The log ends there then, since the leader has nothing in between."""
    fs, far = MemFs(), 1 << 40
    broker = Broker(fs, log_settings=logs.settings(cleanup_policy=("compact",)))
    log = broker.log()
    take(log, memoryview(batches.build([batches.Written()])))
    batch = memoryview(patch(batches.build(), base_offset=far))
    fs.faults = [Fault("pwrite", ".log")]
    with pytest.raises(OSError, match="Input"):
        take(log, batch)
    assert log.end_offset == far
    logs.flush(log)
    assert log.recovery_point == far
    broker.kill()
    assert broker.log().end_offset == far
    assert take(broker.log(), batch).last_offset == far + 2


@pytest.mark.parametrize("room_bytes", [0, 1, 60, 100, 500, 1200])
def test_a_full_disk(room_bytes: int) -> None:
    """A part of a run was written: it is cut off before the next append."""
    broker = example_follower()
    assert isinstance(broker.fs, MemFs)
    end = broker.log().end_offset
    broker.fs.capacity_bytes = broker.fs.used_bytes + room_bytes
    with pytest.raises(OSError, match="No space"):
        take_rest(broker)
    broker.fs.capacity_bytes = None
    assert broker.log().end_offset >= end
    take_rest(broker)
    assert state(broker.log(), broker.fs) == example_state(example_leader().log.end_offset)
    broker.kill()
    assert state(broker.log(), broker.fs) == example_state(example_leader().log.end_offset)


@pytest.mark.parametrize("tears", [None, 0, 1, 2])
def test_a_death_at_each_step(tears: int | None) -> None:
    """SIGKILL, or a power failure with some tears: the next start finds whole batches only."""
    steps = 0
    while True:
        broker = example_follower()
        assert isinstance(broker.fs, MemFs)
        logs.flush(broker.log())
        broker.logs.checkpoint({}).run()
        before = broker.log().end_offset
        broker.fs.dies_after = steps
        try:
            take_rest(broker)
        except Died:
            pass
        else:
            break
        broker.die(tears, steps)
        assert broker.log().end_offset >= before
        assert state(broker.log(), broker.fs) == example_state(broker.log().end_offset)
        take_rest(broker)
        assert state(broker.log(), broker.fs) == example_state(example_leader().log.end_offset)
        steps += 1
    assert steps > 15
