"""OffsetForLeaderEpoch: a new epoch at each start, and where the old ones end (KIP-320)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kavka.server.auth.authorizer import CHECKS_A_STEP, Operation
from kavka.server.handlers import offset_for_leader_epoch
from kavka.server.request.context import Peer, RequestContext
from kavka.wire.apis.offset_for_leader_epoch import API
from kavka.wire.errors import ErrorCode as Code
from support.batches import build
from support.denied import Denied
from support.memory_broker import MemoryBroker, scenario
from support.steps import stops_of

VERSIONS = range(API.lowest, API.highest + 1)
UNKNOWN = (-1, -1)


async def ask(
    broker: MemoryBroker,
    *epochs: int,
    version: int = 4,
    topic: str = "t",
    partition: int = 0,
    current: int = -1,
) -> list[Any]:
    asked = [
        {"partition": partition, "current_leader_epoch": current, "leader_epoch": epoch}
        for epoch in epochs
    ]
    topics = [{"topic": topic, "partitions": asked}]
    answer = await broker.ask("OffsetForLeaderEpoch", version, replica_id=-1, topics=topics)
    return list(answer.topics[0].partitions)


async def ends(broker: MemoryBroker, *epochs: int) -> list[tuple[int, int]]:
    """(epoch, end offset) for each."""
    answers = await ask(broker, *epochs)
    assert not any(one.error_code for one in answers)
    return [(one.leader_epoch, one.end_offset) for one in answers]


@pytest.mark.parametrize("version", VERSIONS)
@scenario(topics={"t": 1})
async def test_the_first_epoch(broker: MemoryBroker, version: int) -> None:
    await broker.produce(build())
    now, later, none = await ask(broker, 0, 1, -1, version=version)
    epoch = 0 if version >= 1 else -1
    assert (now.partition, now.error_code) == (0, Code.NONE)
    assert (now.leader_epoch, now.end_offset) == (epoch, 3)
    for one in (later, none):
        assert (one.error_code, one.leader_epoch, one.end_offset) == (Code.NONE, *UNKNOWN)


@scenario(topics={"t": 1})
async def test_each_start_begins_an_epoch(broker: MemoryBroker) -> None:
    starts = []
    for end in (broker.restart, broker.kill, broker.crash, broker.restart):
        starts.append(broker.replica().partition.leader_epoch)
        await broker.produce(build())
        replica = broker.replica()
        await broker.advance(0)
        plan = replica.log.flush_plan(everything=True)
        assert plan is not None
        plan.run()  # else the power cut would take it
        await end()
    last = broker.replica().partition.leader_epoch
    assert starts == sorted(set(starts)) and last > starts[-1]
    assert await ends(broker, *starts) == [
        (epoch, 3 * (number + 1)) for number, epoch in enumerate(starts)
    ]
    assert await ends(broker, last, last + 1) == [(last, 12), UNKNOWN]


@scenario(topics={"t": 1})
async def test_an_epoch_without_records_ends_where_the_one_before_does(
    broker: MemoryBroker,
) -> None:
    await broker.produce(build())
    await broker.restart()
    await broker.restart()
    await broker.produce(build())
    epoch = broker.replica().partition.leader_epoch
    for asked in range(epoch):
        ((found, end),) = await ends(broker, asked)
        assert found <= asked
        assert end == 3
    assert await ends(broker, epoch) == [(epoch, 6)]


@scenario(topics={"t": 1})
async def test_current_leader_epochs(broker: MemoryBroker) -> None:
    await broker.restart()
    epoch = broker.replica().partition.leader_epoch
    codes = [(await ask(broker, 0, current=epoch + by))[0].error_code for by in (0, -1, 1)]
    assert codes == [Code.NONE, Code.FENCED_LEADER_EPOCH, Code.UNKNOWN_LEADER_EPOCH]


@pytest.mark.parametrize("version", VERSIONS)
@scenario(topics={"t": 1})
async def test_unknown_partitions(broker: MemoryBroker, version: int) -> None:
    for topic, partition in (("gone", 0), ("t", 1)):
        (answer,) = await ask(broker, 0, version=version, topic=topic, partition=partition)
        assert answer.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
        assert (answer.leader_epoch, answer.end_offset) == UNKNOWN


@scenario(topics={"t": 1})
async def test_who_may_not(broker: MemoryBroker) -> None:
    broker.parts.authorizer = Denied(Operation.DESCRIBE)
    (answer,) = await ask(broker, 0)
    assert answer.error_code == Code.TOPIC_AUTHORIZATION_FAILED


@scenario(topics={"t": 1})
async def test_many_partitions_are_looked_at_in_steps(broker: MemoryBroker) -> None:
    context = RequestContext(Peer("PLAINTEXT", "host:1"), 4, 1, None)
    one = SimpleNamespace(partition=0, current_leader_epoch=-1, leader_epoch=0)
    topic = SimpleNamespace(topic="t", partitions=[one] * 2 * CHECKS_A_STEP)
    asked = SimpleNamespace(topics=[topic])
    assert stops_of(offset_for_leader_epoch._look_up(broker.parts, context, asked))[0] == 2
