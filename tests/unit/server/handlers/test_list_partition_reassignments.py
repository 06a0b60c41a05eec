"""ListPartitionReassignments: what a cluster left half done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kavka.server.controller.state import Partition
from support.memory_broker import MemoryBroker, scenario


async def listed(
    broker: MemoryBroker,
    requested: Sequence[tuple[str, Sequence[int]]] | None,
    timeout_ms: int = 5000,
) -> Any:
    topics = None
    if requested is not None:
        topics = [{"name": name, "partition_indexes": list(indexes)} for name, indexes in requested]
    return await broker.ask("ListPartitionReassignments", 0, timeout_ms=timeout_ms, topics=topics)


@scenario(topics={"t": 2})
async def test_what_a_cluster_left_half_done(broker: MemoryBroker) -> None:
    active = broker.parts.controller._active_controller
    assert active is not None
    partitions = active.cluster.topics["t"].partitions
    partitions[1] = Partition((1, 2), adding=(2,), removing=(1,))
    for requested in (None, [("t", [0, 1])]):
        answer = await listed(broker, requested)
        ((topic,),) = (answer.topics,)
        (partition,) = topic.partitions
        assert (topic.name, partition.partition_index, partition.replicas) == ("t", 1, [1, 2])
        assert (partition.adding_replicas, partition.removing_replicas) == ([2], [1])
    assert (await listed(broker, [("t", [0])])).topics == []
    partitions[1] = partitions[0]
