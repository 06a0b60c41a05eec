"""ListGroups. See also the differential cases."""

from __future__ import annotations

import pytest

from kavka.server.auth.authorizer import Operation
from kavka.server.handlers import list_groups
from kavka.wire.apis.list_groups import API
from kavka.wire.errors import ErrorCode as Code
from support.denied import Denied
from support.group_requests import join, make_topic
from support.memory_broker import READS, MemoryBroker, scenario
from support.offset_requests import commit, committing
from support.pauses import pauses_of

VERSIONS = range(API.lowest, API.highest + 1)
A0 = ("a", 0)
OFFSETS = "__consumer_offsets"


async def names(broker: MemoryBroker, *states: str, kinds: tuple[str, ...] = ()) -> list[str]:
    """Of the groups in some states, of some types."""
    answer = await broker.ask("ListGroups", 5, states_filter=states, types_filter=kinds)
    assert answer.error_code == Code.NONE
    return sorted(one.group_id for one in answer.groups)


@pytest.mark.parametrize("version", VERSIONS)
@scenario(topics={"a": 1})
async def test_what_is_told_of_each(broker: MemoryBroker, version: int) -> None:
    await make_topic(broker)
    answer = await broker.ask("ListGroups", version)
    assert answer.groups == []
    await commit(broker, {A0: 5}, group_id="offsets")
    await join(broker)
    answer = await broker.ask("ListGroups", version)
    received = {one.group_id: one for one in answer.groups}
    assert sorted(received) == ["g", "offsets"]
    assert (received["g"].protocol_type, received["offsets"].protocol_type) == ("consumer", "")
    if version >= 4:
        assert received["offsets"].group_state == "Empty"
        assert received["g"].group_state == "CompletingRebalance"
    if version >= 5:
        assert {one.group_type for one in answer.groups} == {"classic"}


@scenario(topics={"a": 1})
async def test_some_of_them(broker: MemoryBroker) -> None:
    await commit_many(broker, "one", "two")
    await join(broker)
    assert await names(broker, " EMPTY ") == ["one", "two"]
    assert await names(broker, "Dead") == []
    assert await names(broker, "completingrebalance", "x") == ["g"]
    assert await names(broker, kinds=("Classic",)) == ["g", "one", "two"]
    assert await names(broker, "Empty", kinds=("consumer",)) == []


async def commit_many(broker: MemoryBroker, *group_ids: str) -> None:
    await make_topic(broker)
    for group_id in group_ids:
        await commit(broker, {A0: 5}, group_id=group_id)


@scenario(topics={"a": 1})
async def test_who_may_see_what(broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    await commit_many(broker, "one", "two")
    broker.parts.authorizer = Denied((Operation.DESCRIBE, "two"))
    assert await names(broker) == ["one", "two"], "as the cluster may be described"
    broker.parts.authorizer = Denied(
        (Operation.DESCRIBE, "two"), (Operation.DESCRIBE, "kafka-cluster")
    )
    assert await names(broker) == ["one"]
    monkeypatch.setattr(list_groups, "CHECKS_A_STEP", 1)
    pauses = pauses_of(broker)
    assert await names(broker) == ["one"]
    assert len(pauses) >= 2, "questions"


@pytest.mark.parametrize("step", [1, 3])
@scenario("offsets.topic.num.partitions=2", topics={"a": 1})
async def test_many_are_told_in_steps(
    broker: MemoryBroker, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(list_groups, "GROUPS_A_STEP", step)
    wanted = [f"group-{number:02}" for number in range(11)]
    await commit_many(broker, *wanted)
    assert await names(broker) == wanted


@scenario("offsets.topic.num.partitions=1", topics={"a": 1})
async def test_a_group_that_is_not_committed_yet(broker: MemoryBroker) -> None:
    await make_topic(broker)
    broker.share((1, 2), OFFSETS)
    writing = broker.connect().send("OffsetCommit", 9, **committing(broker, {A0: 6}))
    asked = broker.client.send("ListGroups", 5, states_filter=[], types_filter=[])
    await broker.advance(1_000)
    assert not writing.done() and not asked.done()
    broker.share((1,), OFFSETS)
    await broker.advance(0)
    assert [one.group_id for one in (await asked).groups] == ["g"]


@scenario("offsets.topic.num.partitions=1", topics={"a": 1})
async def test_while_groups_are_loaded(broker: MemoryBroker) -> None:
    await commit_many(broker, "g")
    await broker.kill(holding=READS)
    answer = await broker.ask("ListGroups", 5, states_filter=[], types_filter=[])
    assert answer.error_code == Code.COORDINATOR_LOAD_IN_PROGRESS
    assert answer.groups == []
    broker.jobs.release()
    await broker.advance(0)
    assert await names(broker) == ["g"]
