"""The fast path of repeated Produce requests gives the answers and the logs of the general path.

Two brokers with the same seed get the same bytes; one of them remembers no layouts.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kavka.compat_tests.raw.codec import batches, wire_client
from kavka.server.auth.authorizer import Operation
from kavka.server.connections import fast_path
from kavka.server.connections.connection import Connection
from kavka.server.connections.fast_path import REMEMBERED_MAX
from kavka.server.connections.produce_fast_path import FastProduce
from kavka.server.replica.replica import Replica
from kavka.server.request.results import Call
from kavka.wire.apis.produce import API, BATCHES_SINCE
from kavka.wire.errors import ErrorCode as Code
from support.denied import Denied
from support.memory_broker import MemoryBroker, scenario
from support.memory_transactions import PLACE, Transactor, committed, outcomes
from support.virtual import run_until_idle

VERSIONS = range(API.lowest, API.highest + 1)
TOPIC_IDS_SINCE = 13
ROUNDS = 300


def batch(chance: random.Random, sequences: dict[int, int]) -> bytearray:
    """A batch as a producer may send it: plain, in sequence, repeated, with a gap, or broken."""
    values = [
        chance.randbytes(chance.choice([0, 1, 100, 3000])) for _ in range(chance.randint(1, 5))
    ]
    records = [batches.Written(None, value) for value in values]
    kind = chance.choice(["plain", "plain", "next", "again", "gap", "crc", "cut"])
    if kind in ("next", "again", "gap"):
        producer_id = chance.randint(1, 3)
        sequence = sequences.get(producer_id, 0)
        if kind == "again":
            sequence = max(0, sequence - 1)
            records = records[:1]
        elif kind == "gap":
            sequence += 7
        else:
            sequences[producer_id] = sequence + len(records)
        return batches.build(records, producer=(producer_id, 0, sequence))
    built = batches.build(records)
    if kind == "crc":
        built[-1] ^= 0xFF
    return built[:-1] if kind == "cut" else built


def requests(version: int, topic_ids: dict[str, object], seed: int) -> Iterator[bytes]:
    """Frames to write to two topics of two partitions, mostly one at a time."""
    chance = random.Random(seed)
    sequences: dict[int, int] = {}
    for number in range(ROUNDS):
        names = chance.choice([["a"], ["a"], ["a"], ["b"], ["a", "b"], ["gone"]])
        data = []
        for name in names:
            partition = {"index": chance.randint(0, 1), "records": batch(chance, sequences)}
            by_id = version >= TOPIC_IDS_SINCE
            naming = {"topic_id": topic_ids.get(name)} if by_id else {"name": name}
            data.append({**naming, "partition_data": [partition]})
        acks = chance.choice([-1, 1, 1, 7])
        yield wire_client.framed(
            wire_client.encode(
                "Produce", version, number, acks=acks, timeout_ms=1000, topic_data=data
            )
        )


@contextmanager
def short_ways() -> Iterator[list[int]]:
    """How long the answers to requests are that take the fast path."""
    found: list[int] = []
    original = fast_path.FastPath.respond

    def counting(self: fast_path.FastPath, frame: memoryview) -> bytearray | Call | None:
        answer = original(self, frame)
        if answer is not None:
            found.append(len(answer))
        return answer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fast_path.FastPath, "respond", counting)
        yield found


async def answers(version: int, seed: int) -> tuple[list[bytes], list[list[object]], int]:
    """What a fresh broker answers and has in its logs afterwards; requests that took the short
    way."""
    broker = MemoryBroker(seed=seed)
    await broker.start()
    ids: dict[str, object] = {name: await broker.create(name, 2) for name in ("a", "b")}
    client = broker.connect()
    with short_ways() as short:
        for frame in requests(version, ids, seed):
            client.send_bytes(frame)
            await run_until_idle(3)
    logs: list[list[object]] = []
    for topic in ("a", "b"):
        for partition in (0, 1):
            logs.append(list(await broker.read_all(topic, partition)))
    frames = client.frames
    await broker.stop()
    return frames, logs, len(short)


@pytest.mark.parametrize("version", VERSIONS)
def test_both_ways_answer_and_append_the_same(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick, quick_logs, short = asyncio.run(answers(version, seed=version))
    monkeypatch.setattr(fast_path, "REMEMBERED_MAX", 0)
    slow, slow_logs, none = asyncio.run(answers(version, seed=version))
    assert none == 0
    if version < BATCHES_SINCE:
        assert short == 0, "message sets are converted"
    else:
        assert short > ROUNDS // 12, "the fast path is taken"
    assert quick == slow
    assert len(quick) == ROUNDS
    assert quick_logs == slow_logs
    assert any(quick_logs)


async def test_a_deleted_topic_is_not_written_to_any_more() -> None:
    broker = MemoryBroker()
    await broker.start()
    await broker.create("t")
    for _ in range(3):
        answer = await broker.produce(batches.build())
        assert answer.error_code == 0
    await broker.ask("DeleteTopics", 5, topic_names=["t"], timeout_ms=10_000)
    answer = await broker.produce(batches.build())
    assert answer.error_code == 3, "UNKNOWN_TOPIC_OR_PARTITION"
    await broker.create("t")
    answer = await broker.produce(batches.build())
    assert (answer.error_code, answer.base_offset) == (0, 0)
    await broker.stop()


@pytest.mark.parametrize("version", [9, 13])
async def test_what_is_refused_is_refused_again(version: int) -> None:
    """A topic of the broker's own, which clients may create but not write to."""
    broker = MemoryBroker()
    await broker.start()
    topic_id = await broker.create("__consumer_offsets")
    data = {"partition_data": [{"index": 0, "records": batches.build()}]}
    naming = {"name": "__consumer_offsets"} if version == 9 else {"topic_id": topic_id}
    values = {"acks": 1, "timeout_ms": 1000, "topic_data": [{**naming, **data}]}
    for _ in range(3):
        answer = await broker.ask("Produce", version, **values)
        assert answer.responses[0].partition_responses[0].error_code == 17
    assert broker.replica("__consumer_offsets").log.end_offset == 0
    await broker.stop()


async def test_an_answer_does_not_overtake_one_that_waits() -> None:
    broker = MemoryBroker()
    await broker.start()
    await broker.create("t")
    client = broker.connect()
    values = {"acks": 1, "timeout_ms": 1000}
    data = [
        {
            "name": "t",
            "partition_data": [{"index": 0, "records": batches.build()}],
        }
    ]
    await client.ask("Produce", 9, topic_data=data, **values)
    await client.ask("Produce", 9, topic_data=data, **values)
    partitions = [{"partition": 0, "fetch_offset": 6, "partition_max_bytes": 1000}]
    waiting = client.send(
        "Fetch",
        11,
        max_wait_ms=500,
        min_bytes=1_000_000,
        max_bytes=1_000_000,
        topics=[{"topic": "t", "partitions": partitions}],
    )
    behind = client.send("Produce", 9, topic_data=data, **values)
    await run_until_idle()
    assert not behind.done()
    assert broker.replica().log.end_offset == 9, "it is written all the same"
    await broker.advance(500)
    assert waiting.done() and behind.done()
    await broker.stop()


async def transactions(version: int, seed: int) -> tuple[list[object], list[object], int]:
    """The same of producers in transactions."""
    broker = MemoryBroker(seed=seed)
    await broker.start()
    await broker.create("t", 2)
    chance = random.Random(seed)
    producers = [await Transactor(broker, name, version).init() for name in ("one", "two")]
    received: list[object] = []
    with short_ways() as short:
        for _ in range(ROUNDS):
            producer = chance.choice(producers)
            place = ("t", chance.randint(0, 1))
            kind = chance.choice(["write"] * 8 + ["again", "gap", "old", "plain", "add", "end"])
            if kind == "write":
                received.append(await producer.write(place))
            elif kind == "again":
                received.append(
                    await producer.write(place, sequence=max(0, producer.next(place) - 1))
                )
            elif kind == "gap":
                received.append(await producer.write(place, sequence=producer.next(place) + 7))
            elif kind == "old":
                received.append(await producer.write(place, epoch=producer.now.epoch - 1))
            elif kind == "plain":
                received.append(await producer.write_all({place: bytes(batches.build())}))
            elif kind == "add" and not producer.is_newer:
                received.append(await producer.add(place))
            elif kind == "end":
                received.append(await producer.end(commit=chance.random() < 0.5))
            await run_until_idle(3)
    logs: list[object] = [await broker.read_all("t", index) for index in (0, 1)]
    logs += [await committed(broker, ("t", index)) for index in (0, 1)]
    await broker.stop()
    return received, logs, len(short)


@pytest.mark.parametrize("version", [3, 9, 11, 12, 13])
def test_both_ways_are_the_same_in_transactions(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick, quick_logs, short = asyncio.run(transactions(version, seed=version))
    monkeypatch.setattr(fast_path, "REMEMBERED_MAX", 0)
    slow, slow_logs, none = asyncio.run(transactions(version, seed=version))
    assert none == 0 and short > ROUNDS // 12, "the fast path is taken"
    assert quick == slow
    assert quick_logs == slow_logs
    assert all(quick_logs)


@scenario(topics={"t": 1})
async def test_a_transaction_without_an_id_does_not_go_the_short_way(broker: MemoryBroker) -> None:
    """It is refused, though its producer's transaction is going on."""
    producer = await Transactor(broker).init()
    for _ in range(3):
        values = {**producer.producing({PLACE: bytes(batches.build())}), "transactional_id": None}
        (received,) = outcomes(await producer.client.ask("Produce", 12, **values))
        assert received.code == Code.NONE
    assert (await producer.write()).code == Code.NONE
    values = {**producer.producing({PLACE: producer.batch()}), "transactional_id": None}
    (received,) = outcomes(await producer.client.ask("Produce", 12, **values))
    assert received.code == Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


@pytest.mark.parametrize(
    ("version", "code"), [(11, Code.TRANSACTION_ABORTABLE), (12, Code.INVALID_PRODUCER_EPOCH)]
)
@scenario(topics={"t": 1})
async def test_a_copy_that_comes_after_the_end_is_refused(
    broker: MemoryBroker, version: int, code: Code
) -> None:
    """The coordinator is asked first, as by Apache Kafka: no client waits for a response now."""
    producer = await Transactor(broker, version=version).init()
    if version < 12:
        await producer.add()
    for _ in range(2):
        assert (await producer.write()).code == Code.NONE
    last = producer.batch()
    assert (await producer.write()).code == Code.NONE
    assert (await producer.write_all({PLACE: last}))[0].offset == 2, "a copy"
    assert await producer.end(commit=True) == Code.NONE
    await run_until_idle()
    assert (await producer.write_all({PLACE: last}))[0].code == code


@scenario(topics={"t": 1})
async def test_authorization_that_is_withdrawn(broker: MemoryBroker) -> None:
    producer = await Transactor(broker).init()
    for _ in range(3):
        assert (await producer.write()).code == Code.NONE
    broker.parts.authorizer = Denied((Operation.WRITE, "tx"))
    assert (await producer.write()).code == Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


@scenario(topics={"t": REMEMBERED_MAX + 1, "gone": 1})
async def test_partitions_that_are_not_written_to_any_more_make_room(broker: MemoryBroker) -> None:
    """A connection that began with as many others has its later partition remembered all the
    same, and holds on to nothing of a deleted topic."""
    for index in range(REMEMBERED_MAX - 1):
        await broker.produce(batches.build(), "t", index)
    await broker.produce(batches.build(), "gone", 0)
    gone = broker.replica("gone")
    open_now = [
        connection
        for connection in broker.instance._connections._open
        if isinstance(connection, Connection)
    ]
    (layouts,) = [
        connection._fast_path for connection in open_now if connection._fast_path.requests
    ]

    def remembered() -> list[Replica]:
        """The partitions, as replicas."""
        return [request.replica for request in layouts.requests if isinstance(request, FastProduce)]

    assert gone in remembered()
    await broker.ask("DeleteTopics", 5, topic_names=["gone"], timeout_ms=10_000)
    for _ in range(3):
        await broker.produce(batches.build(), "t", REMEMBERED_MAX)
    assert gone not in remembered()
    assert broker.replica("t", REMEMBERED_MAX) in remembered()
    for _ in range(3):  # the first of them all gives way to one that is used
        for index in (REMEMBERED_MAX, REMEMBERED_MAX - 1):
            await broker.produce(batches.build(), "t", index)
    assert broker.replica("t", REMEMBERED_MAX - 1) in remembered()
    assert len(layouts.requests) == REMEMBERED_MAX
