"""What the fast path of Fetch has to leave to the general path, case by case: with and without it
the outcome is the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from kavka.compat_tests.raw.codec import batches, wire_client
from kavka.log.txn_guards import NOT_NEEDED
from kavka.server.connections import fast_path
from kavka.server.connections.fetch_fast_path import FastFetch
from kavka.server.replica.partition_state import LeaderAndIsrState
from kavka.server.replica.replica import Replica
from kavka.server.request import log as request_log
from kavka.wire.apis.fetch import API, BATCHES_SINCE, TOPIC_IDS_SINCE
from kavka.wire.apis.list_offsets import API as LIST_OFFSETS
from kavka.wire.control_records import Marker
from kavka.wire.errors import ErrorCode as Code
from kavka.wire.record_batches import read_header
from support import logs
from support.memory_broker import MemoryBroker, fetching, scenario
from support.virtual import run_until_idle

VERSION = 11
FOLLOWER = 2


@pytest.fixture(params=[True, False], ids=["fast path", "general path"], autouse=True)
def is_fast(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether there is a fast path."""
    if not request.param:
        monkeypatch.setattr(fast_path, "REMEMBERED_MAX", 0)
    return bool(request.param)


class Reader:
    """A connection that fetches t, and what it was answered."""

    def __init__(self, broker: MemoryBroker, version: int = VERSION) -> None:
        self._client = broker.connect()
        self._version = version
        self._sent = 0

    def ask(
        self, *offsets: int, forget: Sequence[int] = (), topic: str = "t", **values: Any
    ) -> None:
        """Fetch the first partitions from these offsets."""
        replica_id = values.pop("replica_id", -1)
        request = fetching(
            {(topic, index): offset for index, offset in enumerate(offsets)},
            **{"max_wait_ms": 300, **values},
        )
        request["replica_id"] = replica_id
        if forget:
            request["forgotten_topics_data"] = [{"topic": topic, "partitions": list(forget)}]
        self._client.send_frame(wire_client.encode("Fetch", self._version, self._sent, **request))
        self._sent += 1

    @property
    def answers(self) -> list[Any]:
        """In order."""
        return [
            wire_client.decode("Fetch", self._version, frame)[1] for frame in self._client.frames
        ]

    @property
    def codes(self) -> list[list[int]]:
        """The error codes of each answer: its own, and those of its partitions."""
        return [
            [answer.error_code, *(partition.error_code for partition in partitions(answer))]
            for answer in self.answers
        ]

    def records(self, number: int) -> bytes:
        """The first records of an answer; none if it names no partition."""
        found = partitions(self.answers[number])
        return bytes(found[0].records or b"") if found else b""

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


def partitions(answer: Any) -> list[Any]:
    return [partition for topic in answer.responses for partition in topic.partitions]


def append(replica: Replica, size: int = 1) -> None:
    """One record of so many bytes."""
    batch = memoryview(bytearray(batches.build([batches.Written(None, bytes(size))])))
    replica.append(batch, read_header(batch))


async def parked(broker: MemoryBroker, reader: Reader, **values: Any) -> Replica:
    """The reader waits at offset 1, in the fast path if there is one."""
    replica = broker.replica()
    reader.ask(0, **values)
    await run_until_idle()
    append(replica)
    await run_until_idle()
    reader.ask(1, **values)
    await run_until_idle()
    assert len(reader.answers) == 1
    return replica


@pytest.mark.parametrize("version", range(BATCHES_SINCE, API.highest + 1))
def test_names_that_look_like_what_is_filled_in(version: int) -> None:
    @scenario()
    async def run(broker: MemoryBroker) -> None:
        for name in ("my-records", "records", "x" * 200):
            ids = {name: await broker.create(name)}
            reader = Reader(broker, version)
            for number in range(4):
                reader.ask(3 * number, topic=name, topic_ids=ids)
                await run_until_idle()
                await broker.produce(batches.build(), name)
                await run_until_idle()
                (found,) = partitions(reader.answers[-1])
                assert found.high_watermark == 3 * number + 3
                assert len(found.records) == len(batches.build())

    run()


@scenario(topics={"t": 2})
async def test_a_partition_that_is_fetched_and_forgotten(broker: MemoryBroker) -> None:
    """It is removed from the session, where the other one stays."""
    reader = Reader(broker)
    reader.ask(0, 0, session_epoch=0)
    await broker.advance(300)
    session_id = reader.answers[0].session_id
    append(broker.replica("t", 0))
    for epoch in range(1, 4):
        reader.ask(1, forget=[0], session_id=session_id, session_epoch=epoch)
        await run_until_idle()
        if epoch == 2:
            append(broker.replica("t", 1))
        await broker.advance(300)
    assert reader.records(2)


@scenario(topics={"t": 2})
async def test_requests_of_one_connection_are_apart(broker: MemoryBroker) -> None:
    reader = Reader(broker)
    replica = await parked(broker, reader)
    reader.ask(2)
    append(replica)
    await run_until_idle()
    append(replica)
    await run_until_idle()
    assert [batches.field(reader.records(number), "base_offset") for number in (0, 1, 2)] == [
        0,
        1,
        2,
    ]


@scenario(topics={"t": 1})
async def test_an_index_of_transactions_that_can_t_be_read(broker: MemoryBroker) -> None:
    reader = Reader(broker)
    replica = await parked(broker, reader, isolation_level=1)
    batch = logs.batch([b"v"], producer=logs.Producer(7, 0, 0), transactional=True)
    replica.append(batch, read_header(batch), NOT_NEEDED)
    replica.append_marker(7, 0, Marker(False, 0, 0), 0)

    def fail(*_: Any) -> None:
        raise OSError(5, "planted")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(replica.log._active.txns), "collect", fail)
        await run_until_idle()
        await broker.advance(300)
    assert reader.codes[1] == [0, Code.KAFKA_STORAGE_ERROR]


@scenario(topics={"t": 1})
async def test_the_limit_is_that_of_the_request(broker: MemoryBroker) -> None:
    reader, replica, end, limit = Reader(broker), broker.replica(), 0, 20_000
    reader.ask(0, session_epoch=0, max_bytes=limit)
    await broker.advance(300)
    session_id = reader.answers[0].session_id
    for epoch, max_bytes in enumerate([limit, 1 << 20, limit], 1):
        reader.ask(end, session_id=session_id, session_epoch=epoch, max_bytes=max_bytes)
        await run_until_idle()
        for _ in range(10):
            append(replica, 9000)
            end += 1
        await run_until_idle()
    assert len(reader.records(3)) <= limit


def _next_epoch(replica: Replica) -> None:
    now = replica.partition
    epochs = now.leader_epoch + 1, now.isr, now.partition_epoch + 1
    replica.lead(LeaderAndIsrState(1, now.leader, *epochs, now.replicas))
    replica.role_changed()


def _throttle(replica: Replica) -> None:
    settings = replica.log.settings
    replica.configure(replace(settings, leader_replication_throttled_replicas=("*",)))


@pytest.mark.parametrize(
    ("change", "values"),
    [(_next_epoch, {}), (_throttle, {"replica_id": FOLLOWER, "log_start_offset": 0})],
    ids=["the next leader epoch", "a throttle"],
)
@scenario(topics={"t": 1})
async def test_what_ends_no_wait(
    broker: MemoryBroker, change: Callable[[Replica], object], values: dict[str, Any]
) -> None:
    reader = Reader(broker)
    if values:
        broker.share((broker.replica().partition.leader, FOLLOWER))
    replica = await parked(broker, reader, **values)
    change(replica)
    await run_until_idle()
    assert len(reader.answers) == 1
    append(replica)
    await run_until_idle()
    await broker.advance(300)
    assert len(reader.answers) == 2


@scenario(topics={"t": 1})
async def test_a_topic_that_is_being_deleted_has_no_id(broker: MemoryBroker) -> None:
    ids = {"t": broker.replica().topic_id}
    reader = Reader(broker, TOPIC_IDS_SINCE)
    replica = await parked(broker, reader, topic_ids=ids)
    append(replica)
    await run_until_idle()
    metadata = broker.parts.metadata
    before = metadata.image
    metadata.image = replace(before, topics={}, names_by_id={})
    reader.ask(2, topic_ids=ids)
    await run_until_idle()
    assert reader.codes[2:] == [[0, Code.UNKNOWN_TOPIC_ID]]
    metadata.image = before


def test_no_timer_is_left() -> None:
    async def main() -> None:
        broker = MemoryBroker()
        await broker.start()
        await broker.create("t")
        reader = Reader(broker)
        reader.ask(0, max_wait_ms=2**31 - 1)
        await run_until_idle()
        reader.close()
        await run_until_idle()
        await broker.stop()
        assert broker.tasks.pending_timers == 0

    asyncio.run(main())


@scenario(topics={"t": 1})
async def test_requests_are_logged_as_soon_as_that_is_asked_for(broker: MemoryBroker) -> None:
    logged: list[int] = []
    reader = Reader(broker)
    with pytest.MonkeyPatch.context() as patch:
        for number in range(8):
            if number == 3:
                patch.setattr(request_log, "is_on", lambda: True)
                patch.setattr(
                    request_log,
                    "log",
                    lambda _, context, **__: logged.append(context.correlation_id),
                )
            reader.ask(0)
            await broker.advance(300)
    assert logged == list(range(3, 8))


@scenario(topics={"t": 1})
async def test_a_request_behind_a_fetch_has_times_of_its_own(broker: MemoryBroker) -> None:
    client = broker.connect()
    partition = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
    request: dict[str, Any] = {"replica_id": -1, "isolation_level": 0}
    request["topics"] = [{"name": "t", "partitions": [partition]}]
    client.send_frame(wire_client.encode("ListOffsets", 7, 1, **request))
    await run_until_idle()
    for _ in range(10):
        fetch = fetching({("t", 0): 0}, max_wait_ms=1000)
        client.send_frame(wire_client.encode("Fetch", VERSION, 2, **fetch))
        client.send_frame(wire_client.encode("ListOffsets", 7, 3, **request))
        await broker.advance(1000)
    assert broker.parts.requests.of(LIST_OFFSETS).total_ms.count <= 2


@scenario(topics={"t": 2})
async def test_a_session_that_shrinks_to_one_partition(broker: MemoryBroker) -> None:
    """It has the fast path from then on, if there is one."""
    taken: list[Any] = []
    handle = FastFetch.handle

    def noting(self: FastFetch, frame: memoryview) -> Any:
        call = handle(self, frame)
        taken.append(call)
        return call

    reader = Reader(broker)
    reader.ask(0, 0, session_epoch=0)
    await broker.advance(300)
    session_id = reader.answers[0].session_id
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FastFetch, "handle", noting)
        for offset in range(20):
            forget = [] if offset else [1]
            reader.ask(offset, forget=forget, session_id=session_id, session_epoch=offset + 1)
            await run_until_idle()
            append(broker.replica())
            await run_until_idle()
    assert [len(reader.records(number)) > 0 for number in range(1, 21)] == [True] * 20
    if fast_path.REMEMBERED_MAX:
        assert sum(call is not None for call in taken) >= 17
