"""DeleteTopics: the codes of Apache Kafka 4.3.1, and that nothing is left of what is deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Any
from uuid import UUID

import pytest

from kavka.server.auth.authorizer import Operation
from kavka.server.controller import topic_requests
from kavka.server.controller.tree_store import TreeStore
from kavka.server.coordination.embedded import EmbeddedCoordination
from kavka.wire.apis.delete_topics import API
from kavka.wire.errors import ErrorCode as Code
from kavka.zktree import paths
from support.batches import build
from support.denied import Denied
from support.memory_broker import DATA, MemoryBroker, scenario
from support.memory_network import until
from support.virtual import settle

IDS_SINCE = 6
BY_NAME = range(API.lowest, IDS_SINCE)
NOBODY = UUID(int=5)


async def delete(broker: MemoryBroker, *names: str, version: int = 5, **values: Any) -> Any:
    """The answers, by name; with names where the version has them."""
    asked: dict[str, Any] = {"timeout_ms": 5000} | values
    if version < IDS_SINCE:
        asked["topic_names"] = list(names)
    else:
        asked["topics"] = [{"name": name} for name in names]
    return (await broker.ask("DeleteTopics", version, **asked)).responses


async def code(broker: MemoryBroker, *names: str, **values: Any) -> Code:
    (answer,) = await delete(broker, *names, **values)
    return Code(answer.error_code)


async def topics(broker: MemoryBroker) -> list[str]:
    return [one.name for one in (await broker.ask("Metadata", 9, topics=None)).topics]


def directories(broker: MemoryBroker) -> list[str]:
    """Of partitions that are not deleted."""
    paths = broker.fs.list_dir(DATA)
    return [one for one in paths if broker.fs.is_dir(f"{DATA}/{one}") and "-delete" not in one]


@pytest.mark.parametrize("version", range(API.lowest, API.highest + 1))
@scenario(topics={"t": 3, "stays": 1})
async def test_a_deleted_topic_is_gone_with_its_files(broker: MemoryBroker, version: int) -> None:
    await broker.produce(build())
    (answer,) = await delete(broker, "t", version=version)
    assert (answer.name, answer.error_code) == ("t", Code.NONE)
    assert await topics(broker) == ["stays"]
    assert directories(broker) == ["stays-0"]
    assert (await broker.produce(build())).error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
    assert (await broker.fetch()).error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
    await broker.advance(120_000)
    assert not any("delete" in one for one in broker.fs.list_dir(DATA)), "removed after a minute"


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


@pytest.mark.parametrize("version", BY_NAME)
@scenario(topics={"t": 1})
async def test_unknown_names(broker: MemoryBroker, version: int) -> None:
    answers = await delete(broker, "gone", "t", "a b", "", version=version)
    codes = {one.name: one.error_code for one in answers}
    unknown = Code.UNKNOWN_TOPIC_OR_PARTITION
    assert codes == {"gone": unknown, "t": Code.NONE, "a b": unknown, "": unknown}


@pytest.mark.parametrize("version", BY_NAME)
@scenario(topics={"t": 1})
async def test_names_that_come_twice(broker: MemoryBroker, version: int) -> None:
    assert await code(broker, "t", "t", version=version) == Code.INVALID_REQUEST
    assert await code(broker, "gone", "gone", version=version) == Code.INVALID_REQUEST
    assert await topics(broker) == ["t"]


# -- by id ----------------------------------------------------------------------------------


async def delete_these(
    broker: MemoryBroker, *topics: Mapping[str, Any]
) -> list[tuple[str | None, UUID | None, int]]:
    asked = [{"name": None, **topic} for topic in topics]
    answer = await broker.ask("DeleteTopics", 6, timeout_ms=5000, topics=asked)
    return [(one.name, one.topic_id, one.error_code) for one in answer.responses]


@scenario()
async def test_by_id(broker: MemoryBroker) -> None:
    ids = {name: await broker.create(name) for name in ("a", "b")}
    assert await delete_these(broker, {"topic_id": ids["a"]}) == [("a", ids["a"], Code.NONE)]
    again = await delete_these(broker, {"topic_id": ids["a"]})
    assert again == [(None, ids["a"], Code.UNKNOWN_TOPIC_ID)]
    found = await delete_these(broker, {"topic_id": NOBODY}, {"name": "b"}, {"name": "gone"})
    assert sorted(found, key=str) == [
        ("b", ids["b"], Code.NONE),
        ("gone", None, Code.UNKNOWN_TOPIC_OR_PARTITION),
        (None, NOBODY, Code.UNKNOWN_TOPIC_ID),
    ]
    assert await topics(broker) == []


@scenario()
async def test_a_topic_may_be_named_in_one_way_only(broker: MemoryBroker) -> None:
    t, u = await broker.create("t"), await broker.create("u")
    both = await delete_these(broker, {"name": "t", "topic_id": t}, {"name": "u"})
    assert both == [("t", t, Code.INVALID_REQUEST), ("u", u, Code.NONE)]
    for asked, answered in (
        ([{"name": "t"}, {"topic_id": t}], ("t", t)),
        ([{"topic_id": t}, {"name": "t"}], ("t", t)),
        ([{"topic_id": t}, {"topic_id": t}], (None, t)),
        ([{"topic_id": NOBODY}, {"topic_id": NOBODY}], (None, NOBODY)),
        ([{"name": "t"}, {"name": "t"}], ("t", None)),
        ([{}], (None, None)),
    ):
        assert await delete_these(broker, *asked) == [(*answered, Code.INVALID_REQUEST)]
    twice_and_named = await delete_these(
        broker, {"topic_id": t}, {"topic_id": t}, {"name": "t"}, {"topic_id": u}
    )
    assert twice_and_named[:2] == [
        (None, t, Code.INVALID_REQUEST),
        (None, u, Code.UNKNOWN_TOPIC_ID),
    ]
    assert twice_and_named[2:] == [("t", t, Code.INVALID_REQUEST)]
    assert await topics(broker) == ["t"]
    named_twice = await delete_these(broker, {"name": "t"}, {"topic_id": t}, {"name": "t"})
    assert named_twice == [("t", None, Code.INVALID_REQUEST), ("t", t, Code.NONE)]
    assert await topics(broker) == []


# -- switches and rights --------------------------------------------------------------------


@pytest.mark.parametrize("version", BY_NAME)
@scenario("delete.topic.enable=false", topics={"t": 1})
async def test_the_switch(broker: MemoryBroker, version: int) -> None:
    disabled = Code.TOPIC_DELETION_DISABLED if version >= 3 else Code.INVALID_REQUEST
    assert await code(broker, "t", version=version) == disabled
    assert await topics(broker) == ["t"]


@scenario()
async def test_who_may_not(broker: MemoryBroker) -> None:
    t = await broker.create("t")
    denied = Code.TOPIC_AUTHORIZATION_FAILED
    broker.parts.authorizer = Denied(Operation.DELETE)
    assert await code(broker, "t") == denied
    assert await delete_these(broker, {"topic_id": t}) == [("t", t, denied)]
    broker.parts.authorizer = Denied(Operation.DELETE, Operation.DESCRIBE)
    assert await code(broker, "t") == await code(broker, "gone") == denied
    assert await delete_these(broker, {"topic_id": t}) == [(None, t, denied)], "nor is it named"
    assert t in broker.parts.metadata.image.names_by_id
    broker.parts.authorizer = Denied((Operation.DELETE, "t"), Operation.DESCRIBE)
    assert await code(broker, "t") == Code.NONE, "who may delete in the cluster may delete all"


# -- time and accidents ---------------------------------------------------------------------


@pytest.mark.parametrize("timeout_ms", [0, -1])
@scenario(topics={"t": 1})
async def test_for_who_does_not_wait_nothing_is_begun(
    broker: MemoryBroker, timeout_ms: int
) -> None:
    answers = await delete(broker, "t", "gone", "gone", timeout_ms=timeout_ms)
    received = [(one.name, one.error_code) for one in answers]
    assert received == [(name, Code.REQUEST_TIMED_OUT) for name in ("t", "gone", "gone")]
    twice = await code(broker, "t", "t", timeout_ms=timeout_ms)
    assert twice == Code.INVALID_REQUEST, "seen at once"
    await settle(100)
    assert await topics(broker) == ["t"]
    assert directories(broker) == ["t-0"]


@scenario(topics={"t": 1})
async def test_reasons_are_told_in_words(broker: MemoryBroker) -> None:
    (answer,) = await delete(broker, "gone")
    assert answer.error_message == "This server does not host this topic-partition."
    asked = [{"name": None, "topic_id": NOBODY}]
    answer = await broker.ask("DeleteTopics", 6, timeout_ms=5000, topics=asked)
    assert answer.responses[0].error_message == "This server does not host this topic ID."


@scenario()
async def test_a_power_cut_does_not_bring_it_back(broker: MemoryBroker) -> None:
    await broker.create("t", configs={"flush.messages": "1"})
    await broker.produce(build())
    assert await code(broker, "t") == Code.NONE
    await broker.crash()
    assert await topics(broker) == []
    assert directories(broker) == []
    await broker.create("t")
    assert (await broker.produce(build())).base_offset == 0


@pytest.mark.parametrize("turns", range(0, 40, 3))
@scenario(topics={"t": 2})
async def test_a_deletion_that_was_cut_short_is_finished(broker: MemoryBroker, turns: int) -> None:
    """Killed after so many turns of the loop, it is done entirely or not at all."""
    await broker.produce(build())
    broker.client.send("DeleteTopics", 5, topic_names=["t"], timeout_ms=5000)
    await settle(turns)
    await broker.kill()
    await settle(100)
    if await topics(broker):
        assert len(await broker.read_all()) == 3, "it was never marked"
        assert await code(broker, "t") == Code.NONE
    assert directories(broker) == []
    await broker.create("t")
    assert await broker.read_all() == []


@scenario(topics={"t": 1})
async def test_a_failed_log_is_deleted_after_a_restart(broker: MemoryBroker) -> None:
    broker.fs.capacity_bytes = 0
    assert (await broker.produce(build())).error_code == Code.KAFKA_STORAGE_ERROR
    broker.fs.capacity_bytes = None
    waiting = broker.client.send("DeleteTopics", 5, topic_names=["t"], timeout_ms=5000)
    await broker.advance(5000)
    assert waiting.result().responses[0].error_code == Code.REQUEST_TIMED_OUT
    await broker.restart()
    await settle(100)
    assert await topics(broker) == []
    assert directories(broker) == []


@scenario(topics={"t": 1})
async def test_only_the_controller_deletes(broker: MemoryBroker) -> None:
    broker.parts.controller.close()
    assert await code(broker, "t") == Code.NOT_CONTROLLER
    assert directories(broker) == ["t-0"]


@scenario(topics={f"t{number}": 1 for number in range(20)})
async def test_many_are_looked_at_in_slices(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_requests, "TOPICS_A_SLICE", 2)
    begun: list[int] = []
    mark = TreeStore.mark_for_deletion

    def counted(store: TreeStore, name: str) -> Awaitable[None]:
        begun[-1] += 1
        return mark(store, name)

    async def beside() -> None:
        while True:
            begun.append(0)
            await asyncio.sleep(0)

    monkeypatch.setattr(TreeStore, "mark_for_deletion", counted)
    watching = asyncio.ensure_future(beside())
    await settle(1)
    names = [f"t{number}" for number in range(20)]
    answer = await broker.ask("DeleteTopics", 5, topic_names=names, timeout_ms=5000)
    watching.cancel()
    assert {one.error_code for one in answer.responses} == {Code.NONE}
    assert sum(begun) == 20
    assert max(begun) == 2


@scenario(topics={f"t{number}": 1 for number in range(20)})
async def test_marks_of_one_request_share_syncs_of_the_disk(broker: MemoryBroker) -> None:
    tree = broker.instance._coordination
    assert isinstance(tree, EmbeddedCoordination)
    names = [f"t{number}" for number in range(20)]
    broker.jobs.hold("Storage.append")
    waiting = broker.client.send("DeleteTopics", 5, topic_names=names, timeout_ms=5000)
    await settle()
    assert tree._tree.children(paths.DELETE_TOPICS) == sorted(names), "in memory, on their way"
    broker.jobs.release()
    await until(waiting.done, "the answer")
    assert {one.error_code for one in waiting.result().responses} == {Code.NONE}
