"""CreatePartitions: codes and texts of Apache Kafka 4.3.1, and that what is made can be used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kavka.compat_tests.raw.codec.batches import build
from kavka.server.coordination.embedded import EmbeddedCoordination
from kavka.wire.errors import ErrorCode as Code
from kavka.zktree import paths
from support.memory_broker import MemoryBroker, scenario
from support.memory_network import until
from support.virtual import run_until_idle


def new_count(
    name: str, count: int, assignments: Sequence[Sequence[int]] | None = None
) -> dict[str, Any]:
    replicas = None
    if assignments is not None:
        replicas = [{"broker_ids": list(brokers)} for brokers in assignments]
    return {"name": name, "count": count, "assignments": replicas}


async def count(broker: MemoryBroker, name: str = "t") -> int:
    """How many partitions clients see."""
    answer = await broker.ask("Metadata", 9, topics=[{"name": name}])
    return len(answer.topics[0].partitions)


@pytest.mark.parametrize("iterations", range(0, 30, 3))
@scenario(topics={"t": 1})
async def test_it_is_done_entirely_or_not_at_all(broker: MemoryBroker, iterations: int) -> None:
    request = {"timeout_ms": 5000, "validate_only": False, "topics": [new_count("t", 3)]}
    broker.client.send("CreatePartitions", 3, **request)
    await run_until_idle(iterations)
    await broker.kill()
    found = await count(broker)
    assert found in (1, 3)
    for partition in range(found):
        assert (await broker.produce(build(), partition=partition)).error_code == Code.NONE


@scenario(topics={f"t{number}": 1 for number in range(20)})
async def test_topics_of_one_request_share_syncs_of_the_disk(broker: MemoryBroker) -> None:
    tree = broker.instance._coordination
    assert isinstance(tree, EmbeddedCoordination)
    names = [f"t{number}" for number in range(20)]
    broker.jobs.hold("Storage.append")
    topics = [new_count(name, 2) for name in names]
    waiting = broker.client.send(
        "CreatePartitions", 3, timeout_ms=5000, validate_only=False, topics=topics
    )
    await run_until_idle()
    written = [paths.decode_topic(tree._tree.get(paths.topic(name)).data) for name in names]
    assert [len(topic.replicas) for topic in written] == [2] * 20, "in memory, and on their way"
    broker.jobs.release()
    await until(waiting.done, "the answer")
    assert {result.error_code for result in waiting.result().results} == {Code.NONE}
