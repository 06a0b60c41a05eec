"""ListOffsets version 0: offsets where segments begin, by when their files were last written.

The differential test asks Apache Kafka 3.9.2 the same, but for times between segments.
"""

from __future__ import annotations

from typing import Any

import pytest

from kavka.server.auth.authorizer import Operation
from kavka.wire.errors import ErrorCode as Code
from support.batches import Written, build
from support.denied import Denied
from support.memory_broker import MemoryBroker, scenario

LATEST, EARLIEST = -1, -2
STEP_MS = 1000


async def ask(
    broker: MemoryBroker,
    timestamp: int,
    limit: int = 100,
    *,
    topic: str = "t",
    partition: int = 0,
    replica_id: int = -1,
) -> Any:
    asked = {"partition_index": partition, "timestamp": timestamp, "max_num_offsets": limit}
    topics = [{"name": topic, "partitions": [asked]}]
    answer = await broker.ask("ListOffsets", 0, replica_id=replica_id, topics=topics)
    return answer.topics[0].partitions[0]


async def found(broker: MemoryBroker, timestamp: int, limit: int = 100, **more: Any) -> list[int]:
    answer = await ask(broker, timestamp, limit, **more)
    assert answer.error_code == Code.NONE
    return list(answer.old_style_offsets)


async def fill(broker: MemoryBroker) -> list[int]:
    """Four segments of a record each, a second apart; when each was written."""
    await broker.create("t", configs={"internal.segment.bytes": "500"})
    times = []
    for _ in range(4):
        times.append(broker.clock.now_ms())
        await broker.produce(build([Written(value=bytes(300))]))
        await broker.advance(STEP_MS)
    assert broker.replica().log.segment_count == 4
    return times


@scenario()
async def test_the_first_and_the_last(broker: MemoryBroker) -> None:
    await fill(broker)
    assert await found(broker, LATEST) == [4, 3, 2, 1, 0]
    assert await found(broker, LATEST, 1) == [4]
    assert await found(broker, LATEST, 3) == [4, 3, 2]
    assert await found(broker, EARLIEST) == [0]
    for special in (LATEST, EARLIEST):
        assert await found(broker, special, 0) == []


@scenario()
async def test_by_the_time_that_files_were_written(broker: MemoryBroker) -> None:
    times = await fill(broker)
    for number, time_ms in enumerate(times):
        wanted = list(range(number, -1, -1))
        assert await found(broker, time_ms) == wanted
        assert await found(broker, time_ms + STEP_MS - 1) == wanted
        assert await found(broker, time_ms, 2) == wanted[:2]
    assert await found(broker, times[0] - 1) == []
    assert await found(broker, broker.clock.now_ms()) == [4, 3, 2, 1, 0]
    assert await found(broker, 2**63 - 1) == [4, 3, 2, 1, 0]


@scenario(topics={"t": 1})
async def test_an_empty_log_ends_where_it_begins(broker: MemoryBroker) -> None:
    for timestamp in (LATEST, EARLIEST, 2**62):
        assert await found(broker, timestamp) == [0]


@scenario()
async def test_nothing_is_told_from_before_the_start(broker: MemoryBroker) -> None:
    """A segment that begins before it is there until it is deleted."""
    await fill(broker)
    broker.replica().log.advance_start(1)
    assert await found(broker, LATEST) == [4, 3, 2, 1, 1]
    assert await found(broker, EARLIEST) == [1]


@scenario()
async def test_consumers_see_no_further_than_the_high_watermark(broker: MemoryBroker) -> None:
    await fill(broker)
    broker.share((1, 2))
    await broker.produce(build([Written(value=bytes(300))]), acks=1)
    assert await found(broker, LATEST) == [4, 4, 3, 2, 1, 0]
    assert await found(broker, LATEST, 1) == [4]
    assert await found(broker, LATEST, replica_id=2) == [5, 4, 3, 2, 1, 0]


@scenario(topics={"t": 1})
async def test_what_is_refused(broker: MemoryBroker) -> None:
    assert (await ask(broker, -3)).error_code == Code.UNSUPPORTED_VERSION
    assert (await ask(broker, LATEST, -1)).error_code == Code.UNKNOWN_SERVER_ERROR
    absent = await ask(broker, LATEST, partition=7)
    assert (absent.error_code, absent.old_style_offsets) == (Code.UNKNOWN_TOPIC_OR_PARTITION, [])
    broker.parts.authorizer = Denied(Operation.DESCRIBE)
    assert (await ask(broker, LATEST)).error_code == Code.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.parametrize("twice", [LATEST, EARLIEST])
@scenario(topics={"t": 1})
async def test_what_is_named_twice_is_answered_twice(broker: MemoryBroker, twice: int) -> None:
    asked = {"partition_index": 0, "timestamp": twice, "max_num_offsets": 1}
    topics = [{"name": "t", "partitions": [asked, asked]}]
    answer = await broker.ask("ListOffsets", 0, replica_id=-1, topics=topics)
    assert [one.old_style_offsets for one in answer.topics[0].partitions] == [[0], [0]]
