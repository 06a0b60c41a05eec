"""DeleteRecords: where a log begins, what is refused, what readers find. See also the differential
cases, which compare with Apache Kafka 4.3.1."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kavka.log.memfs import Fault
from kavka.server.auth.authorizer import Operation
from kavka.server.handlers.delete_records import PARTITIONS_A_SLICE
from kavka.wire.apis.delete_records import API, HIGH_WATERMARK, UNKNOWN
from kavka.wire.errors import ErrorCode as Code
from support.batches import build
from support.denied import Denied
from support.memory_broker import DATA, MemoryBroker, fetching, scenario

VERSIONS = range(API.lowest, API.highest + 1)
STARTS = f"{DATA}/log-start-offset-checkpoint"

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
        (topic.name, one.partition_index): (one.low_watermark, Code(one.error_code))
        for topic in answer.topics
        for one in topic.partitions
    }


async def delete_one(broker: MemoryBroker, offset: int) -> tuple[int, Code]:
    return (await delete(broker, {("t", 0): offset}))["t", 0]


@pytest.mark.parametrize("version", VERSIONS)
@scenario(topics={"t": 1})
async def test_a_log_begins_where_it_is_told(broker: MemoryBroker, version: int) -> None:
    await broker.produce(build())
    await broker.produce(build())
    answer = await delete(broker, {("t", 0): 4}, version=version)
    assert answer == {("t", 0): (4, Code.NONE)}
    assert [one.offset for one in await broker.read_all()] == [4, 5]
    assert (await broker.list_offset(-2)).offset == 4


@scenario(topics={"t": 1})
async def test_it_goes_forward_only_and_to_the_high_watermark_at_most(
    broker: MemoryBroker,
) -> None:
    await broker.produce(build())
    assert await delete_one(broker, 2) == (2, Code.NONE)
    assert await delete_one(broker, 1) == (2, Code.NONE)
    assert await delete_one(broker, 4) == (UNKNOWN, Code.OFFSET_OUT_OF_RANGE)
    assert await delete_one(broker, -2) == (UNKNOWN, Code.OFFSET_OUT_OF_RANGE)
    assert await delete_one(broker, HIGH_WATERMARK) == (3, Code.NONE)
    await broker.produce(build())
    assert [one.offset for one in await broker.read_all()] == [3, 4, 5]


@scenario(topics={"t": 1})
async def test_what_is_not_committed_can_t_be_deleted(broker: MemoryBroker) -> None:
    await broker.produce(build())
    broker.share(isr=(1, 2))
    await broker.produce(build(), acks=1)
    assert await delete_one(broker, 4) == (UNKNOWN, Code.OFFSET_OUT_OF_RANGE)
    assert await delete_one(broker, HIGH_WATERMARK) == (3, Code.NONE)


@scenario(topics={"t": 1})
async def test_readers_below_are_told_that_they_are_out_of_range(broker: MemoryBroker) -> None:
    await broker.produce(build())
    await delete_one(broker, 2)
    for offset, code in ((0, Code.OFFSET_OUT_OF_RANGE), (1, Code.OFFSET_OUT_OF_RANGE), (2, 0)):
        found = await broker.fetch(offset)
        assert found.error_code == code
        bounds = (found.high_watermark, found.last_stable_offset, found.log_start_offset)
        assert bounds == ((-1, -1, -1) if code else (3, 3, 2))


@scenario(topics={"t": 1})
async def test_a_session_is_told_of_the_new_start(broker: MemoryBroker) -> None:
    await broker.produce(build())
    first = await broker.ask("Fetch", 12, **fetching({("t", 0): 3}, session_epoch=0))
    await delete_one(broker, 2)
    asked = fetching({}, session_id=first.session_id, session_epoch=1)
    (topic,) = (await broker.ask("Fetch", 12, **asked)).responses
    assert topic.partitions[0].log_start_offset == 2
    asked = fetching({}, session_id=first.session_id, session_epoch=2)
    assert (await broker.ask("Fetch", 12, **asked)).responses == []


@pytest.mark.parametrize(
    ("policy", "code"),
    [
        ("delete", Code.NONE),
        ("compact,delete", Code.NONE),
        ("", Code.NONE),
        ("compact", Code.POLICY_VIOLATION),
    ],
)
@scenario()
async def test_topics_that_are_compacted_alone_keep_theirs(
    broker: MemoryBroker, policy: str, code: Code
) -> None:
    await broker.create("t", configs={"cleanup.policy": policy})
    assert (await delete_one(broker, 0))[1] == code


@scenario(topics={"t": 2, "u": 1, "__consumer_offsets": 1})
async def test_each_partition_has_its_own_answer(broker: MemoryBroker) -> None:
    await broker.produce(build())
    asked = {("t", 0): 3, ("t", 1): 1, ("u", 0): 0, ("u", 1): 0, ("none", 0): 0}
    internal = {("__consumer_offsets", 0): 0, ("__consumer_offsets", 1): 0}
    assert await delete(broker, asked | internal) == {
        ("t", 0): (3, Code.NONE),
        ("t", 1): (UNKNOWN, Code.OFFSET_OUT_OF_RANGE),
        ("u", 0): (0, Code.NONE),
        ("u", 1): (UNKNOWN, Code.UNKNOWN_TOPIC_OR_PARTITION),
        ("none", 0): (UNKNOWN, Code.UNKNOWN_TOPIC_OR_PARTITION),
        ("__consumer_offsets", 0): (UNKNOWN, Code.INVALID_TOPIC_EXCEPTION),
        ("__consumer_offsets", 1): (UNKNOWN, Code.UNKNOWN_TOPIC_OR_PARTITION),
    }


@scenario(topics={"t": 1, "hidden": 1})
async def test_who_may_not_delete_is_refused(broker: MemoryBroker) -> None:
    broker.parts.authorizer = Denied((Operation.DELETE, "hidden"), (Operation.DELETE, "none"))
    assert await delete(broker, {("t", 0): 0, ("hidden", 0): 0, ("none", 0): 0}) == {
        ("t", 0): (0, Code.NONE),
        ("hidden", 0): (UNKNOWN, Code.TOPIC_AUTHORIZATION_FAILED),
        ("none", 0): (UNKNOWN, Code.TOPIC_AUTHORIZATION_FAILED),
    }


@scenario(topics={"t": 3 * PARTITIONS_A_SLICE})
async def test_many_partitions_leave_others_their_turn(broker: MemoryBroker) -> None:
    count = 3 * PARTITIONS_A_SLICE
    other = broker.connect()
    asking = broker.tasks.spawn(
        delete(broker, {("t", index): 0 for index in range(count)}), name="asking"
    )
    await other.ask("ApiVersions", 0)
    answer = await asking
    assert answer == {("t", index): (0, Code.NONE) for index in range(count)}


@pytest.mark.parametrize("life", ["restart", "kill"])
@scenario("log.flush.start.offset.checkpoint.interval.ms=1000", topics={"t": 1})
async def test_the_start_lasts(broker: MemoryBroker, life: str) -> None:
    await broker.produce(build())
    await delete_one(broker, 2)
    await broker.advance(1000)
    assert b"\nt 0 2\n" in broker.fs.read_bytes(STARTS)
    await getattr(broker, life)()
    assert (await broker.list_offset(-2)).offset == 2


@scenario(topics={"t": 1})
async def test_a_partition_whose_disk_has_failed_is_refused(broker: MemoryBroker) -> None:
    broker.fs.faults.append(Fault("pwrite", "00.log"))
    await broker.produce(build())
    assert broker.replica().offline
    assert await delete_one(broker, 0) == (UNKNOWN, Code.KAFKA_STORAGE_ERROR)
