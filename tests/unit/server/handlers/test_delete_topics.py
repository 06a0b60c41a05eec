"""DeleteTopics: the codes of Apache Kafka 4.3.1, and that nothing is left of what is deleted."""

from __future__ import annotations

from typing import Any

import pytest

from kavka.compat_tests.raw.codec.batches import build
from kavka.server.coordination.embedded import EmbeddedCoordination
from kavka.wire.errors import ErrorCode as Code
from kavka.zktree import paths
from support.memory_broker import DATA, MemoryBroker, scenario
from support.memory_network import until
from support.virtual import run_until_idle

IDS_SINCE = 6


async def delete(broker: MemoryBroker, *names: str, version: int = 5, **values: Any) -> Any:
    """The answers, by name; with names where the version has them."""
    request: dict[str, Any] = {"timeout_ms": 5000} | values
    if version < IDS_SINCE:
        request["topic_names"] = list(names)
    else:
        request["topics"] = [{"name": name} for name in names]
    return (await broker.ask("DeleteTopics", version, **request)).responses


async def code(broker: MemoryBroker, *names: str, **values: Any) -> Code:
    (answer,) = await delete(broker, *names, **values)
    return Code(answer.error_code)


async def topics(broker: MemoryBroker) -> list[str]:
    return [topic.name for topic in (await broker.ask("Metadata", 9, topics=None)).topics]


def directories(broker: MemoryBroker) -> list[str]:
    """Of partitions that are not deleted."""
    names = broker.fs.list_dir(DATA)
    return [name for name in names if broker.fs.is_dir(f"{DATA}/{name}") and "-delete" not in name]


@scenario(topics={"t": 1})
async def test_the_name_is_free_for_another_topic(broker: MemoryBroker) -> None:
    before = (await broker.ask("Metadata", 12, topics=[{"name": "t"}])).topics[0].topic_id
    await broker.produce(build())
    for _ in range(3):
        assert await code(broker, "t") == Code.NONE
        assert await broker.create("t") != before
        assert await broker.read_all() == []
        assert (await broker.produce(build())).base_offset == 0
    await broker.restart()
    assert len(await broker.read_all()) == 3


# -- time and accidents ---------------------------------------------------------------------


@pytest.mark.parametrize("iterations", range(0, 40, 3))
@scenario(topics={"t": 2})
async def test_a_deletion_that_was_cut_short_is_finished(
    broker: MemoryBroker, iterations: int
) -> None:
    """Killed after so many iterations of the loop, it is done entirely or not at all."""
    await broker.produce(build())
    broker.client.send("DeleteTopics", 5, topic_names=["t"], timeout_ms=5000)
    await run_until_idle(iterations)
    await broker.kill()
    await run_until_idle(100)
    if await topics(broker):
        assert len(await broker.read_all()) == 3, "it was never marked"
        assert await code(broker, "t") == Code.NONE
    assert directories(broker) == []
    await broker.create("t")
    assert await broker.read_all() == []


@scenario(topics={f"t{number}": 1 for number in range(20)})
async def test_marks_of_one_request_share_syncs_of_the_disk(broker: MemoryBroker) -> None:
    tree = broker.instance._coordination
    assert isinstance(tree, EmbeddedCoordination)
    names = [f"t{number}" for number in range(20)]
    broker.jobs.hold("Storage.append")
    waiting = broker.client.send("DeleteTopics", 5, topic_names=names, timeout_ms=5000)
    await run_until_idle()
    assert tree._tree.children(paths.DELETE_TOPICS) == sorted(names), "in memory, on their way"
    broker.jobs.release()
    await until(waiting.done, "the answer")
    assert {topic.error_code for topic in waiting.result().responses} == {Code.NONE}
