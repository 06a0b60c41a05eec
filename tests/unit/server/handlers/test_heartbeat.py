"""Heartbeat: from the wire to the group and back."""

from __future__ import annotations

import pytest

from kavka.server.auth.authorizer import Operation
from kavka.wire.apis.heartbeat import API
from kavka.wire.errors import ApiError
from kavka.wire.errors import ErrorCode as Code
from support.classic_groups import SESSION_MS
from support.denied import Denied
from support.group_requests import beat, joining, stable
from support.memory_broker import MemoryBroker, scenario

VERSIONS = range(API.lowest, API.highest + 1)


@pytest.mark.parametrize("version", VERSIONS)
@scenario()
async def test_a_member_stays_as_long_as_it_is_heard_of(broker: MemoryBroker, version: int) -> None:
    joined = await stable(broker)
    for _ in range(3):
        await broker.advance(SESSION_MS - 1)
        assert await beat(broker, joined, version) is Code.NONE
    await broker.advance(SESSION_MS)
    assert await beat(broker, joined, version) is Code.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", VERSIONS)
@scenario()
async def test_refusals(broker: MemoryBroker, version: int) -> None:
    joined = await stable(broker)
    for values, code in (
        ({"group_id": ""}, Code.INVALID_GROUP_ID),
        ({"group_id": "other"}, Code.UNKNOWN_MEMBER_ID),
        ({"member_id": "somebody"}, Code.UNKNOWN_MEMBER_ID),
        ({"generation_id": 7}, Code.ILLEGAL_GENERATION),
    ):
        assert await beat(broker, joined, version, **values) is code
    if version >= 3:
        assert await beat(broker, joined, version, group_instance_id="i") is Code.UNKNOWN_MEMBER_ID
    joining(broker.connect(), 3)
    await broker.advance(0)
    assert await beat(broker, joined, version) is Code.REBALANCE_IN_PROGRESS
    broker.parts.authorizer = Denied((Operation.READ, "g"))
    assert await beat(broker, joined, version) is Code.GROUP_AUTHORIZATION_FAILED


@pytest.mark.parametrize(
    ("code", "received"),
    [
        (Code.COORDINATOR_LOAD_IN_PROGRESS, Code.NONE),
        (Code.NOT_COORDINATOR, Code.NOT_COORDINATOR),
        (Code.COORDINATOR_NOT_AVAILABLE, Code.COORDINATOR_NOT_AVAILABLE),
    ],
)
@scenario()
async def test_while_groups_are_loaded_all_is_well(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch, code: Code, received: Code
) -> None:
    joined = await stable(broker)

    def read(group_id: str, look: object) -> None:
        raise ApiError(code)

    monkeypatch.setattr(broker.parts.groups, "read", read)
    assert await beat(broker, joined) is received
