"""The fast path of repeated ListOffsets requests gives the answers of the general path.

Two brokers with the same seed get the same bytes; one of them remembers no requests.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from typing import Any, Final

import pytest

from kavka.compat_tests.raw.codec import batches, wire_client
from kavka.server.auth.authorizer import AllowAll, Operation
from kavka.server.connections import fast_path
from kavka.server.connections.list_offsets_fast_path import FastListOffsets
from kavka.wire.apis.list_offsets import API, EARLIEST, LATEST, MAX_TIMESTAMP
from kavka.wire.errors import ErrorCode
from support.denied import Denied
from support.memory_broker import MemoryBroker, scenario
from support.memory_transactions import Transactor
from support.virtual import run_until_idle

VERSIONS = range(API.lowest, API.highest + 1)
ISOLATION_SINCE: Final = 2
EPOCH_SINCE: Final = 4
ROUNDS: Final = 150
CLIENTS: Final = 2


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bytes]]:
    """The answers that have gone the fast path."""
    taken: list[bytes] = []
    original = FastListOffsets.handle

    def noting(self: FastListOffsets, frame: memoryview) -> bytearray | None:
        answer = original(self, frame)
        if answer is not None:
            taken.append(bytes(answer))
        return answer

    monkeypatch.setattr(FastListOffsets, "handle", noting)
    yield taken


def question(version: int, number: int, chance: random.Random) -> bytes:
    """A request, mostly for an end of one partition."""
    times = [LATEST, LATEST, EARLIEST, EARLIEST, 5]
    if version >= 7:
        times.append(MAX_TIMESTAMP)
    topics = []
    for name in chance.choice([["t"], ["t"], ["t"], ["t"], ["t", "u"], ["gone"]]):
        indexes = chance.choice([[0], [0], [0], [1], [0, 1], [0, 0]])
        partitions = []
        for index in indexes:
            partition: dict[str, Any] = {
                "partition_index": index,
                "timestamp": chance.choice(times),
            }
            if not version:
                partition["max_num_offsets"] = 3
            if version >= EPOCH_SINCE:
                partition["current_leader_epoch"] = chance.choice([-1, -1, 0, 0, 1])
            partitions.append(partition)
        topics.append({"name": name, "partitions": partitions})
    values: dict[str, Any] = {"replica_id": -1, "topics": topics}
    if version >= ISOLATION_SINCE:
        values["isolation_level"] = chance.choice([0, 1])
    return wire_client.framed(wire_client.encode("ListOffsets", version, number, **values))


async def change(broker: MemoryBroker, producer: Transactor, chance: random.Random) -> None:
    """What may change the next answer."""
    match chance.choice(["plain", "write", "commit", "abort", "delete", "rights", "recreate"]):
        case "plain":
            await broker.produce(batches.build(), "t", 0)
        case "write":
            await producer.write(("t", 0))
        case "commit" | "abort" as end:
            await producer.end(commit=end == "commit")
        case "delete":
            end_offset = broker.replica("t").high_watermark
            partition = {"partition_index": 0, "offset": chance.randint(0, end_offset)}
            topics = [{"name": "t", "partitions": [partition]}]
            await broker.ask("DeleteRecords", 2, topics=topics, timeout_ms=1000)
        case "rights":
            allows = isinstance(broker.parts.authorizer, AllowAll)
            denied = Denied((Operation.DESCRIBE, "t"))
            broker.parts.authorizer = denied if allows else AllowAll()
        case "recreate":
            if chance.random() < 0.3:
                await broker.ask("DeleteTopics", 5, topic_names=["u"], timeout_ms=10_000)
                await broker.create("u", 2)


async def answers(version: int, seed: int) -> tuple[list[list[bytes]], dict[int, int]]:
    """What a fresh broker answers each client, and its counts of errors."""
    broker = MemoryBroker(seed=seed)
    await broker.start()
    for name in ("t", "u"):
        await broker.create(name, 2)
    producer = await Transactor(broker).init()
    clients = [broker.connect() for _ in range(CLIENTS)]
    chance = random.Random(seed)
    pool = [question(version, 0, chance) for _ in range(6)]
    for number in range(ROUNDS):
        if number % 3 == 0:
            await change(broker, producer, chance)
        frame = bytearray(chance.choice(pool))
        frame[8:12] = number.to_bytes(4, "big")
        chance.choice(clients).send_bytes(bytes(frame))
        await run_until_idle(3)
    await run_until_idle()
    counts = broker.parts.requests.of(API).error_counts
    frames = [client.frames for client in clients]
    await broker.stop()
    return frames, counts


@pytest.mark.parametrize("version", VERSIONS)
def test_both_paths_answer_and_count_the_same(
    version: int, monkeypatch: pytest.MonkeyPatch, short: list[bytes]
) -> None:
    taken = 0
    for seed in range(4):
        short.clear()
        quick = asyncio.run(answers(version, seed))
        taken += len(short)
        with monkeypatch.context() as patch:
            patch.setattr(fast_path, "REMEMBERED_MAX", 0)
            short.clear()
            slow = asyncio.run(answers(version, seed))
        assert not short
        assert quick == slow
        assert sum(map(len, quick[0])) == ROUNDS
    assert bool(taken) == (version > 0)
    assert taken > ROUNDS // 6 or not version


@scenario()
async def test_a_recreated_topic_is_looked_up_again(
    broker: MemoryBroker, short: list[bytes]
) -> None:
    await broker.create("t")
    await broker.produce(batches.build())
    for _ in range(2):
        assert (await broker.list_offset(LATEST)).offset == 3
    assert len(short) == 1
    await broker.ask("DeleteTopics", 5, topic_names=["t"], timeout_ms=10_000)
    code = (await broker.list_offset(LATEST)).error_code
    assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await broker.create("t")
    for _ in range(2):
        assert (await broker.list_offset(LATEST)).offset == 0
    assert len(short) == 2
