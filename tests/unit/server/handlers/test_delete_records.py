"""DeleteRecords: where a log begins, what is refused, what readers find. See also the differential
cases, which compare with Apache Kafka 4.3.1."""

from __future__ import annotations

from collections.abc import Mapping

from kavka.compat_tests.raw.codec.batches import build
from kavka.server.handlers.delete_records import PARTITIONS_PER_STEP
from kavka.wire.errors import ErrorCode as Code
from support.memory_broker import MemoryBroker, fetching, scenario

Key = tuple[str, int]


async def delete(
    broker: MemoryBroker, offsets: Mapping[Key, int], *, version: int = 2
) -> dict[Key, tuple[int, Code]]:
    """Low watermark and code for each partition."""
    topics = [
        {"name": topic, "partitions": [{"partition_index": index, "offset": offset}]}
        for (topic, index), offset in offsets.items()
    ]
    answer = await broker.ask("DeleteRecords", version, topics=topics, timeout_ms=5000)
    return {
        (topic.name, partition.partition_index): (
            partition.low_watermark,
            Code(partition.error_code),
        )
        for topic in answer.topics
        for partition in topic.partitions
    }


async def delete_one(broker: MemoryBroker, offset: int) -> tuple[int, Code]:
    return (await delete(broker, {("t", 0): offset}))["t", 0]


@scenario(topics={"t": 1})
async def test_a_fetch_session_reports_the_new_start_once(broker: MemoryBroker) -> None:
    await broker.produce(build())
    first = await broker.ask("Fetch", 12, **fetching({("t", 0): 3}, session_epoch=0))
    await delete_one(broker, 2)
    request = fetching({}, session_id=first.session_id, session_epoch=1)
    (topic,) = (await broker.ask("Fetch", 12, **request)).responses
    assert topic.partitions[0].log_start_offset == 2
    request = fetching({}, session_id=first.session_id, session_epoch=2)
    assert (await broker.ask("Fetch", 12, **request)).responses == []


@scenario(topics={"t": 3 * PARTITIONS_PER_STEP})
async def test_many_partitions_do_not_block_other_connections(broker: MemoryBroker) -> None:
    count = 3 * PARTITIONS_PER_STEP
    other = broker.connect()
    asking = broker.tasks.spawn(
        delete(broker, {("t", index): 0 for index in range(count)}), name="asking"
    )
    await other.ask("ApiVersions", 0)
    answer = await asking
    assert answer == {("t", index): (0, Code.NONE) for index in range(count)}
