"""Somebody sets the clock while a journal has deadlines: they keep their distance."""

from __future__ import annotations

import pytest

from support.memory_broker import MemoryBroker, scenario
from support.toy_runner import Kit, code
from unit.server.coordinators.test_journal_runner import FSYNC, NOT_AVAILABLE, ONE


@pytest.mark.parametrize("by_ms", [3_600_000, -3_600_000])
@scenario(topics=ONE)
async def test_deadlines_keep_their_distance_when_the_clock_is_set(
    broker: MemoryBroker, by_ms: int
) -> None:
    kit = Kit(broker)
    before = kit.park(b"before", 500)
    await broker.advance(100)
    broker.clock.set(by_ms)
    after = kit.park(b"after", 200)
    await broker.advance(199)
    assert not after.done()
    await broker.advance(1)
    assert after.result() == b"1"
    broker.clock.set(-by_ms)
    await broker.advance(199)
    assert not before.done()
    await broker.advance(1)
    assert before.result() == b"1"


@pytest.mark.parametrize("by_ms", [3_600_000, -3_600_000])
@scenario(FSYNC, topics=ONE)
async def test_writes_get_their_time_when_the_clock_is_set(
    broker: MemoryBroker, by_ms: int
) -> None:
    kit = Kit(broker)
    broker.jobs.hold()
    written = kit.put()
    await broker.advance(1000)
    broker.clock.set(by_ms)
    kit.put(b"b")
    await broker.advance(3999)
    assert not written.done()
    await broker.advance(1)
    assert await code(written) == NOT_AVAILABLE
    broker.jobs.release()
    await broker.advance(0)
