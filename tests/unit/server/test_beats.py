"""The short way of repeated Heartbeats gives the answers of the general way, and keeps members.

Two brokers with the same seed get the same bytes; one of them remembers none.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from typing import Any

import pytest

from kavka.server.auth.authorizer import AllowAll, Operation
from kavka.server.beats import Beat
from kavka.server.broker import Broker
from kavka.server.shortcut import Shortcut
from kavka.server.topics import GROUP_TOPIC
from kavka.wire.apis.heartbeat import API
from kavka.wire.errors import ErrorCode
from support import wire_client
from support.classic_groups import REBALANCE_MS, SESSION_MS
from support.denied import Denied
from support.group_requests import GROUP, beat, joining, stable
from support.memory_broker import MemoryBroker, scenario
from support.virtual import settle

VERSIONS = range(API.lowest, API.highest + 1)
STATIC_SINCE = 3
STEPS = 120
COMMIT_TIMEOUT_MS = 5000


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bytes]]:
    """The answers that have gone the short way."""
    taken: list[bytes] = []
    original = Beat.answer

    def noting(self: Beat, frame: memoryview) -> bytearray | None:
        answer = original(self, frame)
        if answer is not None:
            taken.append(bytes(answer))
        return answer

    monkeypatch.setattr(Beat, "answer", noting)
    yield taken


def heartbeats(version: int, joined: Any, seed: int) -> Iterator[bytes | None]:
    """Requests of a member, most of them right; None where something else is to happen."""
    chance = random.Random(seed)
    for number in range(STEPS):
        kind = chance.choice(["right"] * 7 + ["early", "stranger", "static", "other", None, None])
        values: dict[str, Any] = {
            "group_id": "other" if kind == "other" else GROUP,
            "generation_id": joined.generation_id + (kind == "early"),
            "member_id": "somebody" if kind == "stranger" else joined.member_id,
        }
        if kind == "static" and version >= STATIC_SINCE:
            values["group_instance_id"] = "i"
        encoded = wire_client.encode("Heartbeat", version, number, **values)
        yield None if kind is None else wire_client.framed(encoded)


async def answers(version: int, seed: int) -> tuple[list[bytes], list[int], dict[int, int]]:
    """What a fresh broker answers while time passes, rights are taken and given back, and at last
    somebody joins; its counts of requests and errors."""
    broker = MemoryBroker(seed=seed)
    await broker.start()
    joined = await stable(broker)
    client = broker.connect()
    chance = random.Random(seed)
    for number, frame in enumerate(heartbeats(version, joined, seed)):
        if frame is not None:
            client.send_bytes(frame)
            await settle(3)
        elif number % 3:
            await broker.advance(chance.randint(1, SESSION_MS // 4))
        else:
            allows = isinstance(broker.parts.authorizer, AllowAll)
            broker.parts.authorizer = Denied((Operation.READ, GROUP)) if allows else AllowAll()
        if number == STEPS * 4 // 5:
            broker.parts.authorizer = AllowAll()
            joining(broker.connect(), 3)
            await settle()
    stats = broker.parts.requests.of(API)
    frames = client.frames
    await broker.advance(REBALANCE_MS)
    await broker.stop()
    return frames, stats.counts, stats.error_counts


@pytest.mark.parametrize("version", VERSIONS)
def test_both_ways_answer_and_count_the_same(
    version: int, monkeypatch: pytest.MonkeyPatch, short: list[bytes]
) -> None:
    taken = 0
    for seed in range(5):
        quick = asyncio.run(answers(version, seed))
        taken += len(short)
        assert len(set(quick[0])) == len(quick[0]), "each has its correlation id"
        with monkeypatch.context() as patch:
            patch.setattr(Shortcut, "learn_beat", lambda *_: None)
            short.clear()
            slow = asyncio.run(answers(version, seed))
        assert not short
        assert quick == slow
        assert len(quick[0]) > STEPS // 2
    assert taken > STEPS // 2, "the short way is taken"


@scenario()
async def test_a_member_lives_on_by_the_short_way(broker: MemoryBroker, short: list[bytes]) -> None:
    joined = await stable(broker)
    for _ in range(4):
        await broker.advance(SESSION_MS - 1)
        assert await beat(broker, joined) is ErrorCode.NONE
    assert len(short) == 3, "all but the first"
    await broker.advance(SESSION_MS)
    assert await beat(broker, joined) is ErrorCode.UNKNOWN_MEMBER_ID


@scenario()
async def test_what_is_not_committed_is_waited_for(
    broker: MemoryBroker, short: list[bytes]
) -> None:
    """As by the general way: an answer rests on all that the group is made of."""
    joined = await stable(broker)
    await broker.create("t")
    for _ in range(2):
        assert await beat(broker, joined) is ErrorCode.NONE
    assert len(short) == 1
    broker.share((1, 2), GROUP_TOPIC, broker.parts.groups.partition_of(GROUP))
    commit = {
        "group_id": GROUP,
        "generation_id_or_member_epoch": joined.generation_id,
        "member_id": joined.member_id,
        "topics": [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 1}]}],
    }
    broker.connect().send("OffsetCommit", 8, **commit)
    await settle()
    waiting = asyncio.ensure_future(beat(broker, joined))
    await settle()
    assert not waiting.done() and len(short) == 1
    await broker.advance(COMMIT_TIMEOUT_MS)
    assert waiting.done()


@scenario()
async def test_nothing_is_said_for_a_coordinator_that_is_no_more(
    broker: MemoryBroker, short: list[bytes]
) -> None:
    joined = await stable(broker)
    for _ in range(2):
        assert await beat(broker, joined) is ErrorCode.NONE
    parts: Broker = broker.parts
    parts.groups.close()
    assert await beat(broker, joined) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert len(short) == 1
