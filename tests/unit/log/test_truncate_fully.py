"""A follower's log that is truncated fully, to start where the leader's log starts."""

from __future__ import annotations

import pytest

from kavka.compat_tests.raw.codec import batches
from kavka.compat_tests.raw.codec.batches import patch
from kavka.log.follower_append import UnexpectedOffsetError
from kavka.log.memfs import Died, MemFs
from kavka.wire.steps import run_at_once
from support import logs, replication
from support.logs import Broker
from support.replication import example_follower, example_state, state, take


@pytest.mark.parametrize("offset", [3, None, 1000, 1 << 40])
@pytest.mark.parametrize("restarted", [False, True])
def test_truncating_fully(offset: int | None, restarted: bool) -> None:
    """All is gone: records, epochs and producers; and stays so. None: it ends there now."""
    broker = example_follower()
    fs = broker.fs
    assert isinstance(fs, MemFs)
    if restarted:
        broker.restart()  # which leaves a snapshot of the producers at its end
    offset = broker.log().end_offset if offset is None else offset
    logs.flush(broker.log())
    broker.logs.checkpoint({}).run()
    run_at_once(broker.logs.truncate_fully_and_start_at(broker.log(), offset))
    logs.purge(broker.logs)
    empty = {
        "start": offset,
        "end": offset,
        "bytes": b"",
        "epochs": [],
        "producers": {},
        "aborted": [],
        "stable": offset,
        "ongoing": 0,
    }
    assert state(broker.log(), fs) == empty
    assert logs.base_offsets(fs, broker.log()) == [offset]
    for begin_again in (broker.kill, broker.restart, broker.crash):
        begin_again()
        assert state(broker.log(), fs) == empty
    data = memoryview(patch(batches.build(), base_offset=offset, leader_epoch=9))
    take(broker.log(), data)
    assert logs.epoch_entries(broker.log()) == [(9, offset)]
    broker.kill()
    assert (broker.log().start_offset, broker.log().end_offset) == (offset, offset + 3)


@pytest.mark.parametrize("offset", [3, 1000])
@pytest.mark.parametrize("tears", [None, 0, 1])
def test_a_death_at_each_step_of_truncating_fully(offset: int, tears: int | None) -> None:
    """What is found is a part of the old log, or none of it; it can be done again."""
    steps = 0
    while True:
        broker = example_follower()
        fs = broker.fs
        assert isinstance(fs, MemFs)
        logs.flush(broker.log())
        broker.logs.checkpoint({}).run()
        fs.dies_after = steps
        try:
            run_at_once(broker.logs.truncate_fully_and_start_at(broker.log(), offset))
        except Died:
            pass
        else:
            break
        broker.die(tears, steps)
        log = broker.log()
        if log.end_offset > log.start_offset:
            assert state(log, fs) == example_state(log.end_offset)
        else:
            assert log.end_offset in (0, offset)
            assert replication.log_bytes(log, fs) == b""
        run_at_once(broker.logs.truncate_fully_and_start_at(log, offset))
        take(log, memoryview(patch(batches.build(), base_offset=offset)))
        broker.kill()
        log = broker.log()
        assert (log.start_offset, log.end_offset) == (offset, offset + 3)
        assert logs.epoch_entries(log) == [(0, offset)] and not len(log.producers)
        steps += 1
    assert steps > 15


def test_a_leader_that_starts_within_a_batch(broker: Broker) -> None:
    """DeleteRecords has moved its start: the follower learns where the batch begins."""
    log = broker.log()
    run_at_once(broker.logs.truncate_fully_and_start_at(log, 5))
    three = batches.build([batches.Written()] * 3)
    data = memoryview(patch(three, base_offset=4))
    with pytest.raises(UnexpectedOffsetError) as refused:
        take(log, data)
    assert (refused.value.first_offset, refused.value.last_offset) == (4, 6)
    run_at_once(broker.logs.truncate_fully_and_start_at(log, 4))
    assert take(log, data).first_offset == 4
    broker.kill()
    log = broker.log()
    assert (log.start_offset, log.end_offset) == (4, 7)
