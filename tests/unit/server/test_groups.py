"""The group coordinator: where a group is, and what becomes of it when leaders change."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable, Hashable

import pytest

from kavka.groupcoord import offset_records
from kavka.groupcoord.offset_records import NO_TIME, CommittedOffset
from kavka.groupcoord.shard import GroupShard
from kavka.log.journal import Decision, Record, Reply, Ticket
from kavka.log.memfs import Fault
from kavka.server import coordinator
from kavka.server.later import GROUPS
from kavka.server.replica.partition import Leadership
from kavka.wire.errors import ApiError, ErrorCode
from support.memory_broker import DATA, MemoryBroker, scenario

TOPIC = "__consumer_offsets"
TWO_DIRECTORIES = f"log.dirs={DATA},/more"


def refused(ask: Callable[[], object]) -> ErrorCode:
    with pytest.raises(ApiError) as failure:
        ask()
    return failure.value.code


async def make(broker: MemoryBroker) -> None:
    answer = await broker.ask("FindCoordinator", 6, key_type=0, coordinator_keys=["g"])
    assert answer.coordinators[0].error_code == 0


def commit(broker: MemoryBroker, group: str = "g", offset: int = 5, topic: str = "t") -> object:
    """Write an offset as the record that says so."""
    key = offset_records.partition_key(offset_records.topic_key(group, topic), 0)
    value = offset_records.encode(
        CommittedOffset(offset, -1, "", 0, NO_TIME, offset_records.NO_TOPIC_ID)
    )

    def ask(shard: GroupShard, ticket: Ticket, now_ms: int) -> Decision:
        return Decision([Record(key, value)], [Reply(ticket, "done")])

    return broker.parts.groups.call(group, ask)


def committed(broker: MemoryBroker, group: str = "g", topic: str = "t") -> int | None:
    def look(shard: GroupShard, now_ms: int) -> int | None:
        value = shard.offsets.store.get(group, topic, 0)
        found = None if value is None else offset_records.decode(value)
        return None if found is None else found.offset

    found = broker.parts.groups.read(group, look)
    assert found is None or isinstance(found, int)
    return found


@scenario()
async def test_who_looks_may_set_a_deadline(broker: MemoryBroker) -> None:
    await make(broker)
    groups = broker.parts.groups
    for read in (groups.read, groups.read_at_once):
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
async def test_before_there_is_the_topic_nobody_coordinates(broker: MemoryBroker) -> None:
    assert refused(lambda: committed(broker)) == ErrorCode.NOT_COORDINATOR
    assert broker.parts.groups.read_at_once("g", lambda shard, now_ms: 5) is None
    assert broker.parts.groups.shards() == []


@scenario()
async def test_what_a_group_has_outlives_the_broker(broker: MemoryBroker) -> None:
    await make(broker)
    assert commit(broker) == "done"
    assert commit(broker, "other", 7) == "done"
    for again in (broker.restart, broker.kill, broker.crash):
        await again()
        await broker.advance(0)
        assert (committed(broker), committed(broker, "other")) == (5, 7)
        assert len(broker.parts.groups.shards()) == 50


@scenario()
async def test_the_start_does_not_wait_for_groups(broker: MemoryBroker) -> None:
    await make(broker)
    commit(broker)
    await broker.die()
    broker._new_life(type(broker.network)())
    broker.jobs.hold("_MemFile.pread")
    await broker.start()
    assert refused(lambda: committed(broker)) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert refused(lambda: commit(broker)) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert refused(broker.parts.groups.shards) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert committed(broker, "other") is None, "partitions without records are there"
    broker.jobs.release()
    await broker.advance(0)
    assert committed(broker) == 5


@scenario()
async def test_before_the_topic_is_made_what_groups_need_is_imported(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported: list[str] = []
    monkeypatch.setattr("kavka.server.later.import_module", imported.append)
    asked = asyncio.ensure_future(make(broker))
    await broker.advance(0)
    await asked
    assert imported == list(GROUPS)


@scenario()
async def test_each_slice_that_is_loaded_is_told(broker: MemoryBroker) -> None:
    await make(broker)
    commit(broker)
    await broker.die()
    broker._new_life(type(broker.network)())
    broker.jobs.hold("_MemFile.pread")
    await broker.start()
    found: list[int | None] = []
    groups = broker.parts.groups
    assert groups.is_loading
    groups.on_replayed = lambda: found.extend(
        runner.machine.offsets.store.count for runner in groups.runners if not runner.is_active
    )
    broker.jobs.release()
    await broker.advance(0)
    assert found == [1]
    assert not groups.is_loading


@scenario()
async def test_loading_is_told(broker: MemoryBroker, caplog: pytest.LogCaptureFixture) -> None:
    await make(broker)
    commit(broker)
    with caplog.at_level(logging.INFO, coordinator.__name__):
        await broker.restart()
        await broker.advance(0)
    (line,) = caplog.messages
    index = broker.parts.groups.partition_of("g")
    assert line.startswith(f"{TOPIC}-{index}: 1 records of groups")


@scenario()
async def test_another_leader_is_another_coordinator(broker: MemoryBroker) -> None:
    await make(broker)
    commit(broker)
    replica = broker.replica(TOPIC, broker.parts.groups.partition_of("g"))
    now = replica.partition
    epoch, version = now.leader_epoch, now.partition_epoch
    now.follow(Leadership(1, 2, epoch + 1, (2,), version + 1, (1, 2)))
    broker.parts.replicas.role_changed(replica)
    assert refused(lambda: commit(broker)) == ErrorCode.NOT_COORDINATOR
    assert len(broker.parts.groups.runners) == 49
    now.lead(Leadership(1, 1, epoch + 2, (1,), version + 2, (1, 2)))
    broker.parts.replicas.role_changed(replica)
    assert refused(lambda: commit(broker)) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await broker.advance(0)
    assert committed(broker) == 5


@scenario()
async def test_a_change_in_the_same_epoch_is_none(broker: MemoryBroker) -> None:
    await make(broker)
    commit(broker)
    before = broker.parts.groups.runners
    for replica in broker.replicas():
        broker.parts.replicas.role_changed(replica)
    assert broker.parts.groups.runners == before
    assert committed(broker) == 5


@scenario()
async def test_with_the_topic_all_groups_go(broker: MemoryBroker) -> None:
    await make(broker)
    commit(broker)
    answer = await broker.ask("DeleteTopics", 5, topic_names=[TOPIC], timeout_ms=10_000)
    assert answer.responses[0].error_code == ErrorCode.NONE
    assert refused(lambda: commit(broker)) == ErrorCode.NOT_COORDINATOR
    assert not broker.parts.groups.runners
    await make(broker)
    assert committed(broker) is None


@scenario(TWO_DIRECTORIES)
async def test_a_directory_that_fails_takes_its_groups_along(broker: MemoryBroker) -> None:
    await make(broker)
    lost = [one for one in broker.replicas() if one.log.directory.startswith("/more")]
    assert 0 < len(lost) < 50
    index = lost[0].log.partition
    names = [f"group {number}" for number in range(200)]
    group = next(name for name in names if broker.parts.groups.partition_of(name) == index)
    assert commit(broker, group) == "done"
    segment = f"{lost[0].log.directory}/00000000000000000000.log"
    broker.fs.faults.append(Fault("pwrite", segment, error=errno.EIO))
    assert refused(lambda: commit(broker, group)) == ErrorCode.NOT_COORDINATOR
    assert refused(lambda: committed(broker, group)) == ErrorCode.NOT_COORDINATOR
    assert len(broker.parts.groups.runners) == 50 - len(lost)


@scenario()
async def test_deleted_topics_take_their_offsets_along(broker: MemoryBroker) -> None:
    await make(broker)
    await broker.create("t")
    await broker.create("u")
    commit(broker)
    commit(broker, topic="u")
    await broker.ask("DeleteTopics", 5, topic_names=["t"], timeout_ms=10_000)
    await broker.advance(10)
    assert (committed(broker), committed(broker, topic="u")) == (None, 5)
    await broker.kill()
    await broker.advance(0)
    assert (committed(broker), committed(broker, topic="u")) == (None, 5)


@scenario()
async def test_they_do_so_at_once_whatever_the_clock_was_set_to(broker: MemoryBroker) -> None:
    await make(broker)
    await broker.create("t")
    commit(broker)
    broker.clock.set(3_600_000)
    await broker.ask("DeleteTopics", 5, topic_names=["t"], timeout_ms=10_000)
    await broker.advance(10)
    assert committed(broker) is None


@scenario(start=False)
async def test_who_waits_at_the_stop_is_told(broker: MemoryBroker) -> None:
    await broker.start()
    await make(broker)

    def ask(shard: GroupShard, ticket: Ticket, now_ms: int) -> Decision:
        shard.resign = lambda: [ticket]  # type: ignore[method-assign]
        return Decision()

    coordinator = broker.parts.groups
    waiting = coordinator.call("g", ask)
    (replica, *_), replicas = broker.replicas(), broker.parts.replicas
    await broker.stop()
    replicas.role_changed(replica)
    assert not coordinator.runners
    with pytest.raises(ApiError) as failure:
        await waiting
    assert failure.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    code = refused(lambda: coordinator.call("g", ask))
    assert code == ErrorCode.COORDINATOR_NOT_AVAILABLE
