"""Topics and records asked for within the process, on a broker in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from kavka.compat_tests.raw.codec import batches
from kavka.compat_tests.raw.codec.batches import BASE_TIMESTAMP_MS, Written, build
from kavka.testing.client import Client, Record
from kavka.wire.apis.list_offsets import LATEST
from kavka.wire.errors import ApiError, ErrorCode
from support.memory_broker import MemoryBroker, scenario
from support.virtual import run_until_idle


def client_of(broker: MemoryBroker) -> Client:
    return Client(broker.parts, "PLAINTEXT")


async def produce(client: Client, topic: str, value: bytes, partition: int = 0) -> int:
    return await client.produce(topic, partition, value, None, (), None)


@scenario()
async def test_topics_come_and_go(broker: MemoryBroker) -> None:
    client = client_of(broker)
    assert await client.topics() == []
    await client.create_topic("b", 3, {"max.message.bytes": "1000"})
    await client.create_topic("a", 1, {})
    assert await client.topics() == ["a", "b"]
    known = await broker.ask("Metadata", 12, topics=[{"name": "b"}])
    assert len(known.topics[0].partitions) == 3
    assert broker.parts.topic_configs.get("b") == {"max.message.bytes": "1000"}
    await client.delete_topic("b")
    assert await client.topics() == ["a"]


@scenario(topics={"t": 1})
async def test_refusals_name_what_was_asked_for(broker: MemoryBroker) -> None:
    client = client_of(broker)
    missing: dict[str, list[Coroutine[Any, Any, object]]] = {
        "topic orders": [
            client.delete_topic("orders"),
            client.partitions("orders"),
            client.offsets("orders", LATEST),
            client.read("orders", None, at_least=0, within_s=1),
        ],
        "t-7": [
            produce(client, "t", b"x", 7),
            client.read("t", 7, at_least=0, within_s=1),
        ],
    }
    for named, questions in missing.items():
        for question in questions:
            with pytest.raises(ApiError, match=named) as caught:
                await question
            assert caught.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert str(caught.value).startswith(f"UNKNOWN_TOPIC_OR_PARTITION: {named}")


@scenario(topics={"t": 1})
async def test_text_is_no_value_of_a_record(broker: MemoryBroker) -> None:
    client = client_of(broker)
    with pytest.raises(TypeError, match=r"^value must be bytes or None, not str: encode it"):
        await client.produce("t", 0, "text", None, (), None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^key must be bytes or None, not int$"):
        await client.produce("t", 0, b"", 1, (), None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^header 'h' must be bytes or None, not str"):
        await client.produce("t", 0, b"", b"", [("h", "text")], None)  # type: ignore[list-item]
    assert await client.offsets("t", LATEST) == {0: 0}


@scenario(topics={"t": 1})
async def test_refusals_have_kafkas_codes(broker: MemoryBroker) -> None:
    client = client_of(broker)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for code, question in (
        (ErrorCode.TOPIC_ALREADY_EXISTS, client.create_topic("t", 1, {})),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, client.create_topic("no name", 1, {})),
        (ErrorCode.INVALID_CONFIG, client.create_topic("u", 1, {"no.such": "x"})),
        (unknown, client.delete_topic("u")),
        (unknown, client.offsets("u", LATEST)),
        (unknown, client.read("u", None, at_least=0, within_s=1)),
        (unknown, client.read("t", 1, at_least=0, within_s=1)),
        (unknown, produce(client, "u", b"x")),
        (unknown, produce(client, "t", b"x", partition=1)),
    ):
        with pytest.raises(ApiError) as caught:
            await question
        assert caught.value.code == code
    assert await client.topics() == ["t"], "asking makes no topic"


@scenario(topics={"t": 2})
async def test_written_records_are_what_a_client_reads(broker: MemoryBroker) -> None:
    client = client_of(broker)
    time_ms = BASE_TIMESTAMP_MS
    headers = [("h", b"1"), ("n", None)]
    assert await client.produce("t", 1, b"v", b"k", headers, time_ms) == 0
    assert await client.produce("t", 1, None, None, (), None) == 1
    first, second = await broker.read_all("t", 1)
    assert (first.offset, first.value) == (0, b"v")
    assert (second.offset, second.value) == (1, None)
    assert await client.offsets("t", LATEST) == {0: 0, 1: 2}
    now_ms = broker.clock.now_ms()
    assert await client.read("t", None, at_least=0, within_s=1) == [
        Record("t", 1, 0, time_ms, b"k", b"v", headers),
        Record("t", 1, 1, now_ms, None, None, []),
    ]
    assert await client.read("t", 0, at_least=0, within_s=1) == []


@pytest.mark.parametrize("codec", sorted(batches.CODECS))
@scenario(topics={"t": 2})
async def test_what_clients_wrote_is_read(broker: MemoryBroker, codec: str) -> None:
    written = [Written(b"k", b"%d" % number, [("h", b"x")], number) for number in range(50)]
    await broker.produce(build(written, codec=codec), partition=1)
    await broker.produce(build(written[:3], codec=codec), partition=0)
    found = await client_of(broker).read("t", None, at_least=53, within_s=1)
    assert [(record.partition, record.offset) for record in found] == [
        *((0, offset) for offset in range(3)),
        *((1, offset) for offset in range(50)),
    ]
    assert [record.value for record in found[3:]] == [record.value for record in written]
    assert [record.timestamp_ms - BASE_TIMESTAMP_MS for record in found[3:]] == list(range(50))
    assert found[0].headers == [("h", b"x")]


@scenario("message.timestamp.type=LogAppendTime", topics={"t": 1})
async def test_the_time_is_the_brokers_where_the_topic_says_so(broker: MemoryBroker) -> None:
    client = client_of(broker)
    await client.produce("t", 0, b"v", None, (), 1)
    (found,) = await client.read("t", 0, at_least=1, within_s=1)
    (as_clients_see,) = await broker.read_all()
    assert found.timestamp_ms == as_clients_see.timestamp


@scenario(topics={"t": 1})
async def test_many_bytes_take_many_fetches(broker: MemoryBroker) -> None:
    value = bytes(700_000)
    for _ in range(5):
        await broker.produce(build([Written(value=value)]))
    found = await client_of(broker).read("t", None, at_least=5, within_s=1)
    assert [record.offset for record in found] == list(range(5))
    assert all(record.value == value for record in found)


@scenario(topics={"t": 1})
async def test_reading_waits_for_enough_records(broker: MemoryBroker) -> None:
    client = client_of(broker)
    await produce(client, "t", b"1")
    reading = asyncio.ensure_future(client.read("t", None, at_least=3, within_s=5))
    await run_until_idle()
    await produce(client, "t", b"2")
    await broker.advance(4000)
    assert not reading.done()
    await produce(client, "t", b"3")
    await run_until_idle()
    assert [record.value for record in reading.result()] == [b"1", b"2", b"3"]


@scenario(topics={"t": 1})
async def test_reading_waits_no_longer_than_it_may(broker: MemoryBroker) -> None:
    client = client_of(broker)
    await produce(client, "t", b"1")
    reading = asyncio.ensure_future(client.read("t", None, at_least=2, within_s=5))
    await broker.advance(5000)
    with pytest.raises(TimeoutError, match=r"1 of 2 records in t after 5 s"):
        await reading


@scenario(topics={"t": 1})
async def test_buffers_are_given_back(broker: MemoryBroker) -> None:
    client = client_of(broker)
    await produce(client, "t", bytes(1000))
    await client.read("t", None, at_least=1, within_s=1)
    arenas = broker.parts.arenas
    allocated_bytes = arenas.allocated_bytes
    for _ in range(20):
        await client.read("t", None, at_least=1, within_s=1)
    assert arenas.in_use_bytes == 0
    assert arenas.allocated_bytes == allocated_bytes
