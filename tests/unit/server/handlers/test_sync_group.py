"""SyncGroup: from the wire to the group and back."""

from __future__ import annotations

from typing import Any

import pytest

from kavka.server.auth.authorizer import Operation
from kavka.wire.apis.sync_group import API
from kavka.wire.errors import ErrorCode as Code
from support.denied import Denied
from support.group_requests import join, make_topic, stable, sync
from support.memory_broker import MemoryBroker, scenario

VERSIONS = range(API.lowest, API.highest + 1)


@pytest.mark.parametrize("version", VERSIONS)
@scenario()
async def test_a_member_gets_its_part(broker: MemoryBroker, version: int) -> None:
    joined = await join(broker)
    answer = await sync(broker, joined, {joined.member_id: b"all of it"}, version)
    assert (answer.error_code, answer.assignment) == (Code.NONE, b"all of it")
    if version >= 5:
        assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")


@pytest.mark.parametrize("version", VERSIONS)
@scenario()
async def test_a_part_survives_a_crash(broker: MemoryBroker, version: int) -> None:
    joined = await stable(broker)
    await broker.kill()
    answer = await sync(broker, joined, version=version)
    assert (answer.error_code, answer.assignment) == (Code.NONE, b"all")


@pytest.mark.parametrize("version", VERSIONS)
@scenario()
async def test_refusals(broker: MemoryBroker, version: int) -> None:
    joined = await join(broker)
    wrong: list[tuple[dict[str, Any], Code]] = [
        ({"group_id": ""}, Code.INVALID_GROUP_ID),
        ({"group_id": "other"}, Code.UNKNOWN_MEMBER_ID),
        ({"member_id": "somebody"}, Code.UNKNOWN_MEMBER_ID),
        ({"generation_id": 7}, Code.ILLEGAL_GENERATION),
    ]
    if version >= 3:
        wrong.append(({"group_instance_id": "i"}, Code.UNKNOWN_MEMBER_ID))
    if version >= 5:
        wrong += [
            ({"protocol_name": "sticky"}, Code.INCONSISTENT_GROUP_PROTOCOL),
            ({"protocol_name": None}, Code.INCONSISTENT_GROUP_PROTOCOL),
            ({"protocol_type": None}, Code.INCONSISTENT_GROUP_PROTOCOL),
        ]
    for values, code in wrong:
        answer = await sync(broker, joined, version=version, **values)
        assert (answer.error_code, answer.assignment) == (code, b""), values
    broker.parts.authorizer = Denied((Operation.READ, "g"))
    refused = await sync(broker, joined, version=version)
    assert refused.error_code == Code.GROUP_AUTHORIZATION_FAILED


@scenario()
async def test_it_is_for_the_coordinator(broker: MemoryBroker) -> None:
    answer = await broker.ask(
        "SyncGroup", 4, group_id="g", generation_id=1, member_id="m", assignments=[]
    )
    assert answer.error_code == Code.NOT_COORDINATOR
    await make_topic(broker)
