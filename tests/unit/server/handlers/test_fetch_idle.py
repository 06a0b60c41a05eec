"""What a session's reader has nothing to hear of is passed over quickly, and nothing else is.

Two brokers live through the same; one of them looks at every partition for every Fetch. Both give
the same answers.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from typing import Any, Final, NamedTuple
from uuid import UUID

import pytest

from kavka.compat_tests.raw.codec.batches import build
from kavka.server.auth.authorizer import AllowAll, Operation
from kavka.server.handlers import fetch
from kavka.server.replica.fetch_reading import split_idle
from kavka.server.replica.fetch_sessions import FetchPartition
from kavka.server.replica.partition_state import LeaderAndIsrState
from kavka.server.replica.replica import Replica
from kavka.wire.errors import ErrorCode
from kavka.wire.steps import run_at_once
from support import logs
from support.denied import Denied
from support.logs import Producer
from support.memory_broker import MemoryBroker, fetching, scenario
from support.virtual import run_until_idle

PLACES: Final = [("t", 0), ("t", 1), ("t", 2), ("u", 0), ("u", 1)]
STEPS: Final = 150
WRITER: Final = Producer(1, 0, 0)
IDS_SINCE: Final = 13


class Outcome(NamedTuple):
    """What became of one life."""

    answers: list[object]
    fetches: dict[str, int]
    codes: set[int]


@pytest.fixture
def passed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, int]]]:
    """The partitions that were passed over, each time."""
    found: list[tuple[str, int]] = []
    original = split_idle

    def noting(*args: Any, **options: Any) -> Any:
        idle, others = yield from original(*args, **options)
        found.extend(replica.key for replica in idle)
        return idle, others

    monkeypatch.setattr(fetch, "split_idle", noting)
    yield found


def none_idle(partitions: list[FetchPartition], *_: Any, **__: bool) -> Any:
    """`split_idle`, if it found nothing idle."""
    yield from ()
    return [], partitions


class Reader:
    """One session, whose reader takes what it is given, as consumers do."""

    def __init__(self, broker: MemoryBroker, version: int, ids: dict[str, UUID]) -> None:
        self.broker = broker
        self.client = broker.connect()
        self.version = version
        self.ids = ids if version >= IDS_SINCE else {}
        self.offsets = dict.fromkeys(PLACES, 0)
        self.session = (0, 0)
        self.codes: set[int] = set()
        self.answers: list[object] = []

    async def fetch(self, places: list[tuple[str, int]], **more: Any) -> None:
        """One request, which names `places`; all if there is no session."""
        session_id, epoch = self.session
        offsets = {place: self.offsets[place] for place in (places if session_id else PLACES)}
        values = fetching(
            offsets, session_id=session_id, session_epoch=epoch, topic_ids=self.ids, **more
        )
        waiting = self.client.send("Fetch", self.version, **values)
        await run_until_idle()
        if not waiting.done():
            await self.broker.advance(values["max_wait_ms"])
        self.take(waiting.result())

    def seek_to_end(self, place: tuple[str, int]) -> None:
        """Read on from an offset that no response has given."""
        for replica in self.broker.replicas():
            if replica.key == place:
                self.offsets[place] = replica.high_watermark

    def take(self, answer: Any) -> None:
        self.answers.append((answer.error_code, answer.session_id))
        if answer.error_code:
            self.session = (0, 0)
            return
        self.session = (answer.session_id, self.session[1] + 1)
        names = {topic_id: name for name, topic_id in self.ids.items()}
        for topic in answer.responses:
            name = names[topic.topic_id] if self.ids else topic.topic
            for partition in topic.partitions:
                records = bytes(partition.records or b"")
                offsets = (
                    partition.high_watermark,
                    partition.last_stable_offset,
                    partition.log_start_offset,
                )
                aborted = [
                    (transaction.producer_id, transaction.first_offset)
                    for transaction in partition.aborted_transactions or ()
                ]
                self.answers.append((name, partition.partition_index, offsets, aborted, records))
                self.codes.add(partition.error_code)
                place = (name, partition.partition_index)
                if partition.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    self.offsets[place] = self.broker.replica(*place).log.start_offset
                elif records:
                    self.offsets[place] = logs.parse(records)[-1].offset + 1


def changed(broker: MemoryBroker, replica: Replica) -> None:
    """What a replica does after an append."""
    replica.partition.appended(replica.log.end_offset)
    broker.parts.purgatory.changed(replica.key)


async def happen(broker: MemoryBroker, chance: random.Random, place: tuple[str, int]) -> None:
    """One thing that a reader may, or must not, hear of."""
    topic, partition = place
    replica = next((candidate for candidate in broker.replicas() if candidate.key == place), None)
    if replica is None:
        return
    log, epoch = replica.log, replica.partition.leader_epoch
    kind = chance.choice(["write"] * 3 + ["begin", "end", "delete", "lag", "lead", "rights"])
    if kind == "write":
        await broker.produce(build(), topic, partition, acks=1)
    elif kind == "begin":
        open_now = log.producers.get(WRITER.id)
        sequence = 0 if open_now is None else open_now.last_sequence + 1
        producer = WRITER._replace(sequence=sequence)
        data = logs.batch([b"x"], producer=producer, transactional=True)
        logs.append(log, data, leader_epoch=epoch)
        changed(broker, replica)
    elif kind == "end":
        logs.end_transaction(log, WRITER, commit=chance.random() < 0.5, coordinator_epoch=0)
        changed(broker, replica)
    elif kind == "delete":
        deletion = {"partition_index": partition, "offset": -1}
        topics = [{"name": topic, "partitions": [deletion]}]
        await broker.ask("DeleteRecords", 2, topics=topics, timeout_ms=1000)
    elif kind == "lag":
        broker.share(chance.choice([(1,), (1, 2)]), topic, partition)
    elif kind == "lead":
        now = replica.partition
        version = now.partition_epoch + 1
        now.lead(LeaderAndIsrState(1, now.leader, epoch + 1, now.isr, version, now.replicas))
        broker.parts.purgatory.changed(place)
    else:
        allows = isinstance(broker.parts.authorizer, AllowAll)
        broker.parts.authorizer = Denied((Operation.READ, "t")) if allows else AllowAll()


async def life(version: int, seed: int) -> Outcome:
    """Many things, and what a reader hears of them."""
    broker = MemoryBroker(seed=seed)
    await broker.start()
    ids = {"t": await broker.create("t", 3), "u": await broker.create("u", 2)}
    chance = random.Random(seed)
    reader = Reader(broker, version, ids)
    for number in range(STEPS):
        for _ in range(chance.choice([0, 1, 1, 2])):
            await happen(broker, chance, chance.choice(PLACES))
        moved = [place for place in PLACES if chance.random() < 0.5]
        if chance.random() < 0.2:
            reader.seek_to_end(chance.choice(moved or PLACES))
        await reader.fetch(
            moved,
            max_wait_ms=chance.choice([0, 0, 300]),
            isolation_level=chance.randint(0, 1),
            current_leader_epoch=chance.choice([-1, -1, 0, 1]) if version >= 9 else -1,
            last_fetched_epoch=chance.choice([-1, -1, 0, 1]) if version >= 12 else -1,
        )
        if number == STEPS * 2 // 3:
            await broker.ask("DeleteTopics", 5, topic_names=["u"], timeout_ms=1000)
    fetches = {replica.log.topic: replica.traffic.fetches for replica in broker.replicas()}
    broker.parts.authorizer = AllowAll()
    await broker.stop()
    return Outcome(reader.answers, fetches, reader.codes)


@pytest.mark.parametrize("version", [7, 9, 12, 13, 17])
def test_responses_are_the_same_as_if_all_partitions_were_read(
    version: int, monkeypatch: pytest.MonkeyPatch, passed: list[tuple[str, int]]
) -> None:
    codes: set[int] = set()
    for seed in range(3):
        quick = asyncio.run(life(version, seed))
        with monkeypatch.context() as patch:
            patch.setattr(fetch, "split_idle", none_idle)
            assert asyncio.run(life(version, seed)) == quick
        codes |= quick.codes
    assert len(passed) > STEPS // 2
    assert set(passed) == set(PLACES)
    gone = (
        ErrorCode.UNKNOWN_TOPIC_ID if version >= IDS_SINCE else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )
    assert codes >= {0, ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.OFFSET_OUT_OF_RANGE, gone}


@scenario(topics={"t": 3})
async def test_what_is_passed_over_still_ends_a_wait(
    broker: MemoryBroker, passed: list[tuple[str, int]]
) -> None:
    reader = Reader(broker, 12, {})
    reader.offsets = {("t", number): 0 for number in range(3)}
    first = await reader.client.ask(
        "Fetch", 12, **fetching(reader.offsets, session_epoch=0, session_id=0)
    )
    waiting = reader.client.send(
        "Fetch", 12, **fetching({}, session_id=first.session_id, session_epoch=1, max_wait_ms=500)
    )
    await run_until_idle()
    assert len(passed) == 3 and not waiting.done()
    await broker.produce(build(), partition=1)
    await run_until_idle()
    [topic] = waiting.result().responses
    assert [partition.partition_index for partition in topic.partitions] == [1]


@scenario(topics={"t": 1})
async def test_a_failed_log_is_reported_once(
    broker: MemoryBroker, passed: list[tuple[str, int]]
) -> None:
    request = fetching({("t", 0): 0}, session_epoch=0)
    session_id = (await broker.ask("Fetch", 12, **request)).session_id
    for epoch, received in ((1, False), (2, True)):
        request = fetching({}, session_id=session_id, session_epoch=epoch)
        answer = await broker.ask("Fetch", 12, **request)
        codes = [
            partition.error_code for topic in answer.responses for partition in topic.partitions
        ]
        assert codes == [ErrorCode.KAFKA_STORAGE_ERROR] * received
        broker.parts.replicas.failures.storage_failed(broker.replica(), OSError("gone"))
    assert len(passed) == 1


@scenario(topics={"t": 1})
async def test_a_session_keeps_no_deleted_topic(
    broker: MemoryBroker, passed: list[tuple[str, int]]
) -> None:
    reader = Reader(broker, 12, {})
    reader.offsets = {("t", 0): 0}
    await reader.client.ask("Fetch", 12, **fetching(reader.offsets, session_epoch=0))
    [partition] = next(iter(broker.parts.sessions)).partitions.values()
    assert partition.replica is not None and partition.replica() is broker.replica()
    await broker.ask("DeleteTopics", 5, topic_names=["t"], timeout_ms=1000)
    await run_until_idle()
    split = split_idle([partition], lambda _: True, from_leader=True, from_any=True)
    assert run_at_once(split) == ([], [partition])
