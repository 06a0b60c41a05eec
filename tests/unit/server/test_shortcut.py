"""The short way of repeated Produce requests gives the answers and the logs of the general way.

Two brokers with the same seed get the same bytes; one of them remembers no layouts.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator

import pytest

from kavka.server import shortcut
from kavka.wire.apis.produce import API, BATCHES_SINCE
from support import batches, wire_client
from support.memory_broker import MemoryBroker
from support.virtual import settle

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
        at = sequences.get(producer_id, 0)
        if kind == "again":
            at = max(0, at - 1)
            records = records[:1]
        elif kind == "gap":
            at += 7
        else:
            sequences[producer_id] = at + len(records)
        return batches.build(records, producer=(producer_id, 0, at))
    built = batches.build(records)
    if kind == "crc":
        built[-1] ^= 0xFF
    return built[:-1] if kind == "cut" else built


def requests(version: int, topic_ids: dict[str, object], seed: int) -> Iterator[bytes]:
    """Frames to write to two topics of two partitions, mostly one at a time."""
    chance = random.Random(seed)
    sequences: dict[int, int] = {}
    for number in range(ROUNDS):
        wanted = chance.choice([["a"], ["a"], ["a"], ["b"], ["a", "b"], ["gone"]])
        data = []
        for name in wanted:
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


async def answers(version: int, seed: int) -> tuple[list[bytes], list[list[object]], int]:
    """What a fresh broker answers and has in its logs afterwards; requests that took the short
    way."""
    broker = MemoryBroker(seed=seed)
    await broker.start()
    ids: dict[str, object] = {name: await broker.create(name, 2) for name in ("a", "b")}
    client = broker.connect()
    short = 0
    original = shortcut.Shortcut.answer

    def counting(self: shortcut.Shortcut, frame: memoryview) -> bytearray | None:
        nonlocal short
        answer = original(self, frame)
        short += answer is not None
        return answer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shortcut.Shortcut, "answer", counting)
        for frame in requests(version, ids, seed):
            client.send_bytes(frame)
            await settle(3)
    logs: list[list[object]] = []
    for topic in ("a", "b"):
        for partition in (0, 1):
            logs.append(list(await broker.read_all(topic, partition)))
    frames = client.frames
    await broker.stop()
    return frames, logs, short


@pytest.mark.parametrize("version", VERSIONS)
def test_both_ways_answer_and_append_the_same(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick, quick_logs, short = asyncio.run(answers(version, seed=version))
    monkeypatch.setattr(shortcut, "LAYOUTS_MAX", 0)
    slow, slow_logs, none = asyncio.run(answers(version, seed=version))
    assert none == 0
    if version < BATCHES_SINCE:
        assert short == 0, "message sets are converted"
    else:
        assert short > ROUNDS // 12, "the short way is taken"
    assert quick == slow
    assert len(quick) == ROUNDS
    assert quick_logs == slow_logs
    assert any(quick_logs)


def test_a_deleted_topic_is_not_written_to_any_more() -> None:
    async def main() -> None:
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

    asyncio.run(main())


@pytest.mark.parametrize("version", [9, 13])
def test_what_is_refused_is_refused_again(version: int) -> None:
    """A topic of the broker's own, which clients may create but not write to."""

    async def main() -> None:
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

    asyncio.run(main())


def test_an_answer_does_not_overtake_one_that_waits() -> None:
    async def main() -> None:
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
        asked = [{"partition": 0, "fetch_offset": 6, "partition_max_bytes": 1000}]
        waiting = client.send(
            "Fetch",
            11,
            max_wait_ms=500,
            min_bytes=1_000_000,
            max_bytes=1_000_000,
            topics=[{"topic": "t", "partitions": asked}],
        )
        behind = client.send("Produce", 9, topic_data=data, **values)
        await settle()
        assert not behind.done()
        assert broker.replica().log.end_offset == 9, "it is written all the same"
        await broker.advance(500)
        assert waiting.done() and behind.done()
        await broker.stop()

    asyncio.run(main())
