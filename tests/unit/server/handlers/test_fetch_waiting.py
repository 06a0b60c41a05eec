"""Fetch over time: long polls, sessions (KIP-227), and reads that the disk must answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from kavka.log.memfs import Fault
from kavka.wire.apis.fetch import API
from kavka.wire.errors import ErrorCode as Code
from support import logs
from support.batches import Written, build
from support.logs import parse
from support.memory_broker import Client, MemoryBroker, fetching, producing, scenario
from support.virtual import settle

BATCH = bytes(build())
LONG_MS = 30_000
MIB = 1 << 20


def poll(
    client: Client, offsets: Mapping[tuple[str, int], int], **values: Any
) -> asyncio.Future[Any]:
    """A fetch that may wait half a minute."""
    return client.send("Fetch", 12, **fetching(offsets, **({"max_wait_ms": LONG_MS} | values)))


def sizes(answer: Any) -> list[int]:
    return [len(one.records) for topic in answer.responses for one in topic.partitions]


# -- long polls -----------------------------------------------------------------------------


@scenario(topics={"t": 1})
async def test_a_fetch_at_the_end_waits_for_its_time(broker: MemoryBroker) -> None:
    waiting = poll(broker.client, {("t", 0): 0}, max_wait_ms=500)
    await broker.advance(499)
    assert not waiting.done()
    await broker.advance(1)
    assert sizes(waiting.result()) == [0]
    assert waiting.result().responses[0].partitions[0].error_code == Code.NONE


@pytest.mark.parametrize("values", [{"max_wait_ms": 0}, {"max_wait_ms": -1}, {"min_bytes": 0}])
@scenario(topics={"t": 1})
async def test_who_does_not_want_to_wait(broker: MemoryBroker, values: dict[str, int]) -> None:
    answer = poll(broker.client, {("t", 0): 0}, **values)
    await settle()
    assert sizes(answer.result()) == [0]


@scenario()
async def test_nothing_asked_for_is_answered_at_once(broker: MemoryBroker) -> None:
    answer = poll(broker.client, {})
    await settle()
    assert answer.result().responses == []


@scenario(topics={"t": 2})
async def test_the_first_record_ends_the_wait(broker: MemoryBroker) -> None:
    waiting = poll(broker.client, {("t", 0): 0, ("t", 1): 0})
    await broker.advance(100)
    other = broker.connect()
    await other.ask("Produce", 9, **producing({("t", 1): BATCH}))
    await settle()
    assert sizes(waiting.result()) == [0, len(BATCH)]
    assert not broker.parts.purgatory, "nothing is left of the wait"


@scenario(topics={"t": 1})
async def test_it_waits_for_min_bytes(broker: MemoryBroker) -> None:
    waiting = poll(broker.client, {("t", 0): 0}, min_bytes=len(BATCH) * 2 + 1)
    other = broker.connect()
    for _ in range(2):
        await other.ask("Produce", 9, **producing({("t", 0): BATCH}))
        await settle()
        assert not waiting.done()
    await other.ask("Produce", 9, **producing({("t", 0): BATCH}))
    await settle()
    assert sizes(waiting.result()) == [len(BATCH) * 3]


@scenario()
async def test_it_does_not_wait_for_more_than_its_segment_has(broker: MemoryBroker) -> None:
    """What was read would not become more. Apache Kafka: "fetching older segments"."""
    await broker.create("t", configs={"segment.bytes": str(MIB)})
    other = broker.connect()
    large = bytes(logs.batch([b"x" * 400_000]))
    waiting = poll(broker.client, {("t", 0): 0}, min_bytes=MIB)
    for _ in range(2):
        await other.ask("Produce", 9, **producing({("t", 0): large}))
        await settle()
        assert not waiting.done()
    await other.ask("Produce", 9, **producing({("t", 0): large}))
    await settle()
    assert sizes(waiting.result()) == [2 * len(large)]
    waiting = poll(broker.client, {("t", 0): 1}, min_bytes=MIB)
    await settle()
    assert sizes(waiting.result()) == [len(large)], "at once"
    waiting = poll(broker.client, {("t", 0): 2}, min_bytes=MIB, max_wait_ms=500)
    await settle()
    assert not waiting.done(), "the last segment may become longer"
    await broker.advance(500)
    assert sizes(waiting.result()) == [len(large)]


@scenario(topics={"t": 1})
async def test_when_time_is_up_it_gets_what_there_is(broker: MemoryBroker) -> None:
    waiting = poll(broker.client, {("t", 0): 0}, min_bytes=10_000, max_wait_ms=500)
    await broker.connect().ask("Produce", 9, **producing({("t", 0): BATCH}))
    await broker.advance(500)
    assert sizes(waiting.result()) == [len(BATCH)]


@scenario(topics={"t": 1})
async def test_bytes_of_all_partitions_count(broker: MemoryBroker) -> None:
    await broker.create("u")
    wanted: dict[tuple[str, int], int] = {("t", 0): 0, ("u", 0): 0}
    waiting = poll(broker.client, wanted, min_bytes=len(BATCH) + 1)
    other = broker.connect()
    await other.ask("Produce", 9, **producing({("t", 0): BATCH}))
    await settle()
    assert not waiting.done()
    await other.ask("Produce", 9, **producing({("u", 0): BATCH}))
    await settle()
    assert sizes(waiting.result()) == [len(BATCH)] * 2


@scenario(topics={"t": 1})
async def test_a_produce_of_the_same_turn_is_not_missed(broker: MemoryBroker) -> None:
    """Both requests reach their handlers before the fetch's task has had a turn."""
    writer = broker.connect()
    waiting = poll(broker.client, {("t", 0): 0})
    written = writer.send("Produce", 9, **producing({("t", 0): BATCH}))
    await settle()
    assert written.done()
    assert sizes(waiting.result()) == [len(BATCH)]


@scenario(topics={"t": 1})
async def test_uncommitted_records_do_not_end_the_wait(broker: MemoryBroker) -> None:
    broker.share((1, 2))
    waiting = poll(broker.client, {("t", 0): 0})
    await broker.connect().ask("Produce", 9, **producing({("t", 0): BATCH}, acks=1))
    await settle()
    assert not waiting.done()
    broker.share((1,))
    await settle()
    assert sizes(waiting.result()) == [len(BATCH)]


@pytest.mark.parametrize(
    ("offset", "values", "code"),
    [
        (99, {}, Code.OFFSET_OUT_OF_RANGE),
        (0, {"current_leader_epoch": 7}, Code.UNKNOWN_LEADER_EPOCH),
    ],
)
@scenario(topics={"t": 2})
async def test_an_error_of_reading_is_answered_at_once(
    broker: MemoryBroker, offset: int, values: dict[str, int], code: Code
) -> None:
    waiting = poll(broker.client, {("t", 0): 0, ("t", 1): offset}, **values)
    await settle()
    assert waiting.result().responses[0].partitions[1].error_code == code


@scenario(topics={"t": 1})
async def test_an_unknown_topic_does_not_hurry_the_others(broker: MemoryBroker) -> None:
    """Else a client would ask in a loop until its metadata are new."""
    wanted: dict[tuple[str, int], int] = {("gone", 0): 0, ("t", 0): 0, ("t", 5): 0}
    waiting = poll(broker.client, wanted, max_wait_ms=500)
    await broker.advance(499)
    assert not waiting.done()
    await broker.advance(1)
    codes = [one.error_code for topic in waiting.result().responses for one in topic.partitions]
    unknown = Code.UNKNOWN_TOPIC_OR_PARTITION
    assert codes == [Code.NONE, unknown, unknown], "what is not there comes last"

    waiting = poll(broker.client, {("gone", 0): 0, ("t", 5): 0})
    await settle()
    assert waiting.done(), "with nothing else to wait for there is no wait"


@scenario(topics={"t": 1, "u": 1})
async def test_a_deleted_topic_ends_the_wait(broker: MemoryBroker) -> None:
    waiting = poll(broker.client, {("u", 0): 0, ("t", 0): 0, ("gone", 0): 0})
    await settle()
    assert not waiting.done()
    await broker.connect().ask("DeleteTopics", 5, topic_names=["t"], timeout_ms=1000)
    await settle()
    codes = [one.error_code for topic in waiting.result().responses for one in topic.partitions]
    unknown = Code.UNKNOWN_TOPIC_OR_PARTITION
    assert codes == [Code.NONE, unknown, unknown]


@scenario(topics={"t": 1})
async def test_a_failed_log_ends_the_wait(broker: MemoryBroker) -> None:
    waiting = poll(broker.client, {("t", 0): 0})
    await settle()
    broker.fs.faults.append(Fault("pwrite", ".log"))
    await broker.connect().ask("Produce", 9, **producing({("t", 0): BATCH}))
    await settle()
    code = waiting.result().responses[0].partitions[0].error_code
    assert code == Code.KAFKA_STORAGE_ERROR


@scenario(topics={"t": 1})
async def test_who_hangs_up_waits_no_longer(broker: MemoryBroker) -> None:
    client = broker.connect()
    poll(client, {("t", 0): 0})
    await settle()
    assert len(broker.parts.purgatory) == 1
    client.close()
    await settle()
    assert len(broker.parts.purgatory) == 0
    assert "Fetch" not in broker.tasks.names


@scenario(topics={"t": 1})
async def test_requests_behind_a_long_poll_are_answered_after_it(broker: MemoryBroker) -> None:
    waiting = poll(broker.client, {("t", 0): 0}, max_wait_ms=500)
    behind = broker.client.send("Produce", 9, **producing({("t", 0): BATCH}))
    await settle()
    assert sizes(waiting.result()) == [len(BATCH)], "it is done at once, and ends the poll"
    assert behind.done()


# -- sessions (KIP-227) ---------------------------------------------------------------------


class Reader:
    """Fetches in a session; an answer becomes {(topic, partition): (error code, bytes)}."""

    def __init__(self, broker: MemoryBroker, version: int = 12) -> None:
        self.broker = broker
        self.version = version
        self.session_id = 0
        self.epoch = 0
        self.ids: dict[str, Any] = {}

    async def fetch(
        self,
        offsets: Mapping[tuple[str, int], int] | None = None,
        *,
        forget: Iterable[tuple[str, int]] = (),
        version: int | None = None,
        session_id: int | None = None,
        epoch: int | None = None,
    ) -> Any:
        """The answer to the session's next request."""
        asked = fetching(
            offsets or {},
            session_id=self.session_id if session_id is None else session_id,
            session_epoch=self.epoch if epoch is None else epoch,
            topic_ids=self.ids,
        )
        asked["forgotten_topics_data"] = [
            {"topic": topic, "topic_id": self.ids.get(topic), "partitions": [partition]}
            for topic, partition in forget
        ]
        answer = await self.broker.ask("Fetch", version or self.version, **asked)
        if answer.error_code == Code.NONE and epoch is None:
            self.session_id, self.epoch = answer.session_id, self.epoch + 1
        return answer

    async def news(self, *args: Any, **values: Any) -> dict[tuple[str, int], tuple[int, int]]:
        answer = await self.fetch(*args, **values)
        assert answer.error_code == Code.NONE, answer
        return {
            (topic.topic, one.partition_index): (one.error_code, len(one.records))
            for topic in answer.responses
            for one in topic.partitions
        }


@scenario(topics={"t": 3})
async def test_a_session_answers_what_is_new(broker: MemoryBroker) -> None:
    await broker.produce(BATCH)
    reader, size = Reader(broker), len(BATCH)
    full = await reader.news({("t", 0): 0, ("t", 1): 0, ("t", 2): 0})
    assert full == {("t", 0): (0, size), ("t", 1): (0, 0), ("t", 2): (0, 0)}
    assert reader.session_id > 0
    assert await reader.news() == {("t", 0): (0, size)}, "as long as the offset stays"
    assert await reader.news({("t", 0): 3}) == {}
    await broker.produce(BATCH, partition=2)
    assert await reader.news() == {("t", 2): (0, size)}
    assert await reader.news({("t", 2): 3}, forget=[("t", 1)]) == {}
    await broker.produce(BATCH, partition=1)
    await broker.produce(BATCH)
    assert await reader.news() == {("t", 0): (0, size)}, "the forgotten one is not named"


@scenario(topics={"t": 1})
async def test_errors_are_told_again_until_they_are_gone(broker: MemoryBroker) -> None:
    reader = Reader(broker)
    await reader.news({("t", 0): 0})
    out_of_range = {("t", 0): (Code.OFFSET_OUT_OF_RANGE, 0)}
    assert await reader.news({("t", 0): 99}) == out_of_range
    assert await reader.news() == out_of_range
    assert await reader.news({("t", 0): 0}) == {("t", 0): (0, 0)}, "that it is well again is news"
    assert await reader.news() == {}
    unknown = {("gone", 0): (Code.UNKNOWN_TOPIC_OR_PARTITION, 0)}
    for offsets in ({("gone", 0): 0}, None, None):
        assert await reader.news(offsets) == unknown


@scenario(topics={"t": 1})
async def test_a_session_that_does_not_fit(broker: MemoryBroker) -> None:
    reader = Reader(broker)
    await reader.fetch({("t", 0): 0})

    async def code(**values: Any) -> int:
        answer = await reader.fetch(**values)
        assert answer.responses == []
        found: int = answer.error_code
        return found

    assert await code(epoch=9) == Code.INVALID_FETCH_SESSION_EPOCH
    assert await code(session_id=reader.session_id + 1, epoch=1) == Code.FETCH_SESSION_ID_NOT_FOUND
    assert await code(session_id=0, epoch=1) == Code.FETCH_SESSION_ID_NOT_FOUND
    assert await code(version=13) == Code.FETCH_SESSION_TOPIC_ID_ERROR
    assert await reader.news() == {}, "the session itself goes on"


@scenario()
async def test_a_session_by_ids(broker: MemoryBroker) -> None:
    reader = Reader(broker, API.highest)
    reader.ids = {"t": await broker.create("t")}
    assert await reader.news({("t", 0): 0}) == {("", 0): (0, 0)}
    await broker.produce(BATCH)
    assert await reader.news() == {("", 0): (0, len(BATCH))}
    answer = await reader.fetch(version=12)
    assert answer.error_code == Code.FETCH_SESSION_TOPIC_ID_ERROR
    assert await reader.news(forget=[("t", 0)]) == {}


@scenario(topics={"t": 2})
async def test_the_end_of_a_session(broker: MemoryBroker) -> None:
    reader = Reader(broker)
    await reader.fetch({("t", 0): 0})
    first = reader.session_id
    answer = await reader.fetch({("t", 1): 0}, epoch=0)
    assert answer.session_id not in (0, first), "a full request in a session begins another"
    assert (await reader.fetch()).error_code == Code.FETCH_SESSION_ID_NOT_FOUND
    reader.session_id, reader.epoch = answer.session_id, 1
    await reader.fetch(epoch=-1)
    assert (await reader.fetch()).error_code == Code.FETCH_SESSION_ID_NOT_FOUND
    assert (await Reader(broker).fetch()).session_id == 0, "nothing to fetch, no session"


@scenario("max.incremental.fetch.session.cache.slots=2", topics={"t": 1})
async def test_sessions_are_few(broker: MemoryBroker) -> None:
    readers = [Reader(broker) for _ in range(3)]
    for reader in readers:
        await reader.fetch({("t", 0): 0})
    assert [reader.session_id > 0 for reader in readers] == [True, True, False]
    await broker.advance(120_001)
    await readers[1].fetch()
    late = Reader(broker)
    await late.fetch({("t", 0): 0})
    assert late.session_id > 0, "in the place of one that nobody used for two minutes"
    assert (await readers[0].fetch()).error_code == Code.FETCH_SESSION_ID_NOT_FOUND
    assert (await readers[1].fetch()).error_code == Code.NONE


@scenario(topics={"t": 1})
async def test_two_requests_in_one_session_at_a_time(broker: MemoryBroker) -> None:
    reader = Reader(broker)
    await reader.fetch({("t", 0): 0})
    one, two = broker.connect(), broker.connect()
    asked: dict[str, Any] = {"session_id": reader.session_id, "max_wait_ms": 500}
    waiting = one.send("Fetch", 12, **fetching({}, session_epoch=1, **asked))
    await settle()
    two.send("Fetch", 12, **fetching({}, session_epoch=2, **asked))
    await broker.advance(500)
    assert waiting.result().error_code == Code.INVALID_FETCH_SESSION_EPOCH


# -- the disk -------------------------------------------------------------------------------


@scenario(topics={"t": 2})
async def test_what_is_not_cached_is_read_beside_the_loop(broker: MemoryBroker) -> None:
    await broker.produce(BATCH)
    await broker.produce(BATCH, partition=1)
    broker.fs.cached = False
    broker.jobs.hold()
    waiting = broker.client.send("Fetch", 12, **fetching({("t", 0): 0, ("t", 1): 0}))
    await settle()
    assert not waiting.done()
    assert broker.jobs.held, "the read is a job"
    end = broker.connect().send("ListOffsets", 1, replica_id=-1, topics=[])
    await settle()
    assert end.done(), "others are served meanwhile"
    broker.jobs.release()
    await settle()
    for one in waiting.result().responses[0].partitions:
        assert [record.offset for record in parse(bytes(one.records))] == [0, 1, 2]


@pytest.mark.parametrize(("cached", "skip"), [(True, 0), (True, 1), (False, 0), (False, 1)])
@scenario("log.dirs=/data,/more", topics={"t": 2})
async def test_a_read_that_fails_is_its_directory_s_error(
    broker: MemoryBroker, caplog: pytest.LogCaptureFixture, cached: bool, skip: int
) -> None:
    await broker.produce(BATCH)
    await broker.produce(BATCH, partition=1)
    broker.fs.cached = cached
    # the first time when its place is looked for, the second time when it is read
    broker.fs.faults.append(Fault("pread", "t-0/00000000000000000000.log", skip=skip))
    answer = await broker.ask("Fetch", 12, **fetching({("t", 0): 0, ("t", 1): 0}))
    failed, well = answer.responses[0].partitions
    assert failed.error_code == Code.KAFKA_STORAGE_ERROR
    assert (failed.high_watermark, failed.log_start_offset, failed.records) == (-1, -1, b"")
    assert (well.error_code, len(well.records)) == (Code.NONE, len(BATCH))
    assert caplog.messages[0].startswith("can't read t-0")
    assert list(broker.parts.replicas.logs.failed_directories) == ["/data"]
    assert (await broker.fetch()).error_code == Code.KAFKA_STORAGE_ERROR
    assert len((await broker.fetch(partition=1)).records) == len(BATCH)


@scenario(topics={"t": 1})
async def test_a_long_poll_ends_with_a_cold_read(broker: MemoryBroker) -> None:
    broker.fs.cached = False
    waiting = poll(broker.client, {("t", 0): 0})
    await broker.connect().ask("Produce", 9, **producing({("t", 0): BATCH}))
    await settle()
    assert sizes(waiting.result()) == [len(BATCH)]


@scenario(topics={"t": 1})
async def test_answers_stay_as_they_are_until_a_slow_client_takes_them(
    broker: MemoryBroker,
) -> None:
    """Buffers are lent to the transport; nobody may write to them before it lets go."""
    wanted = []
    for number in range(6):
        value = bytes([number]) * 100_000
        await broker.produce(build([Written(value=value)]))
        wanted.append(value)
    slow = broker.connect()
    slow.transport.hold()
    asked = fetching({("t", 0): 0}, max_bytes=100_100)
    waiting = [slow.send("Fetch", 12, **asked)]
    for offset in range(1, 6):
        waiting.append(slow.send("Fetch", 12, **fetching({("t", 0): offset}, max_bytes=100_100)))
    await settle()
    for offset in range(6):
        assert len((await broker.fetch(offset, max_bytes=100_100)).records) > 100_000
    assert not waiting[0].done()
    slow.transport.release()
    await settle(100)
    got = [parse(bytes(one.result().responses[0].partitions[0].records)) for one in waiting]
    assert [records[0].value for records in got] == wanted
