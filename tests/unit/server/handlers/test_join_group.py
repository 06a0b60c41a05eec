"""JoinGroup: from the wire to the group and back; the groups' rules have tests of their own."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from kavka.groupcoord.classic.group import ClassicGroup
from kavka.server.auth.authorizer import Operation
from kavka.wire.apis.join_group import API
from kavka.wire.errors import ErrorCode as Code
from support.classic_groups import REBALANCE_MS, SESSION_MS
from support.denied import Denied
from support.group_requests import answered, beat, join, joining, make_topic, sync
from support.memory_broker import MemoryBroker, scenario
from support.memory_network import CLIENT_HOST

VERSIONS = range(API.lowest, API.highest + 1)


def group_of(broker: MemoryBroker) -> ClassicGroup:
    found: Any = broker.parts.groups.read("g", lambda shard, _: shard.state.groups["g"])
    assert isinstance(found, ClassicGroup)
    return found


@pytest.mark.parametrize("version", VERSIONS)
@scenario()
async def test_one_member(broker: MemoryBroker, version: int) -> None:
    answer = await join(broker, version)
    assert answer.error_code == Code.NONE
    assert answer.member_id == answer.leader
    assert answer.member_id.startswith("tester-")
    assert (answer.generation_id, answer.protocol_name) == (1, "range")
    assert [one.member_id for one in answer.members] == [answer.member_id]
    if version >= 7:
        assert answer.protocol_type == "consumer"
    member = group_of(broker).members[answer.member_id]
    assert (member.client_id, member.client_host) == ("tester", f"/{CLIENT_HOST}")
    assert member.session_timeout_ms == SESSION_MS
    assert member.rebalance_timeout_ms == (REBALANCE_MS if version else SESSION_MS)


@pytest.mark.parametrize("version", VERSIONS)
@scenario()
async def test_refusals(broker: MemoryBroker, version: int) -> None:
    await make_topic(broker)
    no_protocol = None if version >= 7 else ""
    for values, code in (
        ({"group_id": ""}, Code.INVALID_GROUP_ID),
        ({"session_timeout_ms": 5_999}, Code.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, Code.INVALID_SESSION_TIMEOUT),
        ({}, Code.UNKNOWN_MEMBER_ID),
        ({"session_timeout_ms": 6_000}, Code.UNKNOWN_MEMBER_ID),
        ({"session_timeout_ms": 1_800_000}, Code.UNKNOWN_MEMBER_ID),
    ):
        answer = await answered(joining(broker.client, version, "somebody", **values))
        assert (answer.error_code, answer.member_id) == (code, "somebody")
        assert (answer.generation_id, answer.leader, answer.members) == (-1, "", [])
        assert answer.protocol_name == no_protocol


@pytest.mark.parametrize("version", VERSIONS)
@scenario()
async def test_it_takes_a_right(broker: MemoryBroker, version: int) -> None:
    broker.parts.authorizer = Denied((Operation.READ, "g"))
    answer = await answered(joining(broker.client, version))
    assert (answer.error_code, answer.member_id) == (Code.GROUP_AUTHORIZATION_FAILED, "")


@scenario()
async def test_it_is_for_the_coordinator(broker: MemoryBroker) -> None:
    answer = await answered(joining(broker.client, 9))
    assert answer.error_code == Code.NOT_COORDINATOR


@scenario("group.min.session.timeout.ms=1", "group.max.session.timeout.ms=2")
async def test_sessions_are_as_long_as_settings_allow(broker: MemoryBroker) -> None:
    await make_topic(broker)
    for session_ms, code in (
        (0, Code.INVALID_SESSION_TIMEOUT),
        (1, Code.MEMBER_ID_REQUIRED),
        (2, Code.MEMBER_ID_REQUIRED),
        (3, Code.INVALID_SESSION_TIMEOUT),
    ):
        answer = await answered(joining(broker.client, 9, session_timeout_ms=session_ms))
        assert answer.error_code == code


@scenario("group.initial.rebalance.delay.ms=7000", "group.max.size=1")
async def test_delay_and_size_are_the_settings(broker: MemoryBroker) -> None:
    await make_topic(broker)
    first = joining(broker.client, 3)
    await broker.advance(6_999)
    assert not first.done()
    await broker.advance(1)
    assert (await answered(first)).error_code == Code.NONE
    second = await answered(joining(broker.client, 9))
    assert second.error_code == Code.GROUP_MAX_SIZE_REACHED


@pytest.mark.parametrize("version", range(5, API.highest + 1))
@scenario()
async def test_a_static_member_comes_back(broker: MemoryBroker, version: int) -> None:
    first = await join(broker, version, group_instance_id="i")
    values: dict[str, Any] = {"protocol_type": "consumer", "protocol_name": "range"}
    await broker.ask(
        "SyncGroup",
        5,
        group_id="g",
        generation_id=1,
        member_id=first.member_id,
        group_instance_id="i",
        assignments=[],
        **values,
    )
    again = await answered(joining(broker.client, version, group_instance_id="i"))
    assert (again.error_code, again.generation_id) == (Code.NONE, 1)
    assert again.member_id != first.member_id
    if version >= 9:
        assert (again.skip_assignment, again.leader) == (True, again.member_id)
    else:
        assert again.leader == first.member_id
    assert len(again.members) == (version >= 9)


@scenario()
async def test_the_reason_is_logged(broker: MemoryBroker, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "kavka.groupcoord")
    await join(broker, 8, reason="nothing better to do")
    assert "client reason: nothing better to do" in caplog.text


@scenario()
async def test_a_protocol_that_is_named_twice_counts_once(broker: MemoryBroker) -> None:
    twice = [{"name": "range", "metadata": b"1"}, {"name": "range", "metadata": b"2"}]
    answer = await join(broker, 9, protocols=twice)
    assert answer.error_code == Code.NONE


@pytest.mark.parametrize("version", (5, 9))
@scenario()
async def test_a_member_id_fits_into_a_record(broker: MemoryBroker, version: int) -> None:
    await make_topic(broker)
    longest = "i" * (32_767 - len("-") - len(str(UUID(int=0))))
    answer = await answered(joining(broker.client, version, group_instance_id=longest + "i"))
    assert (answer.error_code, answer.member_id) == (Code.INVALID_REQUEST, "")
    joined = await join(broker, version, group_instance_id=longest)
    assert len(joined.member_id) == 32_767
    synced = await sync(broker, joined, {joined.member_id: b"all"}, group_instance_id=longest)
    assert synced.error_code == Code.NONE
    await broker.kill()
    assert await beat(broker, joined, group_instance_id=longest) == Code.NONE


@pytest.mark.parametrize("changed", ["group_id", "group_instance_id", "protocol_type", "protocols"])
@scenario()
async def test_what_is_not_utf_8_grows(broker: MemoryBroker, changed: str) -> None:
    """A group with such a text would never become stable, nor ever go."""
    await make_topic(broker)
    client = broker.client
    text = "#" * 11_000
    value: Any = [{"name": text, "metadata": b""}] if changed == "protocols" else text
    send = client.send_frame
    client.send_frame = (  # type: ignore[method-assign]
        lambda frame: send(frame.replace(text.encode(), b"\xff" * len(text)))
    )
    answer = await answered(joining(client, 9, **{changed: value}))
    assert (answer.error_code, answer.member_id) == (Code.INVALID_REQUEST, "")
