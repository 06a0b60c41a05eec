"""The fast path of repeated Heartbeats gives the answers of the general path, and keeps members.

Two brokers with the same seed get the same bytes; one of them remembers none.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from typing import Any

import pytest

from kavka.compat_tests.raw.codec import wire_client
from kavka.server.auth.authorizer import AllowAll, Operation
from kavka.server.broker import Broker
from kavka.server.cluster.metadata_cache import GROUP_TOPIC
from kavka.server.connections.fast_path import FastPath
from kavka.server.connections.heartbeat_fast_path import FastHeartbeat
from kavka.server.coordinators import journal_runner
from kavka.server.request.context import RequestContext
from kavka.server.runtime.java_hash import java_hash
from kavka.wire.apis.heartbeat import API
from kavka.wire.errors import ErrorCode
from support.classic_groups import REBALANCE_MS, SESSION_MS
from support.denied import Denied
from support.group_requests import GROUP, answered, beat, joining, stable, sync
from support.memory_broker import READS, MemoryBroker, scenario
from support.virtual import run_until_idle

VERSIONS = range(API.lowest, API.highest + 1)
STATIC_SINCE = 3
STEPS = 120
COMMIT_TIMEOUT_MS = 5000
UNTIL_LOADED_TURNS = 60
"""Of the loop, at the most."""


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bytes]]:
    """The answers that have gone the fast path."""
    taken: list[bytes] = []
    original = FastHeartbeat.handle

    def noting(self: FastHeartbeat, frame: memoryview) -> bytearray | None:
        answer = original(self, frame)
        if answer is not None:
            taken.append(bytes(answer))
        return answer

    monkeypatch.setattr(FastHeartbeat, "handle", noting)
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
    a member joins; its counts of requests and errors."""
    broker = MemoryBroker(seed=seed)
    await broker.start()
    joined = await stable(broker)
    client = broker.connect()
    chance = random.Random(seed)
    for number, frame in enumerate(heartbeats(version, joined, seed)):
        if frame is not None:
            client.send_bytes(frame)
            await run_until_idle(3)
        elif number % 3:
            await broker.advance(chance.randint(1, SESSION_MS // 4))
        else:
            allows = isinstance(broker.parts.authorizer, AllowAll)
            broker.parts.authorizer = Denied((Operation.READ, GROUP)) if allows else AllowAll()
        if number == STEPS * 4 // 5:
            broker.parts.authorizer = AllowAll()
            joining(broker.connect(), 3)
            await run_until_idle()
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
            patch.setattr(FastPath, "remember", lambda *_: None)
            short.clear()
            slow = asyncio.run(answers(version, seed))
        assert not short
        assert quick == slow
        assert len(quick[0]) > STEPS // 2
    assert taken > STEPS // 2, "the fast path is taken"


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
async def test_versions_that_look_alike_are_answered_as_such(
    broker: MemoryBroker, short: list[bytes]
) -> None:
    """0 has no throttle time in its answers."""
    joined = await stable(broker)
    client = broker.connect()
    values = {
        "group_id": GROUP,
        "generation_id": joined.generation_id,
        "member_id": joined.member_id,
    }
    versions = (0, 0, 1, 1, 2, 2, 0)
    for version in versions:
        client.send_bytes(wire_client.framed(wire_client.encode("Heartbeat", version, 5, **values)))
        await run_until_idle(3)
    assert len(short) == 3
    plain, with_time = client.frames[0], client.frames[2]
    assert len(plain) == len(with_time) - 4
    assert client.frames == [plain if version == 0 else with_time for version in versions]


@scenario()
async def test_an_error_is_not_remembered_nor_what_was_before(
    broker: MemoryBroker, short: list[bytes]
) -> None:
    joined = await stable(broker)
    for _ in range(2):
        assert await beat(broker, joined) is ErrorCode.NONE
    for times in (1, 2):
        for _ in range(2):
            assert await beat(broker, joined, generation_id=7) is ErrorCode.ILLEGAL_GENERATION
        assert await beat(broker, joined) is ErrorCode.NONE
        assert len(short) == times
        assert await beat(broker, joined) is ErrorCode.NONE
    assert len(short) == 3


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"generation_id": 1}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "somebody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
@scenario()
async def test_responses_while_a_group_is_loaded_are_not_remembered(
    broker: MemoryBroker,
    monkeypatch: pytest.MonkeyPatch,
    short: list[bytes],
    wrong: dict[str, Any],
    code: ErrorCode,
) -> None:
    """Then the response is NONE, as the group can't be asked."""
    first = await stable(broker)
    again = await answered(joining(broker.client, 9, first.member_id))
    await sync(broker, again, {again.member_id: b"all"})
    assert again.generation_id == 2
    await broker.die()
    monkeypatch.setattr(journal_runner, "TICK_SLICE_S", -1.0)
    await broker.revive(holding=READS)
    broker.jobs.release()
    values = {"group_id": GROUP, "generation_id": 2, "member_id": again.member_id, **wrong}
    received = []
    client = broker.connect()
    for _ in range(UNTIL_LOADED_TURNS):
        received.append(client.send("Heartbeat", 4, **values))
        await asyncio.sleep(0)
    await run_until_idle()
    codes = [answer.result().error_code for answer in received]
    assert codes[0] == ErrorCode.NONE
    assert codes[-1] == code
    assert not short


@scenario()
async def test_what_the_group_refuses_it_refuses_by_either_way(
    broker: MemoryBroker, short: list[bytes]
) -> None:
    joined = await stable(broker)
    for _ in range(2):
        assert await beat(broker, joined) is ErrorCode.NONE
    joining(broker.connect(), 3)
    await run_until_idle()
    for _ in range(2):
        assert await beat(broker, joined) is ErrorCode.REBALANCE_IN_PROGRESS
    assert len(short) == 1


class Slowly:
    """Quotas that let everybody wait."""

    unlimited = False

    def throttle_ms(self, context: RequestContext, request_bytes: int) -> int:
        return 25


@scenario()
async def test_a_throttled_heartbeat_takes_the_general_path(
    broker: MemoryBroker, short: list[bytes]
) -> None:
    joined = await stable(broker)
    for _ in range(2):
        assert await beat(broker, joined) is ErrorCode.NONE
    broker.parts.quotas = Slowly()
    values = {
        "group_id": GROUP,
        "generation_id": joined.generation_id,
        "member_id": joined.member_id,
    }
    assert (await broker.ask("Heartbeat", 4, **values)).throttle_time_ms == 25
    assert len(short) == 1


@scenario()
async def test_what_is_not_committed_is_waited_for(
    broker: MemoryBroker, short: list[bytes]
) -> None:
    """As by the general path: an answer rests on all that the group is made of."""
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
    await run_until_idle()
    waiting = asyncio.ensure_future(beat(broker, joined))
    await run_until_idle()
    assert not waiting.done() and len(short) == 1
    await broker.advance(COMMIT_TIMEOUT_MS)
    assert waiting.done()


@scenario()
async def test_a_group_is_looked_up_again_when_the_cluster_has_changed(
    broker: MemoryBroker, short: list[bytes]
) -> None:
    joined = await stable(broker)
    for _ in range(2):
        assert await beat(broker, joined) is ErrorCode.NONE
    assert len(short) == 1
    await broker.create("t")
    for _ in range(2):
        assert await beat(broker, joined) is ErrorCode.NONE
    assert len(short) == 2, "once the general path, and remembered again"

    before = broker.parts.groups.partition_of(GROUP)
    count = broker.parts.groups.partition_count
    moved = next(
        larger for larger in range(count + 1, 9 * count) if java_hash(GROUP) % larger != before
    )
    await broker.ask(
        "CreatePartitions",
        3,
        topics=[{"name": GROUP_TOPIC, "count": moved, "assignments": None}],
        timeout_ms=1000,
        validate_only=False,
    )
    assert await beat(broker, joined) is ErrorCode.UNKNOWN_MEMBER_ID, "it is elsewhere"
    assert len(short) == 2


@scenario()
async def test_a_resigned_coordinator_is_not_answered_for(
    broker: MemoryBroker, short: list[bytes]
) -> None:
    joined = await stable(broker)
    for _ in range(2):
        assert await beat(broker, joined) is ErrorCode.NONE
    parts: Broker = broker.parts
    parts.groups.close()
    assert await beat(broker, joined) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert len(short) == 1
