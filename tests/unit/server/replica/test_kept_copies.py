"""Copies of logs that were moving to another log directory when something changed: what is kept of
them, and what the checkpoints of their directories say."""

from __future__ import annotations

import pytest

from kavka.log import dir_names as names
from kavka.wire.errors import ErrorCode as Code
from kavka.wire.steps import run_at_once
from support.logs import append, batch
from support.memory_broker import MemoryBroker, scenario
from support.replica_moves import alter, copy_of, fill, torn
from support.virtual import run_until_idle

ONE, TWO = "/data", "/more"
DIRECTORIES = f"log.dirs={ONE},{TWO}"
LIMIT = "replica.alter.log.dirs.io.max.bytes.per.second"
SLOWLY, QUICKLY = f"{LIMIT}=2500", f"{LIMIT}=1000000"


@pytest.mark.parametrize("upto", [1, 3])
@pytest.mark.parametrize("again", [0, 8])
@scenario(DIRECTORIES, SLOWLY, topics={"t": 1})
async def test_a_stop_after_a_truncation_leaves_whole_batches(
    broker: MemoryBroker, upto: int, again: int
) -> None:
    await fill(broker, 9)
    assert await alter(broker, TWO) == Code.NONE
    await broker.advance(1500)
    replica = broker.replica()
    run_at_once(replica.truncate(upto))
    for number in range(again):
        append(replica.log, batch([b"x" * (300 + 70 * number)]), leader_epoch=7)
    await broker.stop()
    assert torn(broker, copy_of(broker, TWO)) == []
    await broker.revive()


@scenario(DIRECTORIES, "log.flush.interval.messages=1", topics={"t": 1})
async def test_no_recovery_point_of_a_copy_lies_behind_a_truncation(broker: MemoryBroker) -> None:
    await fill(broker, 12)
    broker.jobs.hold("LogMirror.complete")
    assert await alter(broker, TWO) == Code.NONE
    await broker.advance(100)
    assert broker.jobs.held
    replica = broker.replica()
    run_at_once(replica.truncate(10))
    replica.log.assign_epoch(5, 10)
    await fill(broker, 6, start=100)
    await run_until_idle()
    broker.jobs.release()
    broker.jobs.hold("LogMirror._list_files")
    await run_until_idle(200)
    points = broker.fs.read_bytes(f"{TWO}/{names.RECOVERY_POINTS_FILE}").decode().splitlines()[2:]
    assert [line for line in points if line.startswith("t 0 ")] in ([], ["t 0 0"])
    broker.jobs.release()
    await broker.advance(3000)
    assert replica.log.directory == f"{TWO}/t-0"


@scenario(DIRECTORIES, f"{LIMIT}=500", topics={"d": 1, "t": 1})
async def test_a_log_that_is_made_anew_beside_its_copy(broker: MemoryBroker) -> None:
    """Its log directory is lost, and the only other one has the copy."""
    assert broker.replica().log.directory == f"{TWO}/t-0"
    await fill(broker, 9)
    await broker.ask("DeleteTopics", 5, topic_names=["d"], timeout_ms=60_000)
    await broker.advance(1000)
    assert await alter(broker, ONE) == Code.NONE
    await broker.advance(1500)
    properties = broker.fs.read_bytes(f"{TWO}/meta.properties").decode().splitlines()
    (lost,) = [line.partition("=")[2] for line in properties if line.startswith("directory.id=")]
    await broker.stop()
    broker.fs.remove_tree(TWO)
    await broker.revive(f"kavka.lost.log.dirs={lost}", QUICKLY)
    await broker.advance(3000)
    replica = broker.replica()
    assert replica.log.directory == f"{ONE}/t-0"
    assert broker.fs.exists(replica.log.directory)
    assert not [one for one in broker.fs.list_dir(ONE) if one.endswith("-future")]
    await fill(broker, 1)
    assert len(await broker.read_all()) == 1
