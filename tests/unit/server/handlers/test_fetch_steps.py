"""A Fetch of very many partitions: looked at in slices, between the turns of others."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from kavka.compat_tests.raw.codec.batches import Written, build
from kavka.server.handlers import fetch
from kavka.server.replica import fetch_reading, fetch_sessions
from support.memory_broker import MemoryBroker, fetching, scenario
from support.pauses import pauses_of
from support.virtual import run_until_idle

PARTITIONS = 40
LONG_MS = 30_000
ALL = {("t", index): 0 for index in range(PARTITIONS)}
TURNS = 20 * PARTITIONS


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in (
        (fetch, "PARTITIONS_PER_STEP"),
        (fetch, "RESPONSES_PER_STEP"),
        (fetch, "IDLE_PER_STEP"),
        (fetch_reading, "READS_PER_STEP"),
        (fetch_sessions, "PARTITIONS_PER_STEP"),
    ):
        monkeypatch.setattr(module, name, 3)


def found(answer: Any) -> list[int]:
    """The partitions with records."""
    return [
        partition.partition_index
        for topic in answer.responses
        for partition in topic.partitions
        if partition.records
    ]


@scenario(topics={"t": PARTITIONS})
async def test_it_is_planned_read_and_answered_in_slices(broker: MemoryBroker) -> None:
    for index in range(PARTITIONS):
        await broker.produce(build(), "t", index)
    pauses = pauses_of(broker)
    answer = await broker.ask("Fetch", 12, **fetching(ALL))
    assert found(answer) == list(range(PARTITIONS))
    assert len(pauses) >= 3 * (PARTITIONS // 3)


@pytest.mark.parametrize("iterations", range(0, 60, 2))
@scenario(topics={"t": PARTITIONS})
async def test_what_changes_while_the_others_are_looked_at_is_not_missed(
    broker: MemoryBroker, iterations: int
) -> None:
    other = broker.connect()
    waiting = broker.client.send("Fetch", 12, **fetching(ALL, max_wait_ms=LONG_MS))
    await run_until_idle(iterations)
    assert not waiting.done()
    batch = {"index": iterations % PARTITIONS, "records": bytes(build())}
    topics = [{"name": "t", "partition_data": [batch]}]
    other.send("Produce", 9, acks=1, timeout_ms=1000, topic_data=topics)
    await run_until_idle(TURNS)
    assert found(waiting.result()) == [iterations % PARTITIONS]


@scenario(topics={"t": PARTITIONS})
async def test_a_deadline_that_passes_meanwhile_is_answered_once(broker: MemoryBroker) -> None:
    waiting = broker.client.send("Fetch", 12, **fetching(ALL, max_wait_ms=100, min_bytes=1000))
    await run_until_idle(TURNS)
    batch = {"index": 5, "records": bytes(build([Written()]))}
    topics = [{"name": "t", "partition_data": [batch]}]
    other = broker.connect()
    answer = await other.ask("Produce", 9, acks=1, timeout_ms=1000, topic_data=topics)
    assert answer.responses[0].partition_responses[0].error_code == 0
    await broker.tasks.advance(100)
    await run_until_idle(TURNS)
    assert found(waiting.result()) == [5]
    assert broker.parts.purgatory.waiting["Fetch"] == 0
    assert len(broker.parts.purgatory) == 0


@scenario(topics={"t": PARTITIONS})
async def test_the_next_request_of_the_connection_does_not_overtake(broker: MemoryBroker) -> None:
    """It names the session of the first, which must have been begun."""
    first = broker.client.send(
        "Fetch", 12, **fetching(ALL, max_wait_ms=LONG_MS, session_epoch=0, session_id=0)
    )
    second = broker.client.send("Fetch", 12, **fetching(ALL, session_epoch=0))
    await run_until_idle(TURNS)
    assert not second.done()
    await broker.advance(LONG_MS)
    await run_until_idle(TURNS)
    assert first.result().session_id
    assert second.result().session_id not in (0, first.result().session_id)


@scenario(topics={"t": PARTITIONS})
async def test_a_session_that_another_uses_meanwhile_is_not_confused(broker: MemoryBroker) -> None:
    begun = await broker.ask("Fetch", 12, **fetching(ALL, session_epoch=0))
    named = fetching(ALL, session_id=begun.session_id, session_epoch=1)
    first = broker.client.send("Fetch", 12, **named)
    other = broker.connect().send("Fetch", 12, **named)
    await run_until_idle(TURNS)
    codes = sorted((first.result().error_code, other.result().error_code))
    assert codes == [0, 71], "INVALID_FETCH_SESSION_EPOCH"
    rest = fetching({}, session_id=begun.session_id, session_epoch=2)
    assert (await broker.ask("Fetch", 12, **rest)).error_code == 0
    assert broker.parts.sessions._held == PARTITIONS


@pytest.mark.parametrize("seed", range(5))
@scenario(topics={"t": PARTITIONS})
async def test_a_consumer_misses_nothing(broker: MemoryBroker, seed: int) -> None:
    """It follows all partitions in a session, while others write."""
    chance = random.Random(seed)
    other = broker.connect()
    written = dict.fromkeys(range(PARTITIONS), 0)
    read = dict.fromkeys(range(PARTITIONS), 0)

    async def write() -> None:
        for _ in range(150):
            index = chance.randrange(PARTITIONS)
            batch = {"index": index, "records": bytes(build([Written()]))}
            topics = [{"name": "t", "partition_data": [batch]}]
            answer = await other.ask("Produce", 9, acks=1, timeout_ms=1000, topic_data=topics)
            assert answer.responses[0].partition_responses[0].error_code == 0
            written[index] += 1
            await run_until_idle(chance.randrange(30))

    writing = asyncio.ensure_future(write())
    session, epoch = 0, 0
    changed: dict[tuple[str, int], int] = dict(ALL)
    while not (writing.done() and read == written):
        values = fetching(changed, session_id=session, session_epoch=epoch, max_wait_ms=50)
        waiting = broker.client.send("Fetch", 12, **values)
        for _ in range(100):
            await run_until_idle(20)
            if waiting.done():
                break
            await broker.tasks.advance(10)
        answer = waiting.result()
        assert answer.error_code == 0
        session, epoch, changed = answer.session_id, epoch + 1, {}
        for topic in answer.responses:
            for partition in topic.partitions:
                if partition.records:
                    read[partition.partition_index] += len(bytes(partition.records)) // len(
                        build([Written()])
                    )
                    changed["t", partition.partition_index] = read[partition.partition_index]
    await writing
