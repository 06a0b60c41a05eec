"""JoinGroup: from the wire to the group and back; the groups' rules have tests of their own."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from kavka.groupcoord.classic.group import ClassicGroup
from kavka.wire.apis.join_group import API
from kavka.wire.errors import ErrorCode as Code
from support.classic_groups import REBALANCE_MS, SESSION_MS
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
    assert [joined.member_id for joined in answer.members] == [answer.member_id]
    if version >= 7:
        assert answer.protocol_type == "consumer"
    member = group_of(broker).members[answer.member_id]
    assert (member.client_id, member.client_host) == ("tester", f"/{CLIENT_HOST}")
    assert member.session_timeout_ms == SESSION_MS
    assert member.rebalance_timeout_ms == (REBALANCE_MS if version else SESSION_MS)


@scenario()
async def test_the_reason_is_logged(broker: MemoryBroker, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "kavka.groupcoord")
    await join(broker, 8, reason="nothing better to do")
    assert "client reason: nothing better to do" in caplog.text


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
