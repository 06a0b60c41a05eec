"""Fetch before version 4: batches are given as message sets, read here by kafka-python.

What Apache Kafka 3.9.2 answers is in the differential test.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import pytest
from kafka.record import MemoryRecords

from kavka.compat_tests.raw.codec.batches import (
    BASE_TIMESTAMP_MS,
    LOG_APPEND_TIME,
    Written,
    around,
    build,
)
from kavka.log.memfs import Fault
from kavka.server.replica.batch_opening import OPENED_AT_ONCE_MAX
from kavka.server.replica.fetch_reading import COPIED_BYTES_MAX
from kavka.server.request.context import RequestContext
from kavka.wire.apis.fetch import BATCHES_SINCE
from kavka.wire.control_records import Marker, end_marker
from kavka.wire.errors import ErrorCode as Code
from kavka.wire.frame import ARENA_BYTES, IN_USE_BYTES_MAX, Arena
from kavka.wire.record_batches import read_header
from support.memory_broker import MemoryBroker, fetching, scenario
from support.virtual import run_until_idle

OLD = range(BATCHES_SINCE)
TIMESTAMPS_SINCE = 2
LIMIT_OF_ALL_SINCE = 3
SHAPES = [Written(None, b"v", (("h", b"1"),)), Written(b"k", None, time_ms=5), Written(b"", b"")]
PACKED = [Written(b"k", bytes(300))] * 3


def read(answer: Any) -> list[tuple[int, int | None, bytes | None, bytes | None]]:
    found = []
    for batch in MemoryRecords(bytes(answer.records)):
        assert batch.validate_crc()
        found += [(record.offset, record.timestamp, record.key, record.value) for record in batch]
    return found


def offsets(answer: Any) -> list[int]:
    return [record[0] for record in read(answer)]


async def end_transaction(broker: MemoryBroker) -> None:
    """A transaction marker at the end of the log, as a coordinator writes them."""
    batch = end_marker(7, 0, Marker(True, 0, BASE_TIMESTAMP_MS))
    broker.replica().append(memoryview(batch), read_header(batch))


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
@pytest.mark.parametrize("version", OLD)
@scenario(topics={"t": 1})
async def test_every_version_gives_messages(broker: MemoryBroker, version: int, codec: str) -> None:
    for batch in (build(SHAPES, codec=codec), build(PACKED, codec=codec)):
        await broker.produce(batch)
    answer = await broker.fetch(version=version)
    assert (answer.error_code, answer.high_watermark) == (Code.NONE, 6)
    sets = list(MemoryRecords(bytes(answer.records)))
    assert {batch.magic for batch in sets} == {int(version >= TIMESTAMPS_SINCE)}
    times = [BASE_TIMESTAMP_MS + record.time_ms for record in (*SHAPES, *PACKED)]
    assert read(answer) == [
        (n, times[n] if version >= TIMESTAMPS_SINCE else None, record.key, record.value)
        for n, record in enumerate((*SHAPES, *PACKED))
    ]
    assert await broker.fetch(6, version=version) == type(answer)(
        partition_index=0, high_watermark=6, records=b""
    )


@scenario(topics={"t": 1})
async def test_log_append_time_is_in_the_messages(broker: MemoryBroker) -> None:
    await broker.create("by-log", configs={"message.timestamp.type": "LogAppendTime"})
    await broker.produce(build(PACKED, codec="gzip"), "by-log")
    [batch] = MemoryRecords(bytes((await broker.fetch(topic="by-log", version=3)).records))
    assert batch.timestamp_type == LOG_APPEND_TIME >> 3
    assert {record.timestamp for record in batch} == {broker.clock.now_ms()}


@scenario(topics={"t": 1})
async def test_a_topic_may_keep_old_consumers_out(broker: MemoryBroker) -> None:
    no_old = {"message.downconversion.enable": "false"}
    await broker.create("new", configs=no_old)
    await broker.create("zstd", configs={"compression.type": "zstd"})
    await broker.create("both", configs={"compression.type": "zstd", **no_old})
    for topic, code in (
        ("new", Code.UNSUPPORTED_VERSION),
        ("zstd", Code.UNSUPPORTED_COMPRESSION_TYPE),
        ("both", Code.UNSUPPORTED_COMPRESSION_TYPE),
    ):
        await broker.produce(build(), topic)
        for version in OLD:
            answer = await broker.fetch(topic=topic, version=version)
            assert (answer.error_code, answer.high_watermark) == (code, -1)
        assert (await broker.fetch(topic=topic, version=4)).error_code == Code.NONE


@scenario("log.message.downconversion.enable=false", topics={"t": 1})
async def test_so_may_a_broker(broker: MemoryBroker) -> None:
    assert (await broker.fetch(version=3)).error_code == Code.UNSUPPORTED_VERSION


@scenario(topics={"t": 1})
async def test_zstd_is_refused_once_it_is_next(broker: MemoryBroker) -> None:
    for codec in ("gzip", "zstd", "gzip"):
        await broker.produce(build(PACKED, codec=codec))
    assert offsets(await broker.fetch(version=3)) == [0, 1, 2]
    assert (await broker.fetch(3, version=3)).error_code == Code.UNSUPPORTED_COMPRESSION_TYPE
    assert offsets(await broker.fetch(6, version=3)) == [6, 7, 8]


# -- limits -----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", OLD)
@scenario(topics={"t": 3})
async def test_a_first_batch_is_whole_of_each_partition_or_of_the_request(
    broker: MemoryBroker, version: int
) -> None:
    for partition in range(3):
        for _ in range(2):
            await broker.produce(build(PACKED), partition=partition)
    request = fetching({("t", n): 0 for n in range(3)}, max_bytes=10, request_max_bytes=10)
    answer = await broker.ask("Fetch", version, **request)
    sizes = [len(read(response)) for response in answer.responses[0].partitions]
    assert sizes == ([3, 0, 0] if version >= LIMIT_OF_ALL_SINCE else [3, 3, 3])


@scenario(topics={"t": 1})
async def test_many_records_are_converted_in_slices_and_threads(broker: MemoryBroker) -> None:
    value = bytes(range(256)) * 4
    batch = build([Written(b"%d" % n, value) for n in range(2000)], codec="gzip")
    await broker.produce(batch)
    broker.jobs.done.clear()
    waiting = broker.client.send("Fetch", 3, **fetching({("t", 0): 0}))
    beside = broker.connect().send("Metadata", 12, topics=[])
    await run_until_idle()
    assert beside.done()
    found = read((await waiting).responses[0].partitions[0])
    assert [record[2] for record in found] == [b"%d" % n for n in range(2000)]
    assert [job for job in broker.jobs.done if "press" in job] == ["decompress", "compress"]


@pytest.mark.parametrize("mib, in_thread", [(1, False), (3, True)])
@scenario("message.max.bytes=10000000", topics={"t": 1})
async def test_big_batches_are_read_by_threads(
    broker: MemoryBroker, mib: int, in_thread: bool
) -> None:
    values = [bytes((n,)) * 1000 for n in range(250)] * 4 * mib
    await broker.produce(build([Written(value=value) for value in values]))
    broker.jobs.done.clear()
    found = read(await broker.fetch(version=3))
    assert [record[3] for record in found] == values
    assert any("read_into" in job for job in broker.jobs.done) == in_thread


@scenario("message.max.bytes=10000000", topics={"t": 1})
async def test_big_answers_are_put_together_in_slices(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is a turn for others after each megabyte, on the walk and when it is copied."""
    await broker.produce(build([Written(value=bytes(1 << 20))] * 4))
    turns: list[float] = []
    sleep = broker.tasks.sleep

    def noted(delay_s: float) -> Awaitable[None]:
        turns.append(delay_s)
        return sleep(delay_s)

    monkeypatch.setattr(broker.tasks, "sleep", noted)
    assert len(read(await broker.fetch(version=3))) == 4
    assert turns.count(0) >= 4 + 4


@scenario(topics={"t": 1})
async def test_only_so_many_are_made_at_once(broker: MemoryBroker) -> None:
    await broker.produce(build([Written(value=bytes(1 << 20))], codec="gzip"))
    broker.jobs.hold("decompress")
    waiting = [
        broker.connect().send("Fetch", 3, **fetching({("t", 0): 0}))
        for _ in range(OPENED_AT_ONCE_MAX + 3)
    ]
    await run_until_idle()
    assert len(broker.jobs.held) == OPENED_AT_ONCE_MAX
    broker.jobs.release()
    for answer in waiting:
        assert offsets((await answer).responses[0].partitions[0]) == [0]


@scenario(topics={"t": 1})
async def test_big_answers_lie_in_arenas(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There they count as memory in use, as long as no client reads them."""
    for _ in range(2):
        await broker.produce(build([Written(value=bytes(COPIED_BYTES_MAX))]))
    lent: list[Arena] = []
    lend = RequestContext.lend

    def noted(context: RequestContext, arena: Arena) -> None:
        lent.append(arena)
        lend(context, arena)

    monkeypatch.setattr(RequestContext, "lend", noted)
    assert offsets(await broker.fetch(1, version=3)) == [1]
    assert offsets(await broker.fetch(version=3)) == [0, 1]
    assert len(lent) == 2


# -- transaction markers ----------------------------------------------------------------------


@scenario(topics={"t": 1})
async def test_markers_are_left_out(broker: MemoryBroker) -> None:
    for _ in range(2):
        await end_transaction(broker)
        await broker.produce(build())
    for version in OLD:
        assert offsets(await broker.fetch(version=version)) == [1, 2, 3, 5, 6, 7]
        assert offsets(await broker.fetch(4, version=version)) == [5, 6, 7]


@scenario(topics={"t": 1})
async def test_a_fetch_at_a_marker_gets_what_comes_behind_many(broker: MemoryBroker) -> None:
    for _ in range(5):
        await end_transaction(broker)
    await broker.produce(build())
    answer = await broker.fetch(version=3, max_bytes=100)
    assert offsets(answer) == [5, 6, 7]


@scenario(topics={"t": 1})
async def test_a_fetch_at_the_last_marker_waits(broker: MemoryBroker) -> None:
    await end_transaction(broker)
    waiting = broker.client.send("Fetch", 3, **fetching({("t", 0): 0}, max_wait_ms=1000))
    await broker.advance(400)
    assert not waiting.done()
    await broker.connect().ask(
        "Produce",
        9,
        acks=-1,
        timeout_ms=1000,
        topic_data=[{"name": "t", "partition_data": [{"index": 0, "records": build()}]}],
    )
    await run_until_idle()
    assert offsets(waiting.result().responses[0].partitions[0]) == [1, 2, 3]


@pytest.mark.parametrize("max_wait_ms", [0, 1000])
@scenario(topics={"t": 1})
async def test_nothing_is_given_when_the_time_is_over(
    broker: MemoryBroker, max_wait_ms: int
) -> None:
    await end_transaction(broker)
    request = fetching({("t", 0): 0}, max_wait_ms=max_wait_ms)
    waiting = broker.client.send("Fetch", 3, **request)
    await broker.advance(max_wait_ms)
    [answer] = waiting.result().responses[0].partitions
    assert (answer.error_code, answer.high_watermark, answer.records) == (Code.NONE, 1, b"")


@scenario(topics={"t": 1})
async def test_a_marker_beside_records_does_not_hold_them_up(broker: MemoryBroker) -> None:
    await broker.create("other")
    await end_transaction(broker)
    await broker.produce(build(), "other")
    request = fetching({("t", 0): 0, ("other", 0): 0}, max_wait_ms=1000)
    answer = await broker.ask("Fetch", 3, **request)
    assert [offsets(topic.partitions[0]) for topic in answer.responses] == [[], [0, 1, 2]]


# -- damage -----------------------------------------------------------------------------------


@scenario(topics={"t": 2})
async def test_damaged_records_are_that_partition_s_error(
    broker: MemoryBroker, caplog: pytest.LogCaptureFixture
) -> None:
    await broker.produce(around(b"\x7f" * 9, count=1))
    await broker.produce(build(), partition=1)
    answer = await broker.ask("Fetch", 3, **fetching({("t", 0): 0, ("t", 1): 0}))
    damaged, well = answer.responses[0].partitions
    assert (damaged.error_code, damaged.high_watermark) == (Code.INVALID_RECORD, -1)
    assert offsets(well) == [0, 1, 2]
    assert any(line.startswith("can't down-convert records of t-0: ") for line in caplog.messages)


@pytest.mark.parametrize("version", OLD)
@scenario("log.dirs=/data,/more", topics={"t": 2})
async def test_a_log_that_cannot_be_read_seems_to_be_elsewhere(
    broker: MemoryBroker, version: int
) -> None:
    """Old clients do not know the code for a storage error."""
    await broker.produce(build())
    broker.fs.cached = False
    broker.fs.faults.append(Fault("pread", "t-0/00000000000000000000.log", skip=1))
    answer = await broker.fetch(version=version)
    assert (answer.error_code, answer.records) == (Code.NOT_LEADER_OR_FOLLOWER, b"")


@scenario(topics={"t": 1})
async def test_a_conversion_that_waited_is_limited_by_the_memory_left_then(
    broker: MemoryBroker,
) -> None:
    for _ in range(5):
        await broker.produce(build([Written(None, bytes(ARENA_BYTES // 2))]))
    opening, arenas = broker.parts.replicas.opener.slots, broker.parts.arenas
    for _ in range(OPENED_AT_ONCE_MAX):
        await opening.acquire()
    fetching_one = broker.client.send("Fetch", 3, **fetching({("t", 0): 0}))
    await broker.advance(10)
    arenas.allocated_bytes += IN_USE_BYTES_MAX
    for _ in range(OPENED_AT_ONCE_MAX):
        opening.release()
    await broker.advance(10)
    [answer] = (await fetching_one).responses[0].partitions
    assert 0 < len(answer.records) <= ARENA_BYTES
