"""Fetch over time: long polls, sessions (KIP-227), and reads that the disk must answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from kavka.compat_tests.raw.codec.batches import Written, build
from kavka.log.memfs import Fault
from kavka.server.connections.in_flight import FETCHES_IN_FLIGHT_MAX
from kavka.wire.errors import ErrorCode as Code
from support import logs
from support.logs import parse
from support.memory_broker import Client, MemoryBroker, fetching, producing, scenario
from support.virtual import run_until_idle

BATCH = bytes(build())
LONG_MS = 30_000
MIB = 1 << 20


def poll(
    client: Client, offsets: Mapping[tuple[str, int], int], **values: Any
) -> asyncio.Future[Any]:
    """A fetch that may wait half a minute."""
    return client.send("Fetch", 12, **fetching(offsets, **({"max_wait_ms": LONG_MS} | values)))


def sizes(answer: Any) -> list[int]:
    return [len(partition.records) for topic in answer.responses for partition in topic.partitions]


# -- long polls -----------------------------------------------------------------------------


@pytest.mark.parametrize("min_bytes", [1000, 949, 1001])
@pytest.mark.parametrize(
    ("of_partition", "of_request"), [(1000, 100_000), (100_000, 1000), (1000, 1000)]
)
@scenario()
async def test_what_the_limits_leave_of_more_is_enough(
    broker: MemoryBroker, min_bytes: int, of_partition: int, of_request: int
) -> None:
    """The answer has whole batches only, and so fewer bytes than the limit. What counts is what
    there is: Apache Kafka answers these at once if the limit allows `min_bytes`, or is that of the
    request."""
    await broker.create("t", configs={"index.interval.bytes": "0"})
    small = bytes(build([Written(value=b"x" * 50)]))
    for _ in range(20):
        await broker.ask("Produce", 9, **producing({("t", 0): small}))
    limits = {"max_bytes": of_partition, "request_max_bytes": of_request}
    waiting = poll(broker.client, {("t", 0): 0}, min_bytes=min_bytes, **limits)
    await run_until_idle()
    if min_bytes > 1000 and of_request > 1000:
        assert not waiting.done(), "the partition's limit does not allow that much"
        await broker.advance(LONG_MS)
    (size,) = sizes(waiting.result())
    assert size < 1000 and size % len(small) == 0


@scenario()
async def test_it_does_not_wait_for_more_than_its_segment_has(broker: MemoryBroker) -> None:
    """What was read would not become more. Apache Kafka: "fetching older segments"."""
    await broker.create("t", configs={"segment.bytes": str(MIB)})
    other = broker.connect()
    large = bytes(logs.batch([b"x" * 400_000]))
    waiting = poll(broker.client, {("t", 0): 0}, min_bytes=MIB)
    for _ in range(2):
        await other.ask("Produce", 9, **producing({("t", 0): large}))
        await run_until_idle()
        assert not waiting.done()
    await other.ask("Produce", 9, **producing({("t", 0): large}))
    await run_until_idle()
    assert sizes(waiting.result()) == [2 * len(large)]
    waiting = poll(broker.client, {("t", 0): 1}, min_bytes=MIB)
    await run_until_idle()
    assert sizes(waiting.result()) == [len(large)], "at once"
    waiting = poll(broker.client, {("t", 0): 2}, min_bytes=MIB, max_wait_ms=500)
    await run_until_idle()
    assert not waiting.done(), "the last segment may become longer"
    await broker.advance(500)
    assert sizes(waiting.result()) == [len(large)]


@scenario(topics={"t": 1})
async def test_a_produce_in_the_same_iteration_is_not_missed(broker: MemoryBroker) -> None:
    """Both requests reach their handlers before the fetch's task has had a turn."""
    writer = broker.connect()
    waiting = poll(broker.client, {("t", 0): 0})
    written = writer.send("Produce", 9, **producing({("t", 0): BATCH}))
    await run_until_idle()
    assert written.done()
    assert sizes(waiting.result()) == [len(BATCH)]


@scenario(topics={"t": 1})
async def test_requests_behind_a_long_poll_are_answered_after_it(broker: MemoryBroker) -> None:
    waiting = poll(broker.client, {("t", 0): 0}, max_wait_ms=500)
    behind = broker.client.send("Produce", 9, **producing({("t", 0): BATCH}))
    await run_until_idle()
    assert sizes(waiting.result()) == [len(BATCH)], "it is done at once, and ends the poll"
    assert behind.done()


@scenario(topics={"t": 2})
async def test_a_session_of_which_nobody_has_heard_ends_with_its_connection(
    broker: MemoryBroker,
) -> None:
    """As for a follower that gets one partition after the other to fetch, and does not wait."""
    offsets = {("t", 0): 0, ("t", 1): 0}
    known = await broker.ask("Fetch", 12, **fetching(offsets, session_epoch=0))
    for _ in range(3):
        hasty = broker.connect()
        poll(hasty, offsets, session_epoch=0)
        await run_until_idle()
        assert len(broker.parts.sessions) == 2
        hasty.close()
        await run_until_idle()
        assert [kept.id for kept in broker.parts.sessions] == [known.session_id]
    session = {"session_id": known.session_id, "session_epoch": 1}
    hasty = broker.connect()
    poll(hasty, {}, **session)
    await run_until_idle()
    hasty.close()
    await run_until_idle()
    assert len(broker.parts.sessions) == 1, "its reader may come back on another connection"


# -- the disk -------------------------------------------------------------------------------


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
async def test_answers_stay_as_they_are_until_a_slow_client_takes_them(
    broker: MemoryBroker,
) -> None:
    """Buffers are lent to the transport; nothing may write to them before it lets go."""
    values = []
    for number in range(6):
        value = bytes([number]) * 100_000
        await broker.produce(build([Written(value=value)]))
        values.append(value)
    slow = broker.connect()
    slow.transport.hold()
    request = fetching({("t", 0): 0}, max_bytes=100_100)
    waiting = [slow.send("Fetch", 12, **request)]
    for offset in range(1, 6):
        waiting.append(slow.send("Fetch", 12, **fetching({("t", 0): offset}, max_bytes=100_100)))
    await run_until_idle()
    for offset in range(6):
        assert len((await broker.fetch(offset, max_bytes=100_100)).records) > 100_000
    assert not waiting[0].done()
    slow.transport.release()
    await run_until_idle(100)
    got = [parse(bytes(answer.result().responses[0].partitions[0].records)) for answer in waiting]
    assert [records[0].value for records in got] == values


@scenario(topics={"t": 1})
async def test_a_sent_response_is_not_viewed_when_the_next_fetch_is_read(
    broker: MemoryBroker,
) -> None:
    """The third one is read when the first is answered, into the same arena."""
    connection = broker.connect()
    values = fetching({("t", 0): 0}, max_wait_ms=10_000)
    fetches = [connection.send("Fetch", 11, **values) for _ in range(FETCHES_IN_FLIGHT_MAX + 2)]
    await run_until_idle()
    assert not any(fetch.done() for fetch in fetches)
    await broker.produce(build([Written(value=bytes(200_000))]))
    await run_until_idle(100)
    answers = [(await fetch).responses[0].partitions[0] for fetch in fetches]
    assert [(answer.error_code, len(answer.records) > 200_000) for answer in answers] == [
        (Code.NONE, True)
    ] * len(fetches)
