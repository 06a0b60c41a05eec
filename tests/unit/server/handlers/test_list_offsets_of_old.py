"""ListOffsets version 0: offsets where segments begin, by when their files were last written.

The differential test asks Apache Kafka 3.9.2 the same, but for times between segments.
"""

from __future__ import annotations

from typing import Any

from kavka.compat_tests.raw.codec.batches import Written, build
from kavka.wire.errors import ErrorCode as Code
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
    requested = {"partition_index": partition, "timestamp": timestamp, "max_num_offsets": limit}
    topics = [{"name": topic, "partitions": [requested]}]
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
async def test_no_offset_before_the_log_start_is_listed(broker: MemoryBroker) -> None:
    """A segment that begins before it is there until it is deleted."""
    await fill(broker)
    broker.replica().log.advance_start(1)
    assert await found(broker, LATEST) == [4, 3, 2, 1, 1]
    assert await found(broker, EARLIEST) == [1]
