"""What a follower's session has nothing to hear of is passed over quickly, and nothing else is; the
leader knows as much of the follower as if all partitions had been read.

Two brokers live through the same; one of them looks at every partition for every Fetch.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any, Final, NamedTuple
from uuid import UUID

import pytest

from kavka.compat_tests.raw.codec.batches import build
from kavka.server.auth.authorizer import AllowAll, Operation
from kavka.server.handlers import fetch
from kavka.server.replica.fetch_reading import idle_for_follower
from kavka.server.replica.partition_state import LeaderAndIsrState
from kavka.server.replica.replica import Replica
from kavka.wire.errors import ErrorCode
from support import logs
from support.denied import Denied
from support.memory_broker import MemoryBroker, fetching, scenario
from support.virtual import run_until_idle

PLACES: Final = [("t", 0), ("t", 1), ("t", 2), ("u", 0), ("u", 1)]
STEPS: Final = 120
VERSION: Final = 13
FOLLOWER: Final = 2


class Outcome(NamedTuple):
    """What became of one life."""

    answers: list[object]
    seen: list[object]
    """What the leader knew of the follower, and its high watermarks, after each fetch."""
    fetches: dict[str, int]
    codes: set[int]


class Follower:
    """One session of a follower, which takes what it is given."""

    def __init__(self, broker: MemoryBroker, ids: dict[str, UUID]) -> None:
        self.broker = broker
        self.client = broker.connect()
        self.ids = ids
        self.session = (0, 0)
        self.offsets = dict.fromkeys(PLACES, 0)
        self.starts = dict.fromkeys(PLACES, 0)
        self.positions: dict[tuple[str, int], tuple[int, int, int, int]] = {}
        self.codes: set[int] = set()
        self.answers: list[Any] = []

    def _position(self, place: tuple[str, int]) -> tuple[int, int, int, int]:
        """Offset, last epoch, leader epoch, log start."""
        replica = self.broker.replica(*place)
        offset, epoch = self.offsets[place], replica.partition.leader_epoch
        last = replica.log.epoch_of(offset - 1) if offset > self.starts[place] else -1
        return offset, last, epoch, self.starts[place]

    async def fetch(self, max_wait_ms: int) -> None:
        """One request, which names what has changed."""
        session_id, epoch = self.session
        positions = {place: self._position(place) for place in PLACES}
        if not session_id:
            self.positions = {}
        named = {
            place: position
            for place, position in positions.items()
            if self.positions.get(place) != position
        }
        self.positions = positions
        values = fetching(
            {place: position[0] for place, position in named.items()},
            session_id=session_id,
            session_epoch=epoch,
            topic_ids=self.ids,
            max_wait_ms=max_wait_ms,
        )
        for topic in values["topics"]:
            for partition in topic["partitions"]:
                _, last, leader_epoch, start = named[topic["topic"], partition["partition"]]
                partition |= {
                    "last_fetched_epoch": last,
                    "current_leader_epoch": leader_epoch,
                    "log_start_offset": start,
                }
        values["replica_id"] = FOLLOWER
        waiting = self.client.send("Fetch", VERSION, **values)
        await run_until_idle()
        if not waiting.done():
            await self.broker.advance(max_wait_ms)
        self.take(waiting.result())

    def take(self, answer: Any) -> None:
        self.answers.append((answer.error_code, answer.session_id))
        assert not answer.error_code
        self.session = (answer.session_id, self.session[1] + 1)
        names = {topic_id: name for name, topic_id in self.ids.items()}
        found = len(self.answers)
        for topic in answer.responses:
            for partition in topic.partitions:
                place = names[topic.topic_id], partition.partition_index
                records = bytes(partition.records or b"")
                offsets = partition.high_watermark, partition.log_start_offset
                self.answers.append((place, partition.error_code, offsets, records))
                self.codes.add(partition.error_code)
                if partition.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    self.offsets[place] = self.broker.replica(*place).log.start_offset
                elif records:
                    self.offsets[place] = logs.parse(records)[-1].offset + 1
                self.answers[found:] = sorted(self.answers[found:])  # in any order
                if not partition.error_code:
                    start = max(self.starts[place], partition.log_start_offset)
                    self.starts[place] = min(start, self.offsets[place])


def place_replicas(replica: Replica, isr: tuple[int, ...], replicas: tuple[int, ...]) -> None:
    now = replica.partition
    version, epoch = now.partition_epoch + 1, now.leader_epoch
    now.lead(LeaderAndIsrState(1, now.leader, epoch, isr, version, replicas))


async def happen(broker: MemoryBroker, chance: random.Random, place: tuple[str, int]) -> None:
    """One thing that a follower, or its leader, may have to hear of."""
    topic, partition = place
    replica = broker.replica(topic, partition)
    now = replica.partition
    kind = chance.choice(["write", "write", "delete", "lag", "join", "lead", "moved", "rights"])
    if kind == "write":
        await broker.produce(build(), topic, partition, acks=1)
    elif kind == "delete":
        topics = [{"name": topic, "partitions": [{"partition_index": partition, "offset": -1}]}]
        broker.connect().send("DeleteRecords", 2, topics=topics, timeout_ms=1000)
        await run_until_idle()
    elif kind == "lag":
        place_replicas(replica, (now.leader,), (now.leader, FOLLOWER))
    elif kind == "join":
        place_replicas(replica, (now.leader, FOLLOWER), (now.leader, FOLLOWER))
    elif kind == "lead":
        version = now.partition_epoch + 1
        decision = LeaderAndIsrState(
            1, now.leader, now.leader_epoch + 1, now.isr, version, now.replicas
        )
        replica.lead(decision)
        replica.role_changed()
    elif kind == "moved":
        place_replicas(replica, (now.leader,), (now.leader, 3))
        await run_until_idle()
        place_replicas(replica, (now.leader,), (now.leader, FOLLOWER))
    else:
        allows = isinstance(broker.parts.authorizer, AllowAll)
        denied = Denied(Operation.CLUSTER_ACTION)
        broker.parts.authorizer = denied if allows else AllowAll()


def seen(broker: MemoryBroker) -> list[object]:
    """What the leader knows."""
    found: list[object] = []
    for place in PLACES:
        partition = broker.replica(*place).partition
        follower = partition.followers.get(FOLLOWER)
        if follower is not None:
            known = follower.log_end, follower.log_start, follower.caught_up_ms
            found.append((place, known, partition.high_watermark, partition.proposed_isr))
    return found


async def life(seed: int) -> Outcome:
    """Many things, and what a follower hears of them."""
    broker = MemoryBroker(seed=seed)
    await broker.start()
    ids = {"t": await broker.create("t", 3), "u": await broker.create("u", 2)}
    for place in PLACES:
        now = broker.replica(*place).partition
        place_replicas(broker.replica(*place), (now.leader, FOLLOWER), (now.leader, FOLLOWER))
    chance = random.Random(seed)
    follower = Follower(broker, ids)
    known: list[object] = []
    for _ in range(STEPS):
        for _ in range(chance.choice([0, 0, 1, 1, 2])):
            await happen(broker, chance, chance.choice(PLACES))
        await follower.fetch(chance.choice([0, 300, 40_000]))
        known.append(seen(broker))
    fetches = {replica.log.topic: replica.traffic.fetches for replica in broker.replicas()}
    broker.parts.authorizer = AllowAll()
    await broker.stop()
    return Outcome(follower.answers, known, fetches, follower.codes)


def test_the_leader_knows_as_much_as_if_all_partitions_were_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    passed: list[tuple[str, int]] = []
    codes: set[int] = set()

    def noting(*args: Any, **more: Any) -> Replica | None:
        replica = idle_for_follower(*args, **more)
        if replica is not None:
            passed.append(replica.key)
        return replica

    for seed in range(4):
        with monkeypatch.context() as patch:
            patch.setattr(fetch, "idle_for_follower", noting)
            quick = asyncio.run(life(seed))
            patch.setattr(fetch, "idle_for_follower", lambda *_, **__: None)
            assert asyncio.run(life(seed)) == quick
        codes |= quick.codes
    assert len(passed) > STEPS
    assert set(passed) == set(PLACES)
    assert codes >= {0, ErrorCode.TOPIC_AUTHORIZATION_FAILED}


@scenario(topics={"t": 2})
async def test_records_for_what_was_passed_over_end_the_wait(broker: MemoryBroker) -> None:
    ids = {"t": broker.replica().topic_id}
    for index in range(2):
        broker.share((broker.replica().partition.leader, FOLLOWER), "t", index)
    client = broker.connect()

    def asking(places: dict[tuple[str, int], int], session_id: int, epoch: int) -> dict[str, Any]:
        return fetching(
            places,
            session_id=session_id,
            session_epoch=epoch,
            topic_ids=ids,
            current_leader_epoch=0,
            log_start_offset=0,
            max_wait_ms=500 * epoch,
        ) | {"replica_id": FOLLOWER}

    first = await client.ask("Fetch", VERSION, **asking({("t", 0): 0, ("t", 1): 0}, 0, 0))
    waiting = client.send("Fetch", VERSION, **asking({}, first.session_id, 1))
    await run_until_idle()
    assert not waiting.done()
    await broker.produce(build(), partition=1, acks=1)
    await run_until_idle()
    [topic] = waiting.result().responses
    assert [partition.partition_index for partition in topic.partitions] == [1]
    assert topic.partitions[0].records


@scenario(topics={"t": 1})
async def test_a_topic_that_was_created_again_is_not_the_one_in_the_session(
    broker: MemoryBroker,
) -> None:
    """Where the replica is still another topic's than the one that metadata has under its id."""
    replica = broker.replica()
    broker.share((replica.partition.leader, FOLLOWER))
    request = fetching({("t", 0): 0}, topic_ids={"t": replica.topic_id}, current_leader_epoch=0)
    request |= {"replica_id": FOLLOWER}
    codes = []
    for topic_id in (replica.topic_id, UUID(int=77)):
        replica.topic_id = topic_id
        answer = await broker.ask("Fetch", VERSION, **request)
        codes.append(answer.responses[0].partitions[0].error_code)
    assert codes == [ErrorCode.NONE, ErrorCode.INCONSISTENT_TOPIC_ID]


@scenario(topics={"t": 1})
async def test_what_the_leader_has_not_heard_of_is_said_at_once(broker: MemoryBroker) -> None:
    """A follower may hear of a new topic first. It asks again soon, if it is answered; a
    consumer would do so in a loop, so it waits for the records of the other topic."""
    ids = {"t": broker.replica().topic_id, "new": UUID(int=77)}
    broker.share((broker.replica().partition.leader, FOLLOWER))
    request = fetching(
        {("t", 0): 0, ("new", 0): 0}, topic_ids=ids, current_leader_epoch=0, max_wait_ms=500
    )
    consumer = broker.connect().send("Fetch", VERSION, **request)
    follower = broker.connect().send("Fetch", VERSION, **request | {"replica_id": FOLLOWER})
    await run_until_idle()
    codes = {
        topic.topic_id: partition.error_code
        for topic in follower.result().responses
        for partition in topic.partitions
    }
    assert codes == {ids["t"]: ErrorCode.NONE, ids["new"]: ErrorCode.UNKNOWN_TOPIC_ID}
    assert not consumer.done()
    await broker.advance(500)
    assert consumer.done()
