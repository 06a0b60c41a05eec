"""The expiry of committed offsets, on a whole broker."""

from __future__ import annotations

from typing import Any

from kavka.wire.errors import ErrorCode as Code
from support import offset_requests
from support.group_requests import join, leave, make_topic, sync
from support.memory_broker import MemoryBroker, scenario
from support.offset_requests import fetch

MINUTE_MS = 60_000
RETENTION_MS = 2 * MINUTE_MS
CHECK_MS = 1_000
SETTINGS = ("offsets.retention.minutes=2", f"offsets.retention.check.interval.ms={CHECK_MS}")
SESSION_MS = 30 * MINUTE_MS
"""Longer than any scenario here: no session expires."""
NONE_COMMITTED = -1
PLACE = ("t", 0)


async def commit(broker: MemoryBroker, group: str = "g", offset: int = 5, **more: Any) -> None:
    codes = await offset_requests.commit(broker, {PLACE: offset}, group_id=group, **more)
    assert codes == {PLACE: Code.NONE}


async def committed(broker: MemoryBroker, group: str = "g") -> int:
    offset, code = (await fetch(broker, [PLACE], group_id=group))[PLACE]
    assert code == Code.NONE
    return offset


async def groups(broker: MemoryBroker) -> list[str]:
    answer = await broker.ask("ListGroups", 5, states_filter=[], types_filter=[])
    return sorted(group.group_id for group in answer.groups)


async def prepare(broker: MemoryBroker) -> None:
    """Create a topic to commit for, and the one of the groups."""
    await broker.create("t")
    await make_topic(broker)


async def member_of(broker: MemoryBroker) -> Any:
    """The one member of group g, which is stable."""
    joined = await join(broker, 7, session_timeout_ms=SESSION_MS)
    synced = await sync(broker, joined, {joined.member_id: b""})
    assert synced.error_code == Code.NONE
    return joined


@scenario(*SETTINGS)
async def test_without_members_offsets_expire_by_the_time_of_the_commit(
    broker: MemoryBroker,
) -> None:
    await prepare(broker)
    await commit(broker)
    await broker.advance(MINUTE_MS)
    await commit(broker, "later", 7)
    await broker.advance(RETENTION_MS - MINUTE_MS - 1)
    assert (await committed(broker), await committed(broker, "later")) == (5, 7)
    await broker.advance(1 + CHECK_MS)
    assert (await committed(broker), await committed(broker, "later")) == (NONE_COMMITTED, 7)
    assert await groups(broker) == ["later"], "an empty group without offsets is deleted"
    await broker.advance(MINUTE_MS)
    assert await groups(broker) == []


@scenario(*SETTINGS)
async def test_a_new_commit_restarts_the_retention(broker: MemoryBroker) -> None:
    await prepare(broker)
    for offset in (5, 6, 7):
        await commit(broker, offset=offset)
        await broker.advance(RETENTION_MS - CHECK_MS)
    assert await committed(broker) == 7
    await broker.advance(2 * CHECK_MS)
    assert await committed(broker) == NONE_COMMITTED


@scenario(*SETTINGS)
async def test_with_members_offsets_expire_after_the_last_one_left(broker: MemoryBroker) -> None:
    await prepare(broker)
    joined = await member_of(broker)
    await commit(
        broker,
        member_id=joined.member_id,
        generation_id_or_member_epoch=joined.generation_id,
    )
    await broker.advance(3 * RETENTION_MS)
    assert await committed(broker) == 5
    answer = await leave(broker, joined.member_id)
    assert answer.members[0].error_code == Code.NONE
    await broker.advance(RETENTION_MS - 1)
    assert await committed(broker) == 5
    await broker.advance(1 + CHECK_MS)
    assert await committed(broker) == NONE_COMMITTED
    assert await groups(broker) == []


@scenario(*SETTINGS)
async def test_the_retention_includes_the_time_that_the_broker_is_down(
    broker: MemoryBroker,
) -> None:
    await prepare(broker)
    await commit(broker)
    await broker.advance(RETENTION_MS // 2)
    await broker.kill()
    await broker.advance(RETENTION_MS // 2 - CHECK_MS)
    assert await committed(broker) == 5
    await broker.advance(2 * CHECK_MS)
    assert await committed(broker) == NONE_COMMITTED
    await broker.restart()
    await broker.advance(0)
    assert await committed(broker) == NONE_COMMITTED, "there is a tombstone"
    assert await groups(broker) == []


@scenario("offsets.retention.minutes=2")
async def test_the_default_check_is_every_ten_minutes(broker: MemoryBroker) -> None:
    await prepare(broker)
    await commit(broker)
    await broker.advance(4 * MINUTE_MS)
    assert await committed(broker) == 5
    await broker.advance(8 * MINUTE_MS)
    assert await committed(broker) == NONE_COMMITTED
