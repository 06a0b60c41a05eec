"""Produce by idempotent producers: copies, gaps and epochs (KIP-98, KIP-360), also across restarts.

The answers are those of Apache Kafka 4.3.1 to the same requests.
"""

from __future__ import annotations

import random
from typing import NamedTuple

import pytest

from kavka.compat_tests.raw.codec.batches import Written, build
from kavka.wire.errors import ErrorCode as Code
from support.memory_broker import MemoryBroker, scenario

ID = 4000
RECORDS = 3
TIME_MS = 1_700_000_000_000


class Outcome(NamedTuple):
    code: Code
    base_offset: int


async def write(
    broker: MemoryBroker, sequence: int, *, epoch: int = 0, producer_id: int = ID, topic: str = "t"
) -> Outcome:
    """Three records with sequences from `sequence` on; equal arguments give equal bytes."""
    records = [Written(value=b"%d" % (sequence + number)) for number in range(RECORDS)]
    answer = await broker.produce(build(records, producer=(producer_id, epoch, sequence)), topic)
    return Outcome(Code(answer.error_code), answer.base_offset)


def accepted(base_offset: int) -> Outcome:
    return Outcome(Code.NONE, base_offset)


async def end(broker: MemoryBroker) -> int:
    offset: int = (await broker.list_offset(-1)).offset
    return offset


@scenario(topics={"t": 1})
async def test_a_copy_is_answered_with_the_time_of_its_records(broker: MemoryBroker) -> None:
    batch = build([Written(time_ms=7)], producer=(ID, 0, 0))
    first = await broker.produce(bytes(batch))
    again = await broker.produce(bytes(batch))
    assert (first.log_append_time_ms, again.log_append_time_ms) == (-1, TIME_MS + 7)
    assert again.log_start_offset == 0


@scenario()
async def test_a_producer_may_go_on_without_a_batch_that_was_refused(broker: MemoryBroker) -> None:
    """As aiokafka does when it has given the batch up. No broker can tell that from a batch that is
    in flight behind the refused one."""
    refused = Outcome(Code.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert await write(broker, 0) == refused
    await broker.create("t")
    assert await write(broker, 3) == accepted(0)
    assert await write(broker, 6) == accepted(3)


# -- across the end of the broker -----------------------------------------------------------


@scenario(topics={"t": 1})
async def test_an_answer_lost_by_a_kill_is_got_by_asking_again(broker: MemoryBroker) -> None:
    await write(broker, 0)
    records = build([Written(value=b"unanswered")], producer=(ID, 0, RECORDS))
    request = {"name": "t", "partition_data": [{"index": 0, "records": records}]}
    lost = broker.client.send("Produce", 9, acks=-1, timeout_ms=1000, topic_data=[request])
    await broker.kill()
    assert lost.exception() is not None
    answer = await broker.produce(build([Written(value=b"unanswered")], producer=(ID, 0, RECORDS)))
    assert (answer.error_code, answer.base_offset) == (Code.NONE, RECORDS)
    assert len(await broker.read_all()) == RECORDS + 1


@pytest.mark.parametrize("seed", range(5))
@scenario()
async def test_power_cuts_leave_a_log_that_a_producer_can_go_on_with(
    broker: MemoryBroker, seed: int
) -> None:
    """With flush.messages=1, all that was acknowledged is there once, in order."""
    await broker.create("t", configs={"flush.messages": "1"})
    chance = random.Random(seed)
    written = 0
    for _ in range(6):
        for _ in range(chance.randint(0, 8)):
            assert await write(broker, RECORDS * written) == accepted(RECORDS * written)
            written += 1
        await broker.crash(chance if chance.random() < 0.5 else None)
        if written:
            again = RECORDS * (written - 1)
            assert await write(broker, again) == accepted(again), "an answer that got lost"
    values = [int(record.value or b"") for record in await broker.read_all()]
    assert values == list(range(RECORDS * written))
