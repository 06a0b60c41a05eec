"""LeaveGroup: from the wire to the group and back."""

from __future__ import annotations

from typing import Any

import pytest

from kavka.server.auth.authorizer import Operation
from kavka.wire.apis.leave_group import API
from kavka.wire.errors import ErrorCode as Code
from support.denied import Denied
from support.group_requests import beat, leave, make_topic, stable
from support.memory_broker import MemoryBroker, scenario

VERSIONS = range(API.lowest, API.highest + 1)


def codes(answer: Any, version: int) -> tuple[Code, list[Code]]:
    """At the top, and of the members, where the version has that."""
    members = answer.members if version >= 3 else []
    return Code(answer.error_code), [Code(one.error_code) for one in members]


@pytest.mark.parametrize("version", VERSIONS)
@scenario()
async def test_a_member_leaves(broker: MemoryBroker, version: int) -> None:
    joined = await stable(broker)
    answer = await leave(broker, joined.member_id, version)
    assert codes(answer, version) == (Code.NONE, [Code.NONE] * (version >= 3))
    assert await beat(broker, joined) is Code.UNKNOWN_MEMBER_ID
    again = await leave(broker, joined.member_id, version)
    unknown = Code.UNKNOWN_MEMBER_ID
    assert codes(again, version) == ((Code.NONE, [unknown]) if version >= 3 else (unknown, []))


@pytest.mark.parametrize("version", VERSIONS)
@scenario()
async def test_refusals(broker: MemoryBroker, version: int) -> None:
    elsewhere = await leave(broker, "m", version)
    assert codes(elsewhere, version) == (Code.NOT_COORDINATOR, [])
    await make_topic(broker)
    unknown = Code.UNKNOWN_MEMBER_ID
    nobody = await leave(broker, "m", version)
    assert codes(nobody, version) == ((Code.NONE, [unknown]) if version >= 3 else (unknown, []))
    no_group = await leave(broker, "m", version, group_id="")
    assert codes(no_group, version) == (Code.INVALID_GROUP_ID, [])
    broker.parts.authorizer = Denied((Operation.READ, "g"))
    denied = await leave(broker, "m", version)
    assert codes(denied, version) == (Code.GROUP_AUTHORIZATION_FAILED, [])


@pytest.mark.parametrize("version", range(3, API.highest + 1))
@scenario()
async def test_several_at_once(broker: MemoryBroker, version: int) -> None:
    joined = await stable(broker)
    named = [
        {"member_id": "somebody", "group_instance_id": None},
        {"member_id": joined.member_id, "group_instance_id": None},
        {"member_id": "", "group_instance_id": "i"},
    ]
    answer = await leave(broker, "", version, members=named)
    unknown = Code.UNKNOWN_MEMBER_ID
    assert codes(answer, version) == (Code.NONE, [unknown, Code.NONE, unknown])
    assert [(one.member_id, one.group_instance_id) for one in answer.members] == [
        ("somebody", None),
        (joined.member_id, None),
        ("", "i"),
    ]


@scenario()
async def test_the_reason_is_logged(broker: MemoryBroker, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "kavka.groupcoord")
    joined = await stable(broker)
    named = [{"member_id": joined.member_id, "reason": "had enough"}]
    await leave(broker, "", members=named)
    assert "client reason: had enough" in caplog.text
