"""ListOffsets: the answers of Apache Kafka 4.3.1 to the same requests about the same records."""

from __future__ import annotations

from typing import Any

import pytest

from kavka.compat_tests.raw.codec.batches import CODECS, Written, around, build
from kavka.log.memfs import Fault
from kavka.wire.apis.list_offsets import API
from kavka.wire.errors import ErrorCode as Code
from support.memory_broker import MemoryBroker, scenario
from support.virtual import run_until_idle

VERSIONS = range(1, API.highest + 1)
"""Version 0 gives a list of offsets: see test_list_offsets_of_old.py."""

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = range(-1, -7, -1)
BASE_MS = 1_700_000_000_000
NOTHING = (-1, -1, -1)


def found(answer: Any) -> tuple[int, int, int]:
    """(timestamp, offset, leader epoch) of an answer without error."""
    assert answer.error_code == Code.NONE, answer
    return answer.timestamp, answer.offset, answer.leader_epoch


async def write(broker: MemoryBroker, *times_ms: int, codec: str = "none") -> None:
    batch = build([Written(time_ms=time_ms) for time_ms in times_ms], codec=codec)
    assert (await broker.produce(batch)).error_code == Code.NONE


async def write_in_every_codec(broker: MemoryBroker) -> None:
    """Offsets 0 to 19, a batch of four a codec: times 0 10 20 30, 100 110 120 130, ..., 430."""
    for number, codec in enumerate(CODECS):
        await write(broker, *range(100 * number, 100 * number + 40, 10), codec=codec)


# -- by time --------------------------------------------------------------------------------


@scenario(topics={"t": 1})
async def test_by_time_across_batches_and_codecs(broker: MemoryBroker) -> None:
    await write_in_every_codec(broker)
    times = [100 * batch + 10 * record for batch in range(len(CODECS)) for record in range(4)]
    for since in (0, 1, 10, 25, 30, 31, 99, 100, 101, 130, 131, 225, 300, 330, 400, 405, 429, 430):
        offset = next(n for n, time_ms in enumerate(times) if time_ms >= since)
        answer = found(await broker.list_offset(BASE_MS + since))
        assert answer == (BASE_MS + times[offset], offset, 0)
    assert found(await broker.list_offset(0)) == (BASE_MS, 0, 0)
    for later in (BASE_MS + 431, 2**62, 2**63 - 1):
        assert found(await broker.list_offset(later)) == NOTHING


@scenario(topics={"t": 1})
async def test_by_time_over_many_batches_and_after_a_restart(broker: MemoryBroker) -> None:
    for number in range(0, 300, 3):
        await write(broker, number, number + 1, number + 2)
    for _ in range(2):
        for since in (0, 1, 77, 150, 298, 299):
            answer = await broker.list_offset(BASE_MS + since)
            assert (answer.timestamp, answer.offset) == (BASE_MS + since, since)
        await broker.kill()


@scenario(topics={"t": 1})
async def test_a_batch_that_cannot_be_inflated_is_that_partition_s_error(
    broker: MemoryBroker,
) -> None:
    await broker.produce(around(b"no gzip at all", count=3, attributes=1))
    answer = await broker.list_offset(0)
    assert answer.error_code == Code.CORRUPT_MESSAGE
    assert (answer.timestamp, answer.offset) == (-1, -1)


# -- refusals -------------------------------------------------------------------------------


def requested_topic(topic: str, *partitions: tuple[int, int]) -> dict[str, Any]:
    """(partition, timestamp) of one topic."""
    requested = [{"partition_index": index, "timestamp": ts} for index, ts in partitions]
    return {"name": topic, "partitions": requested}


# -- the disk -------------------------------------------------------------------------------


@scenario(topics={"t": 2})
async def test_cold_batches_are_read_beside_the_loop(broker: MemoryBroker) -> None:
    await write_in_every_codec(broker)
    broker.fs.cached = False
    broker.jobs.hold()
    topics = [requested_topic("t", (1, LATEST), (0, BASE_MS + 110))]
    waiting = broker.client.send("ListOffsets", 7, replica_id=-1, topics=topics)
    await run_until_idle()
    assert not waiting.done() and broker.jobs.held
    broker.jobs.release()
    await run_until_idle()
    latest, by_time = waiting.result().topics[0].partitions
    assert found(latest) == (-1, 0, 0)
    assert found(by_time) == (BASE_MS + 110, 5, 0)


@pytest.mark.parametrize("skip", range(4))
@scenario("log.dirs=/data,/more", topics={"t": 1, "u": 1})
async def test_a_log_that_cannot_be_read_takes_its_directory_offline(
    broker: MemoryBroker, caplog: pytest.LogCaptureFixture, skip: int
) -> None:
    """Wherever in the search the disk fails; what is in another directory is served on."""
    for time_ms in range(3):
        await write(broker, time_ms)
    broker.fs.cached = False
    broker.fs.faults.append(Fault("pread", "t-0/00000000000000000000.log", skip=skip))
    topics = [requested_topic("t", (0, BASE_MS + 2)), requested_topic("u", (0, BASE_MS))]
    answer = await broker.ask("ListOffsets", 7, replica_id=-1, topics=topics)
    failed, well = (topic.partitions[0] for topic in answer.topics)
    assert found(well) == NOTHING
    if broker.fs.faults[0].times:
        assert found(failed) == (BASE_MS + 2, 2, 0), "the search was over before"
    else:
        assert failed.error_code == Code.KAFKA_STORAGE_ERROR
        assert any("can't read t-0" in line for line in caplog.messages)
        assert list(broker.parts.replicas.logs.failed_directories) == ["/data"]


@pytest.mark.parametrize("version", VERSIONS)
@scenario(topics={"t": 1})
async def test_a_new_leader_that_catches_up_is_asked_again(
    broker: MemoryBroker, version: int
) -> None:
    await write(broker, 0, 10)
    replica = broker.parts.replicas.leader("t", 0)
    replica.partition.high_watermark, replica.partition.epoch_start = 1, 2
    known = Code.OFFSET_NOT_AVAILABLE if version >= 5 else Code.LEADER_NOT_AVAILABLE
    for timestamp in (LATEST, BASE_MS + 10):
        answer = await broker.list_offset(timestamp, version=version)
        assert answer.error_code == known
