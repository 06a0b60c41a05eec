"""Starts of a broker that are given up: they end soon, and leave everything to the next."""

from __future__ import annotations

import asyncio

import pytest

from kavka.compat_tests.raw.codec.batches import Written, build
from kavka.log.errors import LoadingStopped
from support.memory_broker import DATA, MemoryBroker, scenario
from support.virtual import run_until_idle


@pytest.mark.parametrize("way", ["give up", "cancel"])
@scenario(topics={"t": 2})
async def test_a_stop_while_the_logs_are_loaded(broker: MemoryBroker, way: str) -> None:
    """In order, but for the logs: no job may be at work on them when others can have them, and
    what was not looked at is not marked as good."""
    await broker.produce(build([Written(value=b"1")]))
    await broker.die()
    starting = MemoryBroker(fs=broker.fs)
    starting.jobs.hold("DirectoryLoading.load_most")
    start = starting.tasks.spawn(starting.instance.start(), name="start")
    await run_until_idle()
    assert starting.jobs.held and not start.done()
    if way == "cancel":
        start.cancel()
    else:
        starting.instance.abort_start()
    await run_until_idle()
    stop = starting.tasks.spawn(starting.instance.stop(), name="stop")
    await run_until_idle()
    assert not stop.done()
    with pytest.raises(BlockingIOError):
        broker.fs.lock(f"{DATA}/.lock")
    starting.jobs.release()
    with pytest.raises((LoadingStopped, asyncio.CancelledError)):
        await start
    await stop
    assert not broker.fs.exists(f"{DATA}/.kafka_cleanshutdown")
    await broker.revive()
    assert [record.value for record in await broker.read_all()] == [b"1"]


@pytest.mark.parametrize("iterations", range(0, 60, 7))
@scenario(topics={"t": 1})
async def test_a_start_that_is_cancelled_at_any_iteration(
    broker: MemoryBroker, iterations: int
) -> None:
    await broker.produce(build([Written(value=b"1")]))
    await broker.die()
    starting = MemoryBroker(fs=broker.fs)
    start = starting.tasks.spawn(starting.instance.start(), name="start")
    await run_until_idle(iterations)
    starting.instance.abort_start()
    await asyncio.wait([start])
    assert start.exception() is None or isinstance(start.exception(), LoadingStopped)
    await starting.instance.stop()
    await broker.revive()
    assert [record.value for record in await broker.read_all()] == [b"1"]


WATERMARKS = f"{DATA}/replication-offset-checkpoint"


@pytest.mark.parametrize("iterations", range(30))
@scenario(topics={"t": 20})
async def test_a_start_that_is_cancelled_while_the_controller_sends_leader_and_isr(
    broker: MemoryBroker, iterations: int
) -> None:
    """It ends soon then too, in order: no partition that was not heard of yet is forgotten."""
    for index in range(20):
        await broker.produce(build([Written(value=b"1")]), partition=index)
    await broker.stop()
    watermarks = sorted(broker.fs.read_bytes(WATERMARKS).splitlines())
    starting = MemoryBroker(fs=broker.fs)
    start = starting.tasks.spawn(starting.instance.start(), name="start")
    while not starting.replicas():
        await run_until_idle(1)
    await run_until_idle(iterations)
    hosted = len(starting.replicas())
    assert iterations or hosted < 20
    starting.instance.abort_start()
    await run_until_idle(5)
    assert start.done(), "it does not wait for the controller"
    assert start.exception() is None or isinstance(start.exception(), LoadingStopped)
    assert hosted == 20 or isinstance(start.exception(), LoadingStopped)
    starting.tasks.failures.clear()
    await starting.stop()
    assert broker.fs.exists(f"{DATA}/.kafka_cleanshutdown")
    assert sorted(broker.fs.read_bytes(WATERMARKS).splitlines()) == watermarks
    await broker.revive()
    for index in range(20):
        assert [record.value for record in await broker.read_all(partition=index)] == [b"1"]
