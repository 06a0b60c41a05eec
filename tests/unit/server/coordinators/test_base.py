"""What both coordinators do with their partitions, when leaders change and the topic is deleted."""

from __future__ import annotations

import asyncio
import errno
import logging
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from kavka.log.memfs import Fault
from kavka.server.coordinators import base, group_coordinator, transaction_coordinator
from kavka.wire.errors import ErrorCode
from support.coordinated import DONE, Kind, OfGroups, OfTransactions, make
from support.coordinator_machine import next_term
from support.error_codes import error_code_of
from support.memory_broker import DATA, READS, MemoryBroker, scenario
from support.toy_runner import code

TWO_DIRECTORIES = f"log.dirs={DATA},/more"

KINDS = pytest.mark.parametrize("kind", [OfGroups(), OfTransactions()], ids=lambda kind: kind.name)


@KINDS
@scenario()
async def test_without_the_topic_there_is_no_coordinator(broker: MemoryBroker, kind: Kind) -> None:
    assert error_code_of(lambda: kind.read(broker)) == ErrorCode.NOT_COORDINATOR
    assert error_code_of(lambda: kind.write(broker)) == ErrorCode.NOT_COORDINATOR
    assert kind.of(broker).try_read("g", lambda shard, now_ms: 5) is None
    assert kind.of(broker).shards() == []
    assert kind.of(broker).coordinator_of("g") is None


@KINDS
@scenario()
async def test_state_survives_restarts_kills_and_crashes(broker: MemoryBroker, kind: Kind) -> None:
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
async def test_try_read_returns_committed_state_only(broker: MemoryBroker, kind: Kind) -> None:
    await make(broker, kind)
    assert kind.of(broker).try_read("g", lambda shard, _: kind.kept(shard)) == 0
    kind.write(broker)
    assert kind.of(broker).try_read("g", lambda shard, _: kind.kept(shard)) == 1
    broker.share((1, 2), kind.topic, kind.of(broker).partition_of("g"))
    waiting: Any = kind.write(broker)
    assert kind.of(broker).try_read("g", lambda shard, _: kind.kept(shard)) is None
    broker.unshare(kind.topic, kind.of(broker).partition_of("g"))
    assert await waiting == DONE
    assert kind.of(broker).try_read("g", lambda shard, _: kind.kept(shard)) == 1


@KINDS
@scenario()
async def test_partitions_are_loaded_after_the_start(broker: MemoryBroker, kind: Kind) -> None:
    await make(broker, kind)
    kind.write(broker)
    await broker.kill(holding=READS)
    assert error_code_of(lambda: kind.read(broker)) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert error_code_of(lambda: kind.write(broker)) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert error_code_of(kind.of(broker).shards) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert kind.read(broker, "other") is None, "empty partitions need no loading"
    broker.jobs.release()
    await broker.advance(0)
    assert kind.read(broker) == 5


@pytest.mark.parametrize(
    ("kind", "modules"),
    [(OfGroups(), group_coordinator.MODULES), (OfTransactions(), transaction_coordinator.MODULES)],
)
@scenario()
async def test_modules_are_imported_one_by_one_when_the_topic_is_created(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch, kind: Kind, modules: tuple[str, ...]
) -> None:
    """That takes a while on a busy machine; requests that come before are to be retried."""
    imported: list[str] = []

    def check(module: str) -> None:
        assert kind.topic in broker.parts.metadata.image.topics
        assert not kind.of(broker).runners, "a runner would import them all at once"
        assert kind.of(broker).is_loading
        assert error_code_of(lambda: kind.read(broker)) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        imported.append(module)

    monkeypatch.setattr("kavka.server.runtime.lazy_imports.import_module", check)
    making = asyncio.ensure_future(make(broker, kind))
    await broker.advance(0)
    await making
    assert imported == list(modules)
    assert len(kind.of(broker).runners) == 50
    assert kind.write(broker) == DONE


@KINDS
@scenario()
async def test_a_partition_that_another_broker_leads_after_the_import_is_not_loaded(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    def lose(module: str) -> None:
        replica = broker.replica(kind.topic, kind.of(broker).partition_of("g"))
        if replica.partition.is_leader:
            replica.partition.follow(next_term(replica, leader=2))

    monkeypatch.setattr("kavka.server.runtime.lazy_imports.import_module", lose)
    making = asyncio.ensure_future(make(broker, kind))
    await broker.advance(0)
    await making
    assert len(kind.of(broker).runners) == 49
    assert error_code_of(lambda: kind.read(broker)) == ErrorCode.NOT_COORDINATOR


@KINDS
@scenario()
async def test_a_load_is_logged_and_counted_and_calls_back_after_each_slice(
    broker: MemoryBroker, caplog: pytest.LogCaptureFixture, kind: Kind
) -> None:
    await make(broker, kind)
    kind.write(broker)
    await broker.kill(holding=READS)
    found: list[int] = []
    loading = kind.of(broker)
    assert loading.is_loading
    loading.on_replayed = lambda: found.extend(
        kind.kept(runner.machine) for runner in loading.runners if not runner.is_active
    )
    await broker.advance(700)
    with caplog.at_level(logging.INFO, base.__name__):
        broker.jobs.release()
        await broker.advance(0)
    assert not loading.is_loading
    assert len(found) == 2, "after the replay, and after the decisions that follow"
    assert found[-1] == 1
    (line,) = caplog.messages
    index = loading.partition_of("g")
    assert line.startswith(f"{kind.topic}-{index}: loaded 1 records of {kind.name}")
    now_s = broker.clock.monotonic_s()
    assert sorted(loading.load_ms(now_s)) == [0] * 49 + [700]
    assert loading.load_ms(now_s + base.LOAD_METRICS_WINDOW_S + 1) == []


@KINDS
@scenario()
async def test_the_leader_of_the_partition_is_the_coordinator(
    broker: MemoryBroker, kind: Kind
) -> None:
    await make(broker, kind)
    kind.write(broker)
    replica = broker.replica(kind.topic, kind.of(broker).partition_of("g"))
    replica.partition.follow(next_term(replica, leader=2))
    replica.role_changed()
    assert error_code_of(lambda: kind.write(broker)) == ErrorCode.NOT_COORDINATOR
    assert len(kind.of(broker).runners) == 49
    replica.partition.lead(next_term(replica, leader=1))
    replica.role_changed()
    assert error_code_of(lambda: kind.write(broker)) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await broker.advance(0)
    assert kind.read(broker) == 5


@KINDS
@scenario()
async def test_a_partition_that_was_to_be_loaded_and_has_another_leader_is_not_loading(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    answers: list[ErrorCode] = []

    def lose(module: str) -> None:
        replica = broker.replica(kind.topic, kind.of(broker).partition_of("g"))
        if replica.partition.is_leader:
            answers.append(error_code_of(lambda: kind.read(broker)))
            replica.partition.follow(next_term(replica, leader=2))
            replica.role_changed()
            answers.append(error_code_of(lambda: kind.read(broker)))

    monkeypatch.setattr("kavka.server.runtime.lazy_imports.import_module", lose)
    making = asyncio.ensure_future(make(broker, kind))
    await broker.advance(0)
    await making
    assert answers == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR]


@KINDS
@scenario()
async def test_a_change_in_the_same_leader_epoch_reloads_nothing(
    broker: MemoryBroker, kind: Kind
) -> None:
    await make(broker, kind)
    kind.write(broker)
    before = kind.of(broker).runners
    for replica in broker.replicas():
        replica.role_changed()
    assert kind.of(broker).runners == before
    assert kind.read(broker) == 5


@KINDS
@scenario()
async def test_a_name_belongs_to_its_partition_though_the_metadata_lack_others(
    broker: MemoryBroker, kind: Kind
) -> None:
    """What is written to another partition would be lost."""
    await make(broker, kind)
    kind.write(broker)
    metadata = broker.parts.metadata
    whole = metadata.image.topics[kind.topic]
    some = replace(whole, partitions=whole.partitions[7:8])
    metadata.image = replace(metadata.image, topics={**metadata.image.topics, kind.topic: some})
    assert kind.of(broker).partition_count == 50
    assert kind.read(broker) == 5


@KINDS
@scenario()
async def test_deleting_the_topic_deletes_the_state(broker: MemoryBroker, kind: Kind) -> None:
    await make(broker, kind)
    kind.write(broker)
    answer = await broker.ask("DeleteTopics", 5, topic_names=[kind.topic], timeout_ms=10_000)
    assert answer.responses[0].error_code == ErrorCode.NONE
    assert error_code_of(lambda: kind.write(broker)) == ErrorCode.NOT_COORDINATOR
    assert not kind.of(broker).runners
    await make(broker, kind)
    assert kind.read(broker) is None


@KINDS
@scenario(TWO_DIRECTORIES)
async def test_a_failed_log_directory_unloads_its_partitions(
    broker: MemoryBroker, kind: Kind
) -> None:
    await make(broker, kind)
    lost = [replica for replica in broker.replicas() if replica.log.directory.startswith("/more")]
    assert 0 < len(lost) < 50
    index = lost[0].log.partition
    names = [f"name {number}" for number in range(200)]
    name = next(
        candidate for candidate in names if kind.of(broker).partition_of(candidate) == index
    )
    assert kind.write(broker, name) == DONE
    segment = f"{lost[0].log.directory}/00000000000000000000.log"
    broker.fs.faults.append(Fault("pwrite", segment, error=errno.EIO))
    assert error_code_of(lambda: kind.write(broker, name)) == ErrorCode.NOT_COORDINATOR
    assert error_code_of(lambda: kind.read(broker, name)) == ErrorCode.NOT_COORDINATOR
    assert len(kind.of(broker).runners) == 50 - len(lost)


@KINDS
@scenario(start=False)
async def test_pending_requests_fail_at_the_stop(broker: MemoryBroker, kind: Kind) -> None:
    await broker.start()
    await make(broker, kind)
    coordinator, index = kind.of(broker), kind.of(broker).partition_of("g")
    broker.share((1, 2), kind.topic, index)
    pending: Any = kind.write(broker)
    replica, write = broker.replica(kind.topic, index), partial(kind.write, broker)
    await broker.stop()
    replica.role_changed()
    assert not coordinator.runners
    assert await code(pending) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert error_code_of(write) == ErrorCode.COORDINATOR_NOT_AVAILABLE
