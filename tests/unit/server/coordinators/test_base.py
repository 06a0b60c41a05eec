"""What both coordinators do: where a name is, and what becomes of it when leaders change."""

from __future__ import annotations

import asyncio
import errno
import logging
from typing import Any

import pytest

from kavka.log.journal import Decision, Ticket
from kavka.log.memfs import Fault
from kavka.server.coordinators import base as coordinator
from kavka.server.coordinators import group_coordinator, transaction_coordinator
from kavka.server.replica.partition_state import Leadership
from kavka.wire.errors import ApiError, ErrorCode
from support.coordinated import DONE, Kind, OfGroups, OfTransactions, make
from support.memory_broker import DATA, READS, MemoryBroker, scenario
from support.refusals import refusal

TWO_DIRECTORIES = f"log.dirs={DATA},/more"

KINDS = pytest.mark.parametrize("kind", [OfGroups(), OfTransactions()], ids=lambda kind: kind.name)


@KINDS
@scenario()
async def test_before_there_is_the_topic_nobody_coordinates(
    broker: MemoryBroker, kind: Kind
) -> None:
    assert refusal(lambda: kind.read(broker)) == ErrorCode.NOT_COORDINATOR
    assert refusal(lambda: kind.write(broker)) == ErrorCode.NOT_COORDINATOR
    assert kind.of(broker).try_read("g", lambda shard, now_ms: 5) is None
    assert kind.of(broker).shards() == []
    assert kind.of(broker).coordinator_of("g") is None


@KINDS
@scenario()
async def test_what_is_kept_outlives_the_broker(broker: MemoryBroker, kind: Kind) -> None:
    await make(broker, kind)
    assert kind.write(broker) == DONE
    assert kind.write(broker, "other", 7) == DONE
    for again in (broker.restart, broker.kill, broker.crash):
        await again()
        await broker.advance(0)
        assert (kind.read(broker), kind.read(broker, "other")) == (5, 7)
        assert len(kind.of(broker).shards()) == 50


@KINDS
@scenario()
async def test_what_is_committed_can_be_read_at_once(broker: MemoryBroker, kind: Kind) -> None:
    await make(broker, kind)
    assert kind.of(broker).try_read("g", lambda shard, _: kind.kept(shard)) == 0
    kind.write(broker)
    assert kind.of(broker).try_read("g", lambda shard, _: kind.kept(shard)) == 1
    broker.share((1, 2), kind.topic, kind.of(broker).partition_of("g"))
    waiting: Any = kind.write(broker)
    assert kind.of(broker).try_read("g", lambda shard, _: kind.kept(shard)) is None
    broker.share((1,), kind.topic, kind.of(broker).partition_of("g"))
    assert await waiting == DONE
    assert kind.of(broker).try_read("g", lambda shard, _: kind.kept(shard)) == 1


@KINDS
@scenario()
async def test_the_start_does_not_wait_for_what_is_kept(broker: MemoryBroker, kind: Kind) -> None:
    await make(broker, kind)
    kind.write(broker)
    await broker.kill(holding=READS)
    assert refusal(lambda: kind.read(broker)) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert refusal(lambda: kind.write(broker)) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert refusal(kind.of(broker).shards) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert kind.read(broker, "other") is None, "partitions without records are there"
    broker.jobs.release()
    await broker.advance(0)
    assert kind.read(broker) == 5


@pytest.mark.parametrize(
    ("kind", "modules"),
    [(OfGroups(), group_coordinator.MODULES), (OfTransactions(), transaction_coordinator.MODULES)],
)
@scenario()
async def test_what_it_needs_is_imported_once_the_topic_is_there(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch, kind: Kind, modules: tuple[str, ...]
) -> None:
    """That takes a while on a busy machine, and others see the topic by then."""
    imported: list[str] = []

    def look(module: str) -> None:
        assert kind.topic in broker.parts.metadata.image.topics
        assert not kind.of(broker).runners, "one would import them all in one go"
        assert kind.of(broker).is_loading
        assert refusal(lambda: kind.read(broker)) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        imported.append(module)

    monkeypatch.setattr("kavka.server.runtime.lazy_imports.import_module", look)
    asked = asyncio.ensure_future(make(broker, kind))
    await broker.advance(0)
    await asked
    assert imported == list(modules)
    assert len(kind.of(broker).runners) == 50
    assert kind.write(broker) == DONE


@KINDS
@scenario()
async def test_what_is_lost_again_while_it_is_imported_is_not_led(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    def lose(module: str) -> None:
        replica = broker.replica(kind.topic, kind.of(broker).partition_of("g"))
        now = replica.partition
        if now.is_leader:
            now.follow(
                Leadership(1, 2, now.leader_epoch + 1, (2,), now.partition_epoch + 1, (1, 2))
            )

    monkeypatch.setattr("kavka.server.runtime.lazy_imports.import_module", lose)
    asked = asyncio.ensure_future(make(broker, kind))
    await broker.advance(0)
    await asked
    assert len(kind.of(broker).runners) == 49
    assert refusal(lambda: kind.read(broker)) == ErrorCode.NOT_COORDINATOR


@KINDS
@scenario()
async def test_each_slice_that_is_loaded_is_told(broker: MemoryBroker, kind: Kind) -> None:
    await make(broker, kind)
    kind.write(broker)
    await broker.kill(holding=READS)
    found: list[int] = []
    loading = kind.of(broker)
    assert loading.is_loading
    loading.on_replayed = lambda: found.extend(
        kind.kept(runner.machine) for runner in loading.runners if not runner.is_active
    )
    broker.jobs.release()
    await broker.advance(0)
    assert len(found) == 2, "what is replayed, and what is made of it"
    assert found[-1] == 1
    assert not loading.is_loading


@KINDS
@scenario()
async def test_loading_is_told(
    broker: MemoryBroker, caplog: pytest.LogCaptureFixture, kind: Kind
) -> None:
    await make(broker, kind)
    kind.write(broker)
    with caplog.at_level(logging.INFO, coordinator.__name__):
        await broker.restart()
        await broker.advance(0)
    (line,) = caplog.messages
    index = kind.of(broker).partition_of("g")
    assert line.startswith(f"{kind.topic}-{index}: loaded 1 records of {kind.name}")


@KINDS
@scenario()
async def test_how_long_it_took_is_known_for_a_while(broker: MemoryBroker, kind: Kind) -> None:
    await make(broker, kind)
    kind.write(broker)
    await broker.kill(holding=READS)
    await broker.advance(700)
    broker.jobs.release()
    await broker.advance(0)
    now_s = broker.clock.monotonic_s()
    assert sorted(kind.of(broker).load_ms(now_s)) == [0] * 49 + [700]
    assert kind.of(broker).load_ms(now_s + coordinator.LOAD_METRICS_WINDOW_S + 1) == []


@KINDS
@scenario()
async def test_another_leader_is_another_coordinator(broker: MemoryBroker, kind: Kind) -> None:
    await make(broker, kind)
    kind.write(broker)
    replica = broker.replica(kind.topic, kind.of(broker).partition_of("g"))
    now = replica.partition
    epoch, version = now.leader_epoch, now.partition_epoch
    now.follow(Leadership(1, 2, epoch + 1, (2,), version + 1, (1, 2)))
    replica.role_changed()
    assert refusal(lambda: kind.write(broker)) == ErrorCode.NOT_COORDINATOR
    assert len(kind.of(broker).runners) == 49
    now.lead(Leadership(1, 1, epoch + 2, (1,), version + 2, (1, 2)))
    replica.role_changed()
    assert refusal(lambda: kind.write(broker)) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await broker.advance(0)
    assert kind.read(broker) == 5


@KINDS
@scenario()
async def test_a_change_in_the_same_epoch_is_none(broker: MemoryBroker, kind: Kind) -> None:
    await make(broker, kind)
    kind.write(broker)
    before = kind.of(broker).runners
    for replica in broker.replicas():
        replica.role_changed()
    assert kind.of(broker).runners == before
    assert kind.read(broker) == 5


@KINDS
@scenario()
async def test_with_the_topic_all_goes(broker: MemoryBroker, kind: Kind) -> None:
    await make(broker, kind)
    kind.write(broker)
    answer = await broker.ask("DeleteTopics", 5, topic_names=[kind.topic], timeout_ms=10_000)
    assert answer.responses[0].error_code == ErrorCode.NONE
    assert refusal(lambda: kind.write(broker)) == ErrorCode.NOT_COORDINATOR
    assert not kind.of(broker).runners
    await make(broker, kind)
    assert kind.read(broker) is None


@KINDS
@scenario(TWO_DIRECTORIES)
async def test_a_directory_that_fails_takes_its_part_along(
    broker: MemoryBroker, kind: Kind
) -> None:
    await make(broker, kind)
    lost = [one for one in broker.replicas() if one.log.directory.startswith("/more")]
    assert 0 < len(lost) < 50
    index = lost[0].log.partition
    names = [f"name {number}" for number in range(200)]
    name = next(one for one in names if kind.of(broker).partition_of(one) == index)
    assert kind.write(broker, name) == DONE
    segment = f"{lost[0].log.directory}/00000000000000000000.log"
    broker.fs.faults.append(Fault("pwrite", segment, error=errno.EIO))
    assert refusal(lambda: kind.write(broker, name)) == ErrorCode.NOT_COORDINATOR
    assert refusal(lambda: kind.read(broker, name)) == ErrorCode.NOT_COORDINATOR
    assert len(kind.of(broker).runners) == 50 - len(lost)


@KINDS
@scenario(start=False)
async def test_who_waits_at_the_stop_is_told(broker: MemoryBroker, kind: Kind) -> None:
    await broker.start()
    await make(broker, kind)

    def ask(shard: Any, ticket: Ticket, now_ms: int) -> Decision:
        shard.resign = lambda: [ticket]
        return Decision()

    asked = kind.of(broker)
    waiting = asked.call("g", ask)
    (replica, *_) = broker.replicas()
    await broker.stop()
    replica.role_changed()
    assert not asked.runners
    with pytest.raises(ApiError) as failure:
        await waiting
    assert failure.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    code = refusal(lambda: asked.call("g", ask))
    assert code == ErrorCode.COORDINATOR_NOT_AVAILABLE
