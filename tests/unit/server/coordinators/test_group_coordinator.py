"""The group coordinator: timers set by reads, and deleted topics. The rest: `test_base`."""

from __future__ import annotations

from collections.abc import Hashable

import pytest

from kavka.groupcoord.shard import GroupShard
from support.coordinated import OfGroups, make
from support.coordinator_machine import next_term
from support.memory_broker import READS, MemoryBroker, scenario

GROUPS = OfGroups()


@scenario()
async def test_a_read_may_set_a_timer(broker: MemoryBroker) -> None:
    await make(broker, GROUPS)
    groups = broker.parts.groups
    for read in (groups.read, groups.try_read):
        key = ("classic", "member", "g", "unknown")

        def query(shard: GroupShard, now_ms: int, key: Hashable = key) -> GroupShard:
            shard.timers.set(key, now_ms + 100)
            return shard

        shard = read("g", query)
        assert isinstance(shard, GroupShard)
        await broker.advance(99)
        assert key in shard.timers
        await broker.advance(1)
        assert key not in shard.timers


@scenario()
async def test_offsets_of_deleted_topics_are_deleted(broker: MemoryBroker) -> None:
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
async def test_they_are_deleted_at_once_also_after_the_clock_was_set(broker: MemoryBroker) -> None:
    await make(broker, GROUPS)
    await broker.create("t")
    GROUPS.write(broker)
    broker.clock.set(3_600_000)
    await broker.ask("DeleteTopics", 5, topic_names=["t"], timeout_ms=10_000)
    await broker.advance(10)
    assert GROUPS.read(broker) is None


@pytest.mark.parametrize("loads", [1, 2])
@scenario()
async def test_offsets_of_topics_deleted_while_they_are_loaded_are_deleted(
    broker: MemoryBroker, loads: int
) -> None:
    """Also if they are loaded again meanwhile, as this broker leads in another epoch."""
    await make(broker, GROUPS)
    await broker.create("t")
    await broker.create("u")
    GROUPS.write(broker)
    GROUPS.write(broker, topic="u")
    await broker.kill(holding=READS)
    assert broker.parts.groups.is_loading
    await broker.ask("DeleteTopics", 5, topic_names=["t"], timeout_ms=10_000)
    if loads == 2:
        replica = broker.replica(GROUPS.topic, broker.parts.groups.partition_of("g"))
        replica.partition.lead(next_term(replica, leader=1))
        replica.role_changed()
    broker.jobs.release()
    await broker.advance(10)
    assert (GROUPS.read(broker), GROUPS.read(broker, topic="u")) == (None, 5)
    await broker.kill()
    await broker.advance(0)
    assert (GROUPS.read(broker), GROUPS.read(broker, topic="u")) == (None, 5)
