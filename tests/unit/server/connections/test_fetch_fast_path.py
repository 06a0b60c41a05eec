"""The fast path of Fetches that wait gives the answers of the general path, and notes the same.

Two brokers with the same seed get the same bytes; one of them remembers no requests.
"""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import Iterator
from typing import Any, Final
from uuid import UUID

import pytest

from kavka.compat_tests.raw.codec import batches, wire_client
from kavka.log.txn_guards import NOT_NEEDED
from kavka.server.auth.authorizer import AllowAll, Operation
from kavka.server.connections import fast_path
from kavka.server.connections.fetch_fast_path import FastFetch
from kavka.server.connections.produce_fast_path import FastProduce
from kavka.server.replica.replica import Replica
from kavka.server.request.results import Call
from kavka.server.request.sliced_responses import EncodedResponse
from kavka.wire.apis.fetch import (
    API,
    BATCHES_SINCE,
    REPLICA_STATES_SINCE,
    SESSIONS_SINCE,
)
from kavka.wire.apis.produce import API as PRODUCE
from kavka.wire.control_records import Marker
from kavka.wire.record_batches import read_header
from support import logs
from support.denied import Denied
from support.memory_broker import Client, MemoryBroker, fetching, producing
from support.virtual import run_until_idle

VERSIONS = range(API.lowest, API.highest + 1)
STEPS: Final = 250
FOLLOWER: Final = 2
WAIT_MS: Final = 300
MAGIC_AT: Final = 16
DELTA_AT: Final = 23


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The requests that have waited in the fast path, and those answered from it."""
    taken: list[str] = []
    fetch, produce, fill = FastFetch.handle, FastProduce.handle, FastFetch.filled

    def handle(self: FastFetch, frame: memoryview) -> Call | None:
        call = fetch(self, frame)
        if call is not None:
            taken.append("Fetch")
        return call

    def handle_produce(self: FastProduce, frame: memoryview) -> bytearray | Call | None:
        answer = produce(self, frame)
        if isinstance(answer, Call):
            taken.append("Produce")
        return answer

    def filled(self: FastFetch, *args: Any) -> EncodedResponse | None:
        response = fill(self, *args)
        if response is not None:
            taken.append("read")
        return response

    monkeypatch.setattr(FastFetch, "handle", handle)
    monkeypatch.setattr(FastFetch, "filled", filled)
    monkeypatch.setattr(FastProduce, "handle", handle_produce)
    yield taken


class Reader:
    """A consumer, or a follower, that reads t-0, most of the time from where it has got to."""

    def __init__(
        self, broker: MemoryBroker, topic_id: UUID, version: int, chance: random.Random
    ) -> None:
        self._client = broker.connect()
        self._broker = broker
        self._ids = {"t": topic_id, "u": topic_id}
        self._version = version
        self._chance = chance
        self._is_follower = chance.random() < 0.5
        self._isolation = chance.choice([0, 1])
        self._in_session = version >= SESSIONS_SINCE and chance.random() < 0.7
        self._min_bytes = chance.choice([1, 1, 1, 1, 400])
        self._max_bytes = chance.choice([1, 300, 1 << 20])
        self._log_start = 0 if self._is_follower else -1
        self._knows_epochs = chance.random() < 0.5
        self._session = (0, 0 if self._in_session else -1)
        self._offset = 0
        self._sent = 0
        self._read = 0

    @property
    def frames(self) -> list[bytes]:
        """What it was answered."""
        return self._client.frames

    def step(self) -> None:
        """Fetch again, when it was answered, and sometimes before."""
        while self._read < len(self.frames):
            self._take(self.frames[self._read])
            self._read += 1
        is_pipelining = not self._in_session and self._chance.random() < 0.1
        if self._read == self._sent or is_pipelining:
            self._send()

    def _take(self, frame: bytes) -> None:
        _, answer = wire_client.decode("Fetch", self._version, frame)
        session_id, epoch = self._session
        if self._version >= SESSIONS_SINCE and answer.error_code:
            self._session = (session_id, 0 if self._in_session else -1)
            return
        if self._in_session and answer.session_id:
            self._session = (answer.session_id, epoch + 1)
        for topic in answer.responses:
            for partition in topic.partitions:
                if partition.error_code == 1:  # OFFSET_OUT_OF_RANGE
                    self._offset = self._broker.replica().log.start_offset
                if partition.records and partition.partition_index == 0:
                    self._offset = max(self._offset, offset_after(bytes(partition.records)))
                if self._is_follower and getattr(partition, "log_start_offset", -1) >= 0:
                    self._log_start = partition.log_start_offset

    def _send(self) -> None:
        chance, version = self._chance, self._version
        session_id, epoch = self._session
        partition = self._broker.replica().partition
        offsets = {("t", 0): self._offset + chance.choice([0] * 30 + [1, -1])}
        if chance.random() < 0.05:
            offsets["t", 1] = 0
        values = fetching(
            offsets,
            max_bytes=self._max_bytes,
            max_wait_ms=WAIT_MS,
            min_bytes=self._min_bytes,
            isolation_level=self._isolation,
            session_id=session_id,
            session_epoch=epoch if chance.random() < 0.97 else epoch + 1,
            current_leader_epoch=partition.leader_epoch if self._knows_epochs else -1,
            last_fetched_epoch=chance.choice([-1, *[partition.leader_epoch] * 5]),
            log_start_offset=self._log_start,
            topic_ids=self._ids,
        )
        if version >= SESSIONS_SINCE and chance.random() < 0.03:
            forgotten = {"topic": "t", "topic_id": self._ids["t"], "partitions": [1]}
            values["forgotten_topics_data"] = [forgotten]
        if self._is_follower and version >= REPLICA_STATES_SINCE:
            values["replica_state"] = {"replica_id": FOLLOWER, "replica_epoch": -1}
        elif self._is_follower:
            values["replica_id"] = FOLLOWER
        frame = wire_client.encode("Fetch", version, self._sent, **values)
        self._client.send_frame(frame)
        self._sent += 1


def offset_after(records: bytes) -> int:
    """The offset behind the last whole batch or message."""
    position = after = 0
    while position + MAGIC_AT < len(records):
        offset, size = struct.unpack_from(">qi", records, position)
        if position + 12 + size <= len(records):
            is_batch = records[position + MAGIC_AT] == 2
            delta = struct.unpack_from(">i", records, position + DELTA_AT)[0] if is_batch else 0
            after = offset + delta + 1
        position += 12 + size
    return after


class Producer:
    """Writes single batches, mostly with acks=all, and does not wait for the responses."""

    def __init__(self, broker: MemoryBroker, topic_id: UUID, chance: random.Random) -> None:
        self._client = broker.connect()
        self._chance = chance
        self._version = chance.choice([8, 9, PRODUCE.highest])
        self._ids = {"t": topic_id}
        self._sent = 0

    @property
    def frames(self) -> list[bytes]:
        """What it was answered."""
        return self._client.frames

    def step(self) -> None:
        """Write some more batches, a request for each."""
        frames = bytearray()
        for _ in range(self._chance.choice([1, 1, 2, 4])):
            acks = self._chance.choice([-1, -1, -1, 1])
            values = producing(
                {("t", 0): batches.build()}, acks=acks, timeout_ms=500, topic_ids=self._ids
            )
            frame = wire_client.encode("Produce", self._version, self._sent, **values)
            frames += wire_client.framed(frame)
            self._sent += 1
        self._client.send_bytes(bytes(frames))


class Transactions:
    """One transaction after the other, written to the log as the leader does."""

    def __init__(self) -> None:
        self._sequence = 0

    def write(self, replica: Replica) -> None:
        """One more record."""
        producer = logs.Producer(7, 0, self._sequence)
        batch = logs.batch([b"v"], producer=producer, transactional=True)
        replica.append(batch, read_header(batch), NOT_NEEDED)
        self._sequence += 1

    def end(self, replica: Replica, *, commit: bool) -> None:
        """Commit, or abort."""
        if self._sequence:
            replica.append_marker(7, 0, Marker(commit, 0, 0), 0)


def change(
    broker: MemoryBroker, plain: Client, transactions: Transactions, chance: random.Random
) -> None:
    """What may end a wait, or change its outcome."""
    replica = broker.replica()
    kinds = ["plain"] * 6 + ["write", "commit", "abort", "delete", "rights", "isr", "alone", "big"]
    match chance.choice(kinds):
        case "plain":
            plain.send("Produce", 9, **producing({("t", 0): batches.build()}, acks=1))
        case "big":
            big = batches.build([batches.Written(None, bytes(20_000))])
            plain.send("Produce", 9, **producing({("t", 0): big}, acks=1))
        case "write":
            transactions.write(replica)
        case "commit" | "abort" as end:
            transactions.end(replica, commit=end == "commit")
        case "delete":
            if replica.partition.followers or replica.high_watermark:
                replica.delete_before(chance.randint(0, replica.high_watermark))
        case "rights":
            allows = isinstance(broker.parts.authorizer, AllowAll)
            denied = Denied((Operation.READ, "t"), Operation.CLUSTER_ACTION)
            broker.parts.authorizer = denied if allows else AllowAll()
        case "isr":
            broker.share((replica.partition.leader, FOLLOWER))
        case "alone":
            broker.unshare()


async def answers(version: int, seed: int) -> tuple[Any, ...]:
    """What a fresh broker answers each client, its counts, and what it knows of the follower."""
    broker = MemoryBroker(seed=seed)
    await broker.start()
    topic_id = await broker.create("t", 2)
    chance = random.Random(seed)
    broker.share((broker.replica().partition.leader, FOLLOWER))
    transactions, plain = Transactions(), broker.connect()
    readers = [Reader(broker, topic_id, version, chance) for _ in range(3)]
    producer = Producer(broker, topic_id, chance)
    noted = []
    for number in range(STEPS):
        kind = chance.choice(["read", "read", "read", "change", "produce", "wait"])
        if kind == "read":
            chance.choice(readers).step()
        elif kind == "produce":
            producer.step()
        elif kind == "change":
            change(broker, plain, transactions, chance)
        elif number % 4 == 0:
            await broker.advance(chance.choice([1, 200, WAIT_MS]))
        await run_until_idle()
        partition = broker.replica().partition
        followers = {
            broker_id: vars_of(follower) for broker_id, follower in partition.followers.items()
        }
        noted.append((partition.high_watermark, partition.isr, followers))
    await broker.advance(1000)
    requests = broker.parts.requests
    counts = [requests.of(api).error_counts for api in (API, PRODUCE)]
    traffic = broker.replica().traffic
    sums = (traffic.fetches, traffic.bytes_out)
    frames = [*(reader.frames for reader in readers), producer.frames]
    await broker.stop()
    return frames, noted, counts, sums


def vars_of(progress: Any) -> tuple[Any, ...]:
    """The fields of what the leader knows of a follower."""
    return tuple(getattr(progress, name) for name in progress.__slots__)


@pytest.mark.parametrize("version", VERSIONS)
def test_both_paths_answer_and_note_the_same(
    version: int, monkeypatch: pytest.MonkeyPatch, waited: list[str]
) -> None:
    taken: list[str] = []
    for seed in range(8):
        waited.clear()
        quick = asyncio.run(answers(version, seed))
        taken += waited
        with monkeypatch.context() as patch:
            patch.setattr(fast_path, "REMEMBERED_MAX", 0)
            waited.clear()
            slow = asyncio.run(answers(version, seed))
        assert not waited
        assert quick == slow
    if version >= BATCHES_SINCE:
        assert taken.count("Fetch") > 10 and taken.count("read") > 5
    else:
        assert "Fetch" not in taken
    assert taken.count("Produce") > 10
