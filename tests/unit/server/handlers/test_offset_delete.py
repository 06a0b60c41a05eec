"""OffsetDelete. See also the differential cases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kavka.server.auth.authorizer import Operation
from kavka.server.handlers import offset_delete
from kavka.wire.errors import ErrorCode as Code
from support.denied import Denied
from support.group_requests import make_topic
from support.memory_broker import MemoryBroker, scenario
from support.offset_requests import Place, commit, fetch
from support.wire_client import by_topic

A0, A1, B0 = ("a", 0), ("a", 1), ("b", 0)
TOPICS = {"a": 2, "b": 1}


async def ask(broker: MemoryBroker, places: Sequence[Place], group_id: str = "g") -> Any:
    topics = [
        {"name": name, "partitions": [{"partition_index": index} for index in indexes]}
        for name, indexes in by_topic(dict.fromkeys(places)).items()
    ]
    return await broker.ask("OffsetDelete", 0, group_id=group_id, topics=topics)


async def delete(broker: MemoryBroker, places: Sequence[Place]) -> dict[Place, int]:
    """The code of each place."""
    answer = await ask(broker, places)
    assert answer.error_code == Code.NONE
    return {
        (topic.name, one.partition_index): one.error_code
        for topic in answer.topics
        for one in topic.partitions
    }


@scenario(topics=TOPICS)
async def test_offsets_go(broker: MemoryBroker) -> None:
    await make_topic(broker)
    await commit(broker, {A0: 5, A1: 6, B0: 7})
    unknown = Code.UNKNOWN_TOPIC_OR_PARTITION
    answer = await delete(broker, [A0, B0, ("a", 7), ("c", 0)])
    assert answer == {A0: 0, B0: 0, ("a", 7): unknown, ("c", 0): unknown}
    assert await fetch(broker) == {A1: (6, 0)}
    await broker.kill()
    assert await fetch(broker) == {A1: (6, 0)}


@scenario(topics=TOPICS)
async def test_who_may_not(broker: MemoryBroker) -> None:
    await make_topic(broker)
    await commit(broker, {A0: 5, B0: 7})
    broker.parts.authorizer = Denied((Operation.READ, "a"))
    answer = await delete(broker, [A0, B0])
    assert answer == {A0: Code.TOPIC_AUTHORIZATION_FAILED, B0: 0}
    broker.parts.authorizer = Denied((Operation.DELETE, "g"))
    assert (await ask(broker, [A0])).error_code == Code.GROUP_AUTHORIZATION_FAILED


@scenario(topics=TOPICS)
async def test_groups_that_there_are_not(broker: MemoryBroker) -> None:
    assert (await ask(broker, [A0])).error_code == Code.NOT_COORDINATOR
    await make_topic(broker)
    assert (await ask(broker, [A0])).error_code == Code.GROUP_ID_NOT_FOUND
    assert (await ask(broker, [])).error_code == Code.GROUP_ID_NOT_FOUND
    assert (await ask(broker, [A0], "")).error_code == Code.INVALID_GROUP_ID


@pytest.mark.parametrize("step", [1, 4, 5])
@scenario(topics={"a": 9, "b": 2})
async def test_many_go_in_steps(
    broker: MemoryBroker, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_delete, "OFFSETS_A_STEP", step)
    await make_topic(broker)
    places = [*(("a", index) for index in range(9)), ("b", 0), ("b", 1)]
    await commit(broker, dict.fromkeys(places, 1))
    assert await delete(broker, places[1:]) == dict.fromkeys(places[1:], 0)
    assert await fetch(broker) == {A0: (1, 0)}
