"""ConsumerGroupDescribe. See also the differential cases."""

from __future__ import annotations

from typing import Any

import pytest

from kavka.server.auth.authorizer import Operation
from kavka.server.handlers import consumer_group_describe
from kavka.wire import steps
from kavka.wire.errors import ErrorCode as Code
from support.denied import Denied
from support.group_requests import make_topic
from support.memory_broker import MemoryBroker, scenario


async def join(broker: MemoryBroker, member_id: str, group_id: str = "g", **more: Any) -> None:
    values = {
        "rebalance_timeout_ms": 60_000,
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
        **more,
    }
    answer = await broker.ask(
        "ConsumerGroupHeartbeat",
        1,
        group_id=group_id,
        member_id=member_id,
        member_epoch=0,
        **values,
    )
    assert answer.error_code == Code.NONE


async def describe(
    broker: MemoryBroker, *group_ids: str, version: int = 1, operations: bool = False
) -> Any:
    answer = await broker.ask(
        "ConsumerGroupDescribe",
        version,
        group_ids=group_ids,
        include_authorized_operations=operations,
    )
    return answer.groups


@pytest.mark.parametrize("version", [0, 1])
@scenario(topics={"t": 2})
async def test_a_group(broker: MemoryBroker, version: int) -> None:
    await make_topic(broker)
    await join(broker, "m", instance_id="i", rack_id="r", server_assignor="range")
    (group,) = await describe(broker, "g", version=version)
    assert (group.error_code, group.group_id, group.group_state) == (Code.NONE, "g", "Stable")
    assert (group.group_epoch, group.assignment_epoch, group.assignor_name) == (2, 2, "range")
    assert group.authorized_operations == -(2**31)
    (member,) = group.members
    assert (member.member_id, member.instance_id, member.rack_id) == ("m", "i", "r")
    assert (member.member_epoch, member.client_id) == (2, "tester")
    assert (member.subscribed_topic_names, member.subscribed_topic_regex) == (["t"], "")
    for part in (member.assignment, member.target_assignment):
        (topic,) = part.topic_partitions
        assert (topic.topic_name, topic.partitions) == ("t", [0, 1])
    if version:
        assert member.member_type == 1


@scenario(topics={"t": 2})
async def test_what_is_to_be_given_up_is_still_told_of(broker: MemoryBroker) -> None:
    await make_topic(broker)
    await join(broker, "m")
    await broker.advance(1000)
    await join(broker, "n")
    await broker.ask(
        "ConsumerGroupHeartbeat",
        1,
        group_id="g",
        member_id="m",
        member_epoch=2,
        rebalance_timeout_ms=-1,
    )
    (group,) = await describe(broker, "g")
    assert group.group_state == "Reconciling"
    has = {
        one.member_id: [sorted(topic.partitions) for topic in one.assignment.topic_partitions]
        for one in group.members
    }
    assert has == {"m": [[0, 1]], "n": []}


@scenario(topics={"t": 2})
async def test_groups_that_are_not_there_or_of_another_kind(broker: MemoryBroker) -> None:
    await make_topic(broker)
    await join(broker, "m")
    nothing, group, nameless = await describe(broker, "nothing", "g", "")
    assert (nothing.error_code, nothing.error_message) == (
        Code.GROUP_ID_NOT_FOUND,
        "Group nothing not found.",
    )
    assert group.error_code == Code.NONE
    assert nameless.error_code == Code.INVALID_GROUP_ID


@scenario(topics={"t": 2})
async def test_who_may_see_what(broker: MemoryBroker) -> None:
    await make_topic(broker)
    await join(broker, "m")
    await join(broker, "m", "h")
    (group,) = await describe(broker, "g", operations=True)
    assert group.authorized_operations > 0
    broker.parts.authorizer = Denied((Operation.DESCRIBE, "h"))
    hidden, group = await describe(broker, "g", "h")
    assert (hidden.group_id, hidden.error_code) == ("h", Code.GROUP_AUTHORIZATION_FAILED)
    assert (group.group_id, len(group.members)) == ("g", 1)
    broker.parts.authorizer = Denied((Operation.DESCRIBE, "t"))
    (group,) = await describe(broker, "g")
    assert (group.error_code, group.members) == (Code.TOPIC_AUTHORIZATION_FAILED, [])


@scenario(topics={"t": 2})
async def test_many_are_described_in_steps(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer_group_describe, "GROUPS_A_STEP", 2)
    monkeypatch.setattr(steps, "QUICK_ITEMS_A_STEP", 30)
    await make_topic(broker)
    names = [f"g{number}" for number in range(5)]
    for name in names:
        await join(broker, "m", name)
    groups = await describe(broker, *names)
    assert [(one.group_id, len(one.members)) for one in groups] == [(name, 1) for name in names]
