"""Requests of classic groups to a broker in memory, in any version."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import pytest

from kavka.log.journal import Decision
from kavka.server.coordinators import serial_queue
from kavka.wire.errors import ErrorCode
from kavka.wire.steps import Steps
from support.classic_groups import DELAY_MS, RANGE, REBALANCE_MS, SESSION_MS
from support.memory_broker import MemoryBroker
from support.memory_network import Client, until

GROUP: Final = "g"
LONG_TURNS: Final = 50
"""More than a request needs to arrive."""


def joining(client: Client, version: int, member_id: str = "", **more: Any) -> asyncio.Future[Any]:
    """One JoinGroup; its answer may take time."""
    values: dict[str, Any] = {
        "group_id": GROUP,
        "session_timeout_ms": SESSION_MS,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": [{"name": protocol.name, "metadata": protocol.metadata} for protocol in RANGE],
    }
    if version >= 1:
        values["rebalance_timeout_ms"] = REBALANCE_MS
    return client.send("JoinGroup", version, **{**values, **more})


async def answered(answer: asyncio.Future[Any]) -> Any:
    """The answer to a request, which must need no time."""
    await until(answer.done, "an answer")
    return answer.result()


async def make_topic(broker: MemoryBroker) -> None:
    """Have the topic made that groups and offsets are kept in."""
    await broker.ask("FindCoordinator", 1, key=GROUP, key_type=0)


def occupy(broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the group's machine do for LONG_TURNS of the loop what nothing else may interrupt."""

    def long(*_: Any) -> Steps[Decision]:
        yield from [None] * LONG_TURNS
        return Decision()

    monkeypatch.setattr(serial_queue, "TICK_SLICE_S", -1.0)
    broker.parts.groups.call(GROUP, long)


async def join(broker: MemoryBroker, version: int = 9, **more: Any) -> Any:
    """Join a group that is empty, in as many rounds as it needs; the answer."""
    await make_topic(broker)
    answer = joining(broker.client, version, **more)
    await broker.advance(0)
    if answer.done() and answer.result().error_code == ErrorCode.MEMBER_ID_REQUIRED:
        answer = joining(broker.client, version, answer.result().member_id, **more)
    await broker.advance(DELAY_MS)
    return await answered(answer)


async def sync(
    broker: MemoryBroker,
    joined: Any,
    assignments: Mapping[str, bytes] | None = None,
    version: int = 5,
    **more: Any,
) -> Any:
    """One SyncGroup of a member, by its answer to JoinGroup."""
    values: dict[str, Any] = {
        "group_id": GROUP,
        "generation_id": joined.generation_id,
        "member_id": joined.member_id,
        "assignments": [
            {"member_id": member_id, "assignment": part}
            for member_id, part in (assignments or {}).items()
        ],
    }
    if version >= 5:
        values |= {"protocol_type": "consumer", "protocol_name": "range"}
    return await broker.ask("SyncGroup", version, **{**values, **more})


async def stable(broker: MemoryBroker) -> Any:
    """A stable group of one member; its answer to JoinGroup."""
    joined = await join(broker)
    synced = await sync(broker, joined, {joined.member_id: b"all"})
    assert synced.error_code == 0
    return joined


async def beat(broker: MemoryBroker, joined: Any, version: int = 4, **more: Any) -> ErrorCode:
    """One Heartbeat of a member."""
    values = {
        "group_id": GROUP,
        "generation_id": joined.generation_id,
        "member_id": joined.member_id,
    }
    return ErrorCode((await broker.ask("Heartbeat", version, **{**values, **more})).error_code)


async def leave(broker: MemoryBroker, member_id: str, version: int = 5, **more: Any) -> Any:
    """One LeaveGroup of a member."""
    values: dict[str, Any] = {"group_id": GROUP}
    if version < 3:
        values["member_id"] = member_id
    else:
        values["members"] = [{"member_id": member_id, "group_instance_id": None}]
    return await broker.ask("LeaveGroup", version, **{**values, **more})
