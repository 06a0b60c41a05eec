"""Fetch of what is there: versions, ranges, limits, epochs. Waiting: test_fetch_waiting.py.

The answers are those of Apache Kafka 4.3.1 to the same requests.
"""

from __future__ import annotations

import sys
from typing import Any

import pytest

import kavka.wire.frame
from kavka.compat_tests.raw.codec.batches import CODECS, Written, build
from kavka.wire.errors import ErrorCode as Code
from kavka.wire.frame import ARENA_BYTES
from support.logs import parse
from support.memory_broker import MemoryBroker, fetching, scenario
from support.virtual import run_until_idle

BATCH = bytes(build())
RECORDS = 3


def offsets(answer: Any) -> list[int]:
    return [record.offset for record in parse(bytes(answer.records))]


@scenario(topics={"t": 1})
async def test_batches_come_as_they_were_sent(broker: MemoryBroker) -> None:
    for codec in CODECS:
        await broker.produce(build(codec=codec))
    sent = b"".join(bytes(build(codec=codec)) for codec in CODECS)
    got = bytes((await broker.fetch()).records)
    assert len(got) == len(sent)
    start = 0
    for number, codec in enumerate(CODECS):
        size = len(build(codec=codec))
        batch, original = got[start : start + size], sent[start : start + size]
        assert int.from_bytes(batch[:8], "big") == RECORDS * number, "the offset"
        assert batch[8:12] + batch[16:] == original[8:12] + original[16:], "all but the epoch"
        start += size


# -- limits (KIP-74) ------------------------------------------------------------------------


@scenario("fetch.max.bytes=1024", topics={"t": 1})
async def test_the_broker_s_limit_holds_too(broker: MemoryBroker) -> None:
    for _ in range(20):
        await broker.produce(BATCH)
    assert 0 < len((await broker.fetch()).records) <= 1024


@scenario("fetch.max.bytes=1024", topics={"t": 1})
async def test_no_more_is_waited_for_than_would_be_given(broker: MemoryBroker) -> None:
    for _ in range(20):
        await broker.produce(BATCH)
    request = fetching({("t", 0): 0}, min_bytes=1 << 20, max_wait_ms=10_000)
    answer = await broker.ask("Fetch", 12, **request)
    assert len(answer.responses[0].partitions[0].records) == 1024


@scenario(topics={"t": 1})
async def test_responses_that_are_not_read_take_a_bounded_amount_of_memory(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound_bytes = 8 * ARENA_BYTES
    monkeypatch.setattr(kavka.wire.frame, "IN_USE_BYTES_MAX", bound_bytes)
    batch = build([Written(value=bytes(100_000))])
    for _ in range(40):
        assert (await broker.produce(batch)).error_code == Code.NONE
    request = fetching({("t", 0): 0}, max_bytes=50 << 20)
    arenas = broker.parts.arenas
    readers = [broker.connect() for _ in range(20)]
    answers = []
    for reader in readers:
        reader.transport.hold()
        answers.append(reader.send("Fetch", 12, **request))
        await run_until_idle()
    assert bound_bytes < arenas.in_use_bytes <= bound_bytes + len(readers) * ARENA_BYTES
    for reader in readers[:10]:
        reader.transport.release()
    for reader in readers[10:]:
        reader.close()
    await run_until_idle()
    assert all(len(answer.result().responses[0].partitions[0].records) for answer in answers[:10])
    assert arenas.in_use_bytes == 0
    records = (await broker.fetch(max_bytes=50 << 20)).records
    assert ARENA_BYTES < len(records) <= bound_bytes // 4, "there is room again"


@scenario()
async def test_reading_goes_on_over_segments(broker: MemoryBroker) -> None:
    await broker.create("t", configs={"segment.bytes": str(1 << 20)})
    big = build([Written(value=b"x" * 600_000)])
    for _ in range(4):
        assert (await broker.produce(bytes(big))).error_code == Code.NONE
    assert [record.offset for record in await broker.read_all()] == [0, 1, 2, 3]
    answer = await broker.fetch(max_bytes=1 << 24)
    assert offsets(answer) == [0], "a fetch reads one segment"


# -- open files -------------------------------------------------------------------------------


@scenario(topics={"t": 5})
async def test_only_so_many_files_are_held_for_an_answer(broker: MemoryBroker) -> None:
    for partition in range(5):
        await broker.produce(build(), partition=partition)
    broker.parts.replicas.logs.files_at_once = 2
    request = fetching({("t", n): 0 for n in range(5)}, min_bytes=1 << 20, max_wait_ms=1000)
    for version in (3, 12):
        answer = await broker.ask("Fetch", version, **request)
        given = [bool(response.records) for response in answer.responses[0].partitions]
        assert given == [True, True, False, False, False]


@scenario(topics={"t": 1})
async def test_a_long_poll_holds_no_files(broker: MemoryBroker) -> None:
    await broker.produce(build())
    file = broker.replica().log.read(0, 1000, upto=3, at_least_one=True)
    assert file is not None
    request = fetching({("t", 0): 0}, min_bytes=1 << 20, max_wait_ms=1000)
    before = sys.getrefcount(file.file)  # what is in an assertion counts, too
    waiting = broker.connect().send("Fetch", 12, **request)
    await broker.advance(10)
    await broker.produce(build())
    await broker.advance(10)
    assert not waiting.done()
    held = sys.getrefcount(file.file)
    assert held == before
    await broker.advance(1000)
    [answer] = waiting.result().responses[0].partitions
    assert offsets(answer) == list(range(6))
