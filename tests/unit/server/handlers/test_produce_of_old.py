"""Produce before version 3: message sets become batches.

What Apache Kafka 3.9.2 makes of each set is in the differential test (`old_producers.py`).
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from kavka.compat_tests.raw.codec.batches import (
    BASE_TIMESTAMP_MS,
    CODECS,
    LOG_APPEND_TIME,
    Written,
    build,
    field,
    read,
)
from kavka.compat_tests.raw.codec.message_sets import message, several, wrapped
from kavka.server.replica import batch_opening
from kavka.wire.apis.produce import BATCHES_SINCE
from kavka.wire.errors import ErrorCode as Code
from support.memory_broker import MemoryBroker, producing, scenario
from support.virtual import run_until_idle

OLD = range(BATCHES_SINCE)
APPEND_TIME_SINCE = 2
BIG = [message(b"%d" % n, bytes(1000), offset=n) for n in range(1000)]
"""A megabyte."""


async def log(broker: MemoryBroker, topic: str = "t") -> bytes:
    return bytes((await broker.fetch(topic=topic)).records)


def keys(batch: bytes) -> list[Any]:
    return [record.key for record in read(batch)]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("version", OLD)
@scenario(topics={"t": 1})
async def test_every_version_takes_messages(broker: MemoryBroker, version: int, magic: int) -> None:
    for base in (0, 3):
        answer = await broker.produce(b"".join(several(3, magic=magic)), version=version)
        assert (answer.error_code, answer.base_offset, answer.log_append_time_ms) == (0, base, -1)
    both = await log(broker)
    first = both[: len(both) // 2]
    assert field(first, "magic") == 2
    assert [(record.offset, record.key) for record in read(first)] == [
        (0, None),
        (1, b""),
        (2, b"key"),
    ]
    assert read(first)[1].timestamp == (BASE_TIMESTAMP_MS + 1 if magic else -1)


@pytest.mark.parametrize("sent", ["none", "gzip", "snappy", "lz4"])
@pytest.mark.parametrize("compression_type", ["producer", "uncompressed", *list(CODECS)[1:]])
@scenario()
async def test_codecs(broker: MemoryBroker, sent: str, compression_type: str) -> None:
    await broker.create("t", configs={"compression.type": compression_type})
    inside = several(20)
    data = b"".join(inside) if sent == "none" else wrapped(inside, sent)
    assert (await broker.produce(data, version=2)).error_code == Code.NONE
    batch = await log(broker)
    stored = {"producer": sent, "uncompressed": "none"}.get(compression_type, compression_type)
    assert field(batch, "attributes") == CODECS[stored]
    assert len(read(batch)) == 20


@pytest.mark.parametrize("version", OLD)
@scenario()
async def test_the_time_of_the_append(broker: MemoryBroker, version: int) -> None:
    await broker.create("t", configs={"message.timestamp.type": "LogAppendTime"})
    answer = await broker.produce(wrapped(several(3)), version=version)
    now_ms = broker.clock.now_ms()
    assert answer.log_append_time_ms == (now_ms if version >= APPEND_TIME_SINCE else -1)
    batch = await log(broker)
    assert field(batch, "attributes") & LOG_APPEND_TIME
    assert {record.timestamp for record in read(batch)} == {now_ms}


@scenario()
async def test_what_a_topic_asks_of_records(broker: MemoryBroker) -> None:
    await broker.create("t", configs={"cleanup.policy": "compact"})
    await broker.create("young", configs={"message.timestamp.before.max.ms": "1000"})
    keyless = await broker.produce(message(b"k") + message(None), version=2)
    assert keyless.error_code == Code.INVALID_RECORD
    old = await broker.produce(message(timestamp=1), "young", version=2)
    assert old.error_code == Code.INVALID_TIMESTAMP
    assert (await broker.produce(message(b"k"), version=2)).error_code == Code.NONE


@pytest.mark.parametrize("version", OLD)
@scenario(topics={"t": 1})
async def test_where_there_is_no_whole_message_nothing_is_wrong(
    broker: MemoryBroker, version: int
) -> None:
    for data in (b"", message()[:-1], bytes(build())[:-1]):
        answer = await broker.produce(data, version=version)
        assert (answer.error_code, answer.base_offset) == (Code.NONE, -1)
    assert await log(broker) == b""


@scenario(topics={"t": 1})
async def test_too_few_replicas_in_sync(broker: MemoryBroker) -> None:
    await broker.create("two", configs={"min.insync.replicas": "2"})
    broker.share((1,), "two")
    for data in (message(), wrapped(BIG)):
        answer = await broker.produce(data, "two", version=2)
        assert answer.error_code == Code.NOT_ENOUGH_REPLICAS
        assert (await broker.produce(data, "two", version=2, acks=1)).error_code == Code.NONE


@scenario(topics={"t": 1})
async def test_a_long_conversion_neither_overtakes_nor_blocks_others(broker: MemoryBroker) -> None:
    """Requests of a connection are appended in their order; others' go on meanwhile."""
    other = broker.connect()
    broker.jobs.hold("decompress")
    big = producing({("t", 0): wrapped(BIG, "gzip")})
    first = broker.client.send("Produce", 2, **big)
    second = broker.client.send("Produce", 2, **producing({("t", 0): message(b"small")}))
    third = other.send("Produce", 9, **producing({("t", 0): build()}))
    await run_until_idle()
    assert (first.done(), second.done(), third.done()) == (False, False, True)
    broker.jobs.release()
    await run_until_idle()
    bases = [
        sent.result().responses[0].partition_responses[0].base_offset
        for sent in (third, first, second)
    ]
    assert bases == [0, 3, 1003]


@scenario(topics={"t": 3})
async def test_a_request_has_one_of_them_converted_on_the_loop(broker: MemoryBroker) -> None:
    data = b"".join(several(3))
    waiting = broker.client.send("Produce", 2, **producing({("t", n): data for n in range(3)}))
    ends = [[0, 0, 0]]
    while not waiting.done():
        await asyncio.sleep(0)
        ends.append([broker.replica("t", n).log.end_offset for n in range(3)])
    assert [3, 0, 0] in ends
    assert ends[-1] == [3, 3, 3]


@scenario(topics={"t": 2})
async def test_a_sender_s_buffer_is_used_again_meanwhile(broker: MemoryBroker) -> None:
    ours, theirs = (random.Random(seed).randbytes(300_000) for seed in (1, 2))
    broker.jobs.hold("decompress")
    first = broker.client.send(
        "Produce", 2, **producing({("t", 0): wrapped([message(value=ours)])})
    )
    await run_until_idle()
    other = build([Written(value=theirs)])
    await broker.connect().ask("Produce", 9, **producing({("t", 1): other}))
    broker.jobs.release()
    await first
    assert [record.value for record in read(await log(broker))] == [ours]


@scenario(topics={"t": 8})
async def test_only_so_many_are_open_at_once(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.jobs.hold("decompress")
    clients = [broker.connect() for _ in range(8)]
    sent = [
        client.send("Produce", 2, **producing({("t", n): wrapped(BIG)}))
        for n, client in enumerate(clients)
    ]
    await run_until_idle()
    assert len(broker.jobs.held) == batch_opening.OPENED_AT_ONCE_MAX
    broker.jobs.release()
    for answer in sent:
        assert (await answer).responses[0].partition_responses[0].error_code == Code.NONE


@scenario(topics={"t": 1})
async def test_acks_0_is_not_answered(broker: MemoryBroker) -> None:
    broker.client.tell("Produce", 0, **producing({("t", 0): message(magic=0)}, acks=0))
    broker.client.tell("Produce", 2, **producing({("t", 0): wrapped(BIG)}, acks=0))
    await broker.client.ask("Metadata", 12, topics=[])
    assert (await broker.list_offset(-1)).offset == 1001
