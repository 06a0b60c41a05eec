"""The queue of operations on one state machine; a runner uses it in
`tests/scenarios/journal_runner`."""

from __future__ import annotations

import pytest

from kavka.log.journal import ReplyFuture
from kavka.server.coordinators import serial_queue
from kavka.server.coordinators.serial_queue import SerialQueue
from kavka.wire.steps import Steps
from support.memory_broker import MemoryBroker, scenario


@pytest.mark.parametrize("pauses", [0, 2])
@scenario()
async def test_a_step_may_put_work_in_front_of_its_own(broker: MemoryBroker, pauses: int) -> None:
    """As a marker does that is written in the course of a decision."""
    done: list[str] = []
    queue = SerialQueue(broker.tasks, broker.clock, "work")

    def named(name: str, pauses: int) -> Steps[None]:
        for _ in range(pauses):
            yield None
        done.append(name)

    def first() -> Steps[None]:
        for _ in range(pauses):
            yield None
        queue.run_next(named("marker", 2), ReplyFuture())
        done.append("first")

    queue.run(first(), ReplyFuture())
    queue.run(named("second", 1), ReplyFuture())
    await broker.advance(0)
    assert sorted(done) == ["first", "marker", "second"]
    assert not queue.work


@scenario()
async def test_a_long_operation_yields_to_the_event_loop(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serial_queue, "TICK_SLICE_S", -1.0)
    queue = SerialQueue(broker.tasks, broker.clock, "work")
    queue.run((None for _ in range(3)), ReplyFuture())
    count = 0
    while queue.work:
        await broker.tasks.sleep(0)
        count += 1
    assert count >= 3
