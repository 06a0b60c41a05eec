"""Compactions that would be in each other's way, or come too late."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kavka.compat_tests.raw.codec.batches import Written, build
from kavka.log import producer_state
from kavka.log.compaction.order import Progress
from kavka.log.compaction.run import remove_cleaned
from kavka.seams import ProcessLost
from kavka.wire.steps import run_at_once
from support.cleaning import BACKOFF, COMPACT, HeldProcesses, clean_upto, fill, under_way
from support.memory_broker import MemoryBroker, scenario
from support.virtual import run_until_idle


@scenario(BACKOFF, "log.cleaner.threads=2")
async def test_no_compaction_begins_in_a_directory_where_files_are_removed(
    broker: MemoryBroker,
) -> None:
    """It would lose what it writes. That the log is another one by then makes no difference."""
    processes = await under_way(broker)
    held: list[asyncio.Future[None]] = []

    run_process = broker.jobs.run_process

    def hold(function: Callable[..., Any], *args: Any, **named: Any) -> asyncio.Future[Any]:
        if function is not remove_cleaned:
            return run_process(function, *args, **named)
        held.append(asyncio.get_running_loop().create_future())
        return held[-1]

    broker.jobs.run_process = hold  # type: ignore[method-assign]
    processes.results[0].set_exception(ProcessLost("killed"))
    await run_until_idle()
    await broker.ask("DeleteTopics", 5, topic_names=["t"], timeout_ms=5000)
    await broker.create("t", configs=COMPACT)
    await fill(broker)
    await broker.advance(3000)
    assert len(held) == len(processes.orders) == 1
    held[0].set_exception(FileNotFoundError())
    await broker.advance(3000)
    assert len(processes.orders) == 2
    processes.results[-1].cancel()


@scenario(BACKOFF, "log.cleaner.threads=2")
async def test_no_compaction_begins_while_a_deleted_log_of_the_name_is_compacted(
    broker: MemoryBroker,
) -> None:
    """Its process writes files by the very names that another one would use."""
    processes = await under_way(broker)
    await broker.ask("DeleteTopics", 5, topic_names=["t"], timeout_ms=5000)
    await broker.create("t", configs=COMPACT)
    await fill(broker)
    await broker.advance(3000)
    assert len(processes.orders) == 1
    processes.listeners[0](Progress("indexing", 1, 2))
    await broker.advance(1000)
    assert len(processes.orders) == 2
    processes.work()
    await run_until_idle()
    assert clean_upto(broker)


@pytest.mark.parametrize("change", ["cut", "deleted"])
@scenario(BACKOFF)
async def test_no_process_begins_for_a_log_that_changed_while_its_producers_were_collected(
    broker: MemoryBroker, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer_state, "ENTRIES_PER_PART", 1)
    processes = HeldProcesses(broker)
    await broker.create("t", configs=COMPACT)
    for producer_id in range(50):
        await broker.produce(build([Written(b"k", b"v")], producer=(producer_id, 0, 0)))
    await fill(broker)
    log = broker.replica().log
    await broker.tasks.advance(1000)
    assert log.compaction.running
    assert not processes.orders
    if change == "cut":
        run_at_once(broker.parts.replicas.logs.truncate_in_steps(log, 50))
    else:
        broker.parts.replicas.remove("t", 0)
    await run_until_idle(200)
    assert not processes.orders and not log.compaction.running
    if change == "cut":  # the directory is free for the next one
        await fill(broker)
        await broker.advance(2000)
        assert processes.orders
        processes.results[-1].cancel()


@pytest.mark.parametrize("fails", [False, True])
@scenario(BACKOFF, "log.retention.check.interval.ms=300000", "log.initial.task.delay.ms=1")
async def test_retention_applies_to_a_log_that_is_always_being_compacted(
    broker: MemoryBroker, fails: bool
) -> None:
    """As in Apache Kafka: its cleaner deletes after each log, and the task of retention leaves
    compacted logs to it. Here that task finds the log being compacted each time it looks."""
    processes = HeldProcesses(broker)
    both = {"cleanup.policy": "compact,delete", "retention.bytes": "3000"}
    await broker.create("t", configs=COMPACT | both | {"min.cleanable.dirty.ratio": "0"})
    log = broker.replica().log
    for number in range(1, 4):
        await fill(broker, keys=60)
        await broker.advance(1000)
        assert len(processes.orders) == number and log.compaction.running
        await broker.advance(300_000)  # the task has looked
        if fails:
            processes.results[-1].set_exception(ProcessLost("killed"))
        else:
            processes.work()
        await run_until_idle()
        assert log.size_bytes <= 3000 + 1000
    processes.results[-1].cancel()


@scenario("log.cleaner.backoff.ms=86400000")
async def test_a_shorter_backoff_takes_effect_at_once(broker: MemoryBroker) -> None:
    await broker.create("t", configs=COMPACT)
    await fill(broker)
    await broker.advance(10_000)
    assert clean_upto(broker) is None
    settings = broker.instance.live.now
    broker.instance.live.change(replace(settings, log_cleaner_backoff_ms=100))
    await run_until_idle()
    assert clean_upto(broker)


@scenario(BACKOFF)
async def test_a_changed_io_limit_restarts_the_compaction(broker: MemoryBroker) -> None:
    """At 1 byte a second it would never end."""
    processes = await under_way(broker)
    directory = broker.replica().log.directory
    broker.fs.create(f"{directory}/{0:020d}.log.cleaned").pwrite(b"half", 0)
    settings = broker.instance.live.now
    broker.instance.live.change(replace(settings, log_cleaner_io_max_bytes_per_second=5e6))
    await run_until_idle()
    assert processes.results[0].cancelled() and processes.tidied == [directory]
    assert [order.limits.bytes_per_s for order in processes.orders[1:]] == [5e6]
    processes.work()
    await run_until_idle()
    assert clean_upto(broker)


@scenario(BACKOFF)
async def test_other_configs_do_not_restart_the_compaction(broker: MemoryBroker) -> None:
    processes = await under_way(broker)
    settings = broker.instance.live.now
    broker.instance.live.change(replace(settings, producer_id_expiration_ms=5))
    await run_until_idle()
    assert not processes.results[0].done()
    processes.work()
    await run_until_idle()
    assert clean_upto(broker)
