"""Copies of logs that were moving to another log directory when something changed: what is kept of
them, and what the checkpoints of their directories say."""

from __future__ import annotations

import pytest

from kavka.log import dir_names as names
from kavka.log.memfs import Fault
from kavka.server.replica.controller_requests import ControllerRequests
from kavka.wire.errors import ErrorCode as Code
from kavka.wire.steps import run_at_once
from support.logs import append, batch
from support.memory_broker import MemoryBroker, scenario
from support.replica_moves import alter, copy_of, fill, torn
from support.replicas import leading, stopping
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
    broker.jobs.hold("FutureLogCopier.complete")
    assert await alter(broker, TWO) == Code.NONE
    await broker.advance(100)
    assert broker.jobs.held
    replica = broker.replica()
    run_at_once(replica.truncate(10))
    replica.log.assign_epoch(5, 10)
    await fill(broker, 6, start=100)
    await run_until_idle()
    broker.jobs.release()
    broker.jobs.hold("FutureLogCopier._list_files")
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
    assert not [name for name in broker.fs.list_dir(ONE) if name.endswith("-future")]
    await fill(broker, 1)
    assert len(await broker.read_all()) == 1


@pytest.mark.parametrize("is_hosted_again", [False, True])
@scenario(DIRECTORIES, SLOWLY, topics={"t": 1})
async def test_a_copy_of_a_replica_that_was_stopped_is_whole_after_a_stop(
    broker: MemoryBroker, is_hosted_again: bool
) -> None:
    await fill(broker, 9)
    assert await alter(broker, TWO) == Code.NONE
    await broker.advance(1500)
    assert torn(broker, copy_of(broker, TWO)), "it is in the middle of a batch"
    replica, parts = broker.replica(), broker.parts
    port = ControllerRequests(
        live=parts.live,
        replicas=parts.replicas,
        metadata=parts.metadata,
        topic_configs=parts.topic_configs,
        internal_topics=parts.internal_topics,
        fs=broker.fs,
        tasks=parts.tasks,
        jobs=broker.jobs,
    )
    stop = stopping("t", delete=False, epoch=100, controller_epoch=100)
    assert not (await port.stop_replica(stop)).partition_errors
    if is_hosted_again:
        assert replica.topic_id is not None
        lead = leading("t", topic_id=replica.topic_id, new=False, controller_epoch=100)
        assert not (await port.leader_and_isr(lead)).partition_errors
    await broker.stop()
    assert torn(broker, copy_of(broker, TWO)) == []
    await broker.revive()


@scenario(DIRECTORIES, SLOWLY, topics={"o": 1, "p": 1, "t": 1})
async def test_a_topic_is_deleted_although_the_directory_of_its_copy_fails(
    broker: MemoryBroker,
) -> None:
    here = broker.replica().log.directory.removesuffix("/t-0")
    there = TWO if here == ONE else ONE
    await fill(broker, 9)
    assert await alter(broker, there) == Code.NONE
    await broker.advance(1500)
    copy = copy_of(broker, there)
    broker.fs.faults.append(Fault("rename", copy))
    await broker.ask("DeleteTopics", 5, topic_names=["t"], timeout_ms=60_000)
    await broker.advance(1000)
    assert not [name for name in broker.fs.list_dir(here) if name == "t-0"]
    assert [*broker.parts.replicas.logs.failed_directories] == [there], "and no other"
    await broker.restart()
    assert not [name for name in broker.fs.list_dir(there) if name.endswith("-future")]
