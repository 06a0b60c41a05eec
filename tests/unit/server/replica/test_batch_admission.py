"""Batches that are decompressed before they are appended: what is stored.

Records are read back by kafka-python. What Apache Kafka 4.3.1 does with the same is asked by
tests/differential.
"""

from __future__ import annotations

import pytest

from kavka.compat_tests.raw.codec.batches import (
    BASE_TIMESTAMP_MS,
    CODECS,
    Written,
    build,
    field,
    patch,
    read,
)
from kavka.wire.errors import ErrorCode as Code
from support.config_requests import SET, TOPIC, change
from support.memory_broker import MemoryBroker, producing, scenario
from support.stored import LARGE, MANY, SMALL, bare, stored
from support.virtual import run_until_idle

KINDS = {"small": SMALL, "large": LARGE, "many": MANY}
HOUR_MS = 3_600_000


async def configure(broker: MemoryBroker, topic: str, **configs: str) -> None:
    changes = [(name.replace("_", "."), SET, value) for name, value in configs.items()]
    assert await change(broker, (TOPIC, topic, changes)) == [(Code.NONE, None)]


# -- another codec --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("codec", CODECS)
@scenario(topics={})
async def test_batches_are_stored_in_the_topic_s_compression_type(
    broker: MemoryBroker, codec: str, kind: str
) -> None:
    batch = build(KINDS[kind], codec=codec)
    if codec != "none":
        assert field(batch, "attributes"), "kafka-python has compressed it"
    for stored_codec, number in CODECS.items():
        compression_type = "uncompressed" if stored_codec == "none" else stored_codec
        await broker.create(stored_codec, configs={"compression.type": compression_type})
        assert (await broker.produce(batch, stored_codec)).error_code == Code.NONE
        [found] = await stored(broker, stored_codec)
        assert field(found, "attributes") == number
        assert bare(found) == bare(batch)


@pytest.mark.parametrize("kind", KINDS)
@scenario(topics={"t": 1})
async def test_a_batch_in_the_topic_s_codec_is_stored_unchanged(
    broker: MemoryBroker, kind: str
) -> None:
    await configure(broker, "t", compression_type="lz4")
    batch = build(KINDS[kind], codec="lz4")
    await broker.produce(batch)
    [found] = await stored(broker)
    assert found[16:] == batch[16:], "but for the offset and the leader's epoch"


@scenario(topics={})
async def test_compression_levels_are_used(broker: MemoryBroker) -> None:
    sizes = []
    for level in ("1", "9"):
        configs = {"compression.type": "gzip", "compression.gzip.level": level}
        await broker.create(f"t{level}", configs=configs)
        await broker.produce(build(LARGE), f"t{level}")
        sizes += [len(batch) for batch in await stored(broker, f"t{level}")]
    assert sizes[0] > sizes[1]


@scenario(topics={})
async def test_a_batch_that_is_too_large_after_recompression_is_refused(
    broker: MemoryBroker,
) -> None:
    batch = build([Written(value=b"x" * 1000)], codec="gzip")
    configs = {"compression.type": "uncompressed", "max.message.bytes": "500"}
    await broker.create("t", configs=configs)
    answer = await broker.produce(batch)
    assert (answer.error_code, answer.log_start_offset) == (Code.MESSAGE_TOO_LARGE, -1)
    assert broker.replica().traffic.bytes_rejected == len(batch), "what came, not what it grew to"
    assert await stored(broker) == []


@scenario(topics={})
async def test_received_and_converted_records_are_counted(broker: MemoryBroker) -> None:
    await broker.create("t", configs={"compression.type": "zstd"})
    batches = [build(LARGE), build(SMALL, codec="zstd"), build(SMALL)]
    for batch in batches:
        await broker.produce(batch)
    traffic = broker.replica().traffic
    assert traffic.bytes_in == sum(map(len, batches))
    assert traffic.converted == len(LARGE) + len(SMALL)
    assert traffic.messages_in == len(LARGE) + 2 * len(SMALL)


@pytest.mark.parametrize("size", [100, 100_000])
@scenario(topics={})
async def test_a_batch_that_cannot_be_decompressed_is_refused(
    broker: MemoryBroker, size: int
) -> None:
    await broker.create("t", configs={"compression.type": "uncompressed"})
    batch = build(LARGE, codec="zstd")
    damaged = batch[:]
    damaged[100 : min(100 + size, len(batch))] = bytes(min(size, len(batch) - 100))
    assert (await broker.produce(patch(damaged))).error_code == Code.UNKNOWN_SERVER_ERROR
    assert await stored(broker) == []
    assert (await broker.produce(batch)).error_code == Code.NONE, "others are taken"


# -- log append time -----------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("codec", ["none", "gzip"])
@scenario(topics={})
async def test_log_append_time_is_stored_and_in_the_response(
    broker: MemoryBroker, codec: str, kind: str
) -> None:
    await broker.create("t", configs={"message.timestamp.type": "LogAppendTime"})
    times_ms = []
    for _ in range(2):
        await broker.advance(1000)
        times_ms.append(broker.clock.now_ms())
        answer = await broker.produce(build(KINDS[kind], codec=codec))
        assert answer.log_append_time_ms == times_ms[-1]
    for batch, time_ms in zip(await stored(broker), times_ms, strict=True):
        found = read(batch)
        assert {(record.timestamp, record.timestamp_type) for record in found} == {(time_ms, 1)}
        assert [record.value for record in found] == [record.value for record in KINDS[kind]]
    newest = await broker.list_offset(-3)
    assert newest.timestamp == times_ms[-1], "the time index goes by it"


@scenario(topics={})
async def test_log_append_times_increase_with_the_offsets(broker: MemoryBroker) -> None:
    configs = {"message.timestamp.type": "LogAppendTime", "compression.type": "gzip"}
    await broker.create("t", configs=configs)
    broker.jobs.hold("compress")
    late = broker.client.send("Produce", 9, **producing({("t", 0): build(LARGE)}))
    await run_until_idle()
    await broker.advance(1000)
    other = broker.connect()
    early = await other.ask("Produce", 9, **producing({("t", 0): build(SMALL)}))
    await broker.advance(1000)
    broker.jobs.release()
    answers = [response.responses[0].partition_responses[0] for response in (early, await late)]
    assert [answer.base_offset for answer in answers] == [0, len(SMALL)]
    assert answers[0].log_append_time_ms < answers[1].log_append_time_ms


@scenario(topics={})
async def test_a_duplicate_batch_gets_its_own_log_append_time(broker: MemoryBroker) -> None:
    await broker.create("t", configs={"message.timestamp.type": "LogAppendTime"})
    batch = build(SMALL, producer=(4000, 0, 0))
    first = await broker.produce(batch)
    await broker.advance(5000)
    again = await broker.produce(batch)
    assert (again.base_offset, again.log_append_time_ms) == (0, first.log_append_time_ms)
    assert len(await stored(broker)) == 1


@scenario(topics={"t": 1})
async def test_by_default_records_keep_their_timestamps(broker: MemoryBroker) -> None:
    assert (await broker.produce(build(SMALL))).log_append_time_ms == -1
    [found] = await stored(broker)
    assert bare(found) == bare(build(SMALL))


# -- keys and times -------------------------------------------------------------------------


@pytest.mark.parametrize("count", [10, 5000])
@pytest.mark.parametrize("codec", ["none", "zstd"])
@scenario(topics={})
async def test_records_without_a_key_are_refused_by_index(
    broker: MemoryBroker, codec: str, count: int
) -> None:
    await broker.create("t", configs={"cleanup.policy": "compact"})
    records = [Written(b"k")] * count
    assert (await broker.produce(build(records, codec=codec))).error_code == Code.NONE
    records[7] = records[count - 1] = Written(None)
    answer = await broker.produce(build(records, codec=codec))
    assert answer.error_code == Code.INVALID_RECORD
    assert [error.batch_index for error in answer.record_errors] == [7, count - 1]
    assert (answer.base_offset, answer.log_start_offset) == (-1, 0)
    assert len(await stored(broker)) == 1, "all of a batch or nothing"
    assert broker.replica().traffic.keyless == 2


@scenario(topics={"t": 1})
async def test_older_versions_get_only_the_error_code(broker: MemoryBroker) -> None:
    await configure(broker, "t", cleanup_policy="compact")
    answer = await broker.produce(build([Written(None)]), version=7)
    assert answer.error_code == Code.INVALID_RECORD


@scenario(topics={"t": 1})
async def test_the_timestamp_bound_moves_with_the_clock(broker: MemoryBroker) -> None:
    ahead = build([Written(time_ms=HOUR_MS + 60_000)])
    for _ in range(3):  # the short way knows of the bound too
        assert (await broker.produce(build())).error_code == Code.NONE
        assert (await broker.produce(ahead)).error_code == Code.INVALID_TIMESTAMP
    await broker.advance(60_000)
    assert (await broker.produce(ahead)).error_code == Code.NONE


@scenario(topics={"t": 1})
async def test_a_wrong_max_timestamp_is_corrected(broker: MemoryBroker) -> None:
    batch = build(SMALL)
    await broker.produce(patch(batch, max_timestamp=BASE_TIMESTAMP_MS + 10 * HOUR_MS))
    [found] = await stored(broker)
    assert found[16:] == batch[16:], "else the segment would be kept for ten hours longer"


@scenario(topics={"t": 1})
async def test_old_records_are_refused_at_any_place(broker: MemoryBroker) -> None:
    await configure(broker, "t", message_timestamp_before_max_ms=str(HOUR_MS))
    for times, bad in (((0, 5), []), ((0, -HOUR_MS - 1, 1), [1]), ((-HOUR_MS,), [])):
        answer = await broker.produce(build([Written(time_ms=time_ms) for time_ms in times]))
        assert [error.batch_index for error in answer.record_errors] == bad


@scenario(topics={"t": 1})
async def test_changed_configs_apply_from_the_next_batch(broker: MemoryBroker) -> None:
    for _ in range(3):  # the later ones go the short way
        await broker.produce(build())
    await configure(broker, "t", cleanup_policy="compact")
    assert (await broker.produce(build())).error_code == Code.INVALID_RECORD
    await configure(broker, "t", cleanup_policy="delete", compression_type="gzip")
    assert (await broker.produce(build(SMALL))).error_code == Code.NONE
    await configure(broker, "t", compression_type="producer")
    for _ in range(3):
        assert (await broker.produce(build(SMALL))).error_code == Code.NONE
    codecs = [field(batch, "attributes") for batch in await stored(broker)]
    assert codecs == [0, 0, 0, 1, 0, 0, 0]
