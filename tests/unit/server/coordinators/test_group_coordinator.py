"""The group coordinator: deadlines that are set in passing, and what changes with topics. The
rest: `test_coordinator`."""

from __future__ import annotations

from collections.abc import Hashable

from kavka.groupcoord.shard import GroupShard
from support.coordinated import OfGroups, make
from support.memory_broker import MemoryBroker, scenario

GROUPS = OfGroups()


@scenario()
async def test_who_looks_may_set_a_deadline(broker: MemoryBroker) -> None:
    await make(broker, GROUPS)
    groups = broker.parts.groups
    for read in (groups.read, groups.try_read):
        key = ("classic", "member", "g", "nobody")

        def look(shard: GroupShard, now_ms: int, key: Hashable = key) -> GroupShard:
            shard.timers.set(key, now_ms + 100)
            return shard

        shard = read("g", look)
        assert isinstance(shard, GroupShard)
        await broker.advance(99)
        assert key in shard.timers
        await broker.advance(1)
        assert key not in shard.timers


@scenario()
async def test_deleted_topics_take_their_offsets_along(broker: MemoryBroker) -> None:
    await make(broker, GROUPS)
    await broker.create("t")
    await broker.create("u")
    GROUPS.write(broker)
    GROUPS.write(broker, topic="u")
    await broker.ask("DeleteTopics", 5, topic_names=["t"], timeout_ms=10_000)
    await broker.advance(10)
    assert (GROUPS.read(broker), GROUPS.read(broker, topic="u")) == (None, 5)
    await broker.kill()
    await broker.advance(0)
    assert (GROUPS.read(broker), GROUPS.read(broker, topic="u")) == (None, 5)


@scenario()
async def test_they_do_so_at_once_whatever_the_clock_was_set_to(broker: MemoryBroker) -> None:
    await make(broker, GROUPS)
    await broker.create("t")
    GROUPS.write(broker)
    broker.clock.set(3_600_000)
    await broker.ask("DeleteTopics", 5, topic_names=["t"], timeout_ms=10_000)
    await broker.advance(10)
    assert GROUPS.read(broker) is None
