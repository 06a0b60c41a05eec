"""DescribeGroups. See also the differential cases."""

from __future__ import annotations

from typing import Any

import pytest

from kavka.server.auth.authorizer import Operation
from kavka.server.handlers import describe_groups
from kavka.wire.apis.describe_groups import API, NOT_ASKED
from kavka.wire.errors import ErrorCode as Code
from support.classic_groups import RANGE
from support.denied import Denied
from support.group_requests import join, make_topic, sync
from support.memory_broker import MemoryBroker, scenario
from support.offset_requests import commit

VERSIONS = range(API.lowest, API.highest + 1)


async def describe(broker: MemoryBroker, *names: str, version: int = 6, **more: Any) -> Any:
    """What is said of groups, by name."""
    answer = await broker.ask("DescribeGroups", version, groups=names, **more)
    return {one.group_id: one for one in answer.groups}


@pytest.mark.parametrize("version", VERSIONS)
@scenario(topics={"a": 1})
async def test_a_group_with_a_member(broker: MemoryBroker, version: int) -> None:
    joined = await join(broker, 9)
    received = (await describe(broker, "g", version=version))["g"]
    assert (received.group_state, received.protocol_type, received.protocol_data) == (
        "CompletingRebalance",
        "consumer",
        "",
    )
    await sync(broker, joined, {joined.member_id: b"all"})
    received = (await describe(broker, "g", version=version))["g"]
    assert (received.error_code, received.group_state, received.protocol_data) == (
        0,
        "Stable",
        "range",
    )
    (member,) = received.members
    assert member.member_id == joined.member_id
    assert (member.client_id, member.client_host) == ("tester", "/10.0.0.1")
    assert (member.member_metadata, member.member_assignment) == (RANGE[0].metadata, b"all")
    if version >= 4:
        assert member.group_instance_id is None


@pytest.mark.parametrize("version", VERSIONS)
@scenario(topics={"a": 1})
async def test_groups_without(broker: MemoryBroker, version: int) -> None:
    await make_topic(broker)
    await commit(broker, {("a", 0): 5})
    received = await describe(broker, "g", "nobody", version=version)
    assert (received["g"].group_state, received["g"].protocol_type) == ("Empty", "")
    nobody = received["nobody"]
    assert (nobody.group_state, nobody.members) == ("Dead", [])
    if version < 6:
        assert nobody.error_code == Code.NONE
    else:
        assert nobody.error_code == Code.GROUP_ID_NOT_FOUND
        assert nobody.error_message == "Group nobody not found."


@scenario(topics={"a": 1})
async def test_who_may_not(broker: MemoryBroker) -> None:
    await make_topic(broker)
    await commit(broker, {("a", 0): 5})
    broker.parts.authorizer = Denied((Operation.DESCRIBE, "g"), (Operation.DELETE, "h"))
    received = await describe(broker, "h", "g", version=5, include_authorized_operations=True)
    assert list(received) == ["g", "h"], "what is refused comes first, as in Apache Kafka"
    assert received["g"].error_code == Code.GROUP_AUTHORIZATION_FAILED
    assert received["g"].authorized_operations == NOT_ASKED
    allowed = {number for number in range(32) if received["h"].authorized_operations >> number & 1}
    assert allowed == {Operation.READ, Operation.DESCRIBE, 10, 11}


@scenario()
async def test_operations_are_told_to_those_who_ask(broker: MemoryBroker) -> None:
    await make_topic(broker)
    received = (await describe(broker, "g", version=5))["g"]
    assert received.authorized_operations == NOT_ASKED
    received = (await describe(broker, "g", version=6, include_authorized_operations=True))["g"]
    assert received.authorized_operations == NOT_ASKED, "there is no such group"


@scenario()
async def test_while_nobody_coordinates(broker: MemoryBroker) -> None:
    for version in VERSIONS:
        received = (await describe(broker, "g", version=version))["g"]
        assert (received.error_code, received.group_state) == (Code.NOT_COORDINATOR, "")


@scenario(topics={"a": 1})
async def test_many_in_steps(broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describe_groups, "MEMBERS_A_STEP", 2)
    await make_topic(broker)
    names = [f"group-{number}" for number in range(7)]
    for name in names:
        await commit(broker, {("a", 0): 5}, group_id=name)
    received = await describe(broker, *names)
    assert [one.group_state for one in received.values()] == ["Empty"] * 7
