"""OffsetForLeaderEpoch: a new epoch at each start, and where the old ones end (KIP-320)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kavka.server.auth.authorizer import CHECKS_A_STEP
from kavka.server.handlers import offset_for_leader_epoch
from kavka.server.request.context import Peer, RequestContext
from support.memory_broker import MemoryBroker, scenario
from support.steps import stops_of


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


@scenario(topics={"t": 1})
async def test_many_partitions_are_looked_at_in_steps(broker: MemoryBroker) -> None:
    context = RequestContext(Peer("PLAINTEXT", "host:1"), 4, 1, None)
    one = SimpleNamespace(partition=0, current_leader_epoch=-1, leader_epoch=0)
    topic = SimpleNamespace(topic="t", partitions=[one] * 2 * CHECKS_A_STEP)
    asked = SimpleNamespace(topics=[topic])
    assert stops_of(offset_for_leader_epoch._look_up(broker.parts, context, asked))[0] == 2
