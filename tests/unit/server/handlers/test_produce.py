"""Produce, asked over a connection; what is appended is read back and judged by kafka-python.

Codes and the order of checks were taken from Apache Kafka 4.3.1's answers to the same requests.
"""

from __future__ import annotations

import errno
import logging

import pytest

from kavka.compat_tests.raw.codec.batches import CODECS, REFUSED, Written, build
from kavka.log.memfs import Fault
from kavka.server.handlers import produce
from kavka.server.runtime.rate_limited_logger import LINES_MAX
from kavka.wire.errors import ErrorCode as Code
from support.logs import Read
from support.memory_broker import MemoryBroker, producing, scenario
from support.pauses import pauses_of
from support.virtual import run_until_idle

TIME_MS = 1_700_000_000_000


def sized(size: int) -> bytearray:
    """A batch of exactly so many bytes."""
    short = build([Written(value=b"")])
    for padding in range(size - len(short), size - len(short) - 8, -1):
        batch = build([Written(value=b"x" * padding)])
        if len(batch) == size:
            return batch
    raise AssertionError(f"no batch has {size} bytes")


# -- what is appended -----------------------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS)
@scenario(topics={"t": 1})
async def test_what_every_codec_packs_is_kept_as_it_is(broker: MemoryBroker, codec: str) -> None:
    records = [Written(value=b"%d" % number * 100, time_ms=number) for number in range(50)]
    answer = await broker.produce(build(records, codec=codec))
    assert answer.error_code == Code.NONE
    expected = [Read(n, TIME_MS + record.time_ms, record.value) for n, record in enumerate(records)]
    assert await broker.read_all() == expected


@scenario(topics={"t": 1})
async def test_acks_0_appends_and_answers_nothing(broker: MemoryBroker) -> None:
    client = broker.client
    client.tell("Produce", 9, **producing({("t", 0): build()}, acks=0))
    end = await broker.list_offset(-1)
    assert end.offset == 3, "and this is the answer to ListOffsets"
    assert not client.frames


@pytest.mark.parametrize("acks", [-1, 0, 1])
def test_many_batches_are_appended_in_steps(acks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(produce, "BATCHES_PER_STEP", 2)
    places = [("t", 0), ("t", 1), ("gone", 0), ("t", 2), ("u", 0), ("u", 1), ("u", 2)]

    @scenario(topics={"t": 3, "u": 3})
    async def story(broker: MemoryBroker) -> None:
        pauses = pauses_of(broker)
        received = [place for place in places if acks or place[0] != "gone"]
        request = producing({place: build() for place in received}, acks=acks)
        first = broker.client.send("Produce", 9, **request) if acks else None
        if first is None:
            broker.client.tell("Produce", 9, **request)
        behind = broker.client.send("Produce", 9, **producing({("u", 2): build([Written()])}))
        ((after,),) = [topic.partition_responses for topic in (await behind).responses]
        assert after.base_offset == 3, "what comes behind does not overtake"
        assert pauses == [0, 0, 0][: (len(received) - 1) // 2]
        if first is not None:
            found = {
                (topic.name, partition.index): (partition.error_code, partition.base_offset)
                for topic in first.result().responses
                for partition in topic.partition_responses
            }
            unknown = (Code.UNKNOWN_TOPIC_OR_PARTITION, -1)
            assert found == {place: (Code.NONE, 0) for place in received} | {("gone", 0): unknown}
        for place in received:
            if place[0] != "gone":
                assert len(await broker.read_all(*place)) == 3 + (place == ("u", 2))

    story()


# -- what is refused ------------------------------------------------------------------------


@pytest.mark.parametrize("fault", REFUSED)
@scenario(topics={"t": 1})
async def test_batches_that_are_refused(broker: MemoryBroker, fault: str) -> None:
    batch, code = REFUSED[fault]
    answer = await broker.produce(batch)
    assert answer.error_code == Code[code]
    assert answer.base_offset == -1
    assert (await broker.list_offset(-1)).offset == 0, "nothing is appended"


@scenario(topics={"t": 1})
async def test_refusals_do_not_fill_the_log(
    broker: MemoryBroker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kavka.server.replica.manager")
    batch, _ = REFUSED["a control batch"]
    for _ in range(LINES_MAX + 5):
        await broker.produce(batch)
    assert len(caplog.messages) == LINES_MAX
    assert "refused a batch of " in caplog.text and " for t-0: INVALID_RECORD" in caplog.text


@scenario()
async def test_max_message_bytes_is_the_size_of_a_whole_batch(broker: MemoryBroker) -> None:
    await broker.create("t", configs={"max.message.bytes": "300"})
    assert (await broker.produce(sized(300))).error_code == Code.NONE
    assert (await broker.produce(sized(301))).error_code == Code.MESSAGE_TOO_LARGE
    broken = sized(301)
    broken[-1] ^= 1
    assert (await broker.produce(broken)).error_code == Code.MESSAGE_TOO_LARGE, "asked before CRC"


@scenario()
async def test_a_batch_has_to_fit_into_a_segment(broker: MemoryBroker) -> None:
    limits = {"segment.bytes": str(1 << 20), "max.message.bytes": str(1 << 22)}
    await broker.create("t", configs=limits)
    assert (await broker.produce(sized(1 << 20))).error_code == Code.NONE
    assert (await broker.produce(sized((1 << 20) + 1))).error_code == Code.RECORD_LIST_TOO_LARGE


# -- replicas in sync -----------------------------------------------------------------------


@scenario(topics={"t": 1})
async def test_a_copy_of_what_is_not_committed_waits_as_well(broker: MemoryBroker) -> None:
    broker.share((1, 2))
    request = producing({("t", 0): build(producer=(5, 0, 0))}, timeout_ms=1000)
    first, again = (broker.client.send("Produce", 9, **request) for _ in range(2))
    await broker.advance(999)
    assert not again.done()
    broker.share((1,))
    await run_until_idle()
    for answer in (first.result(), again.result()):
        partition = answer.responses[0].partition_responses[0]
        assert (partition.error_code, partition.base_offset) == (Code.NONE, 0)


# -- the disk -------------------------------------------------------------------------------


@scenario()
async def test_one_fsync_serves_all_waiting_requests(broker: MemoryBroker) -> None:
    await broker.create("t", configs={"flush.messages": "1"})
    broker.jobs.hold()
    clients = [broker.connect() for _ in range(10)]
    waiting = [clients[0].send("Produce", 9, **producing({("t", 0): build()}))]
    await run_until_idle()
    waiting += [
        client.send("Produce", 9, **producing({("t", 0): build()})) for client in clients[1:]
    ]
    await run_until_idle()
    broker.jobs.done.clear()
    broker.jobs.release()
    await run_until_idle()
    assert all(answer.done() for answer in waiting)
    assert broker.jobs.done == ["FlushPlan.run"] * 2, "one for the first, one for all the others"


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
@scenario("log.dirs=/data,/more", topics={"t": 2})
async def test_a_log_that_cannot_be_written_goes_offline(
    broker: MemoryBroker, error: int, caplog: pytest.LogCaptureFixture
) -> None:
    assert (await broker.produce(build())).error_code == Code.NONE
    broker.fs.faults.append(Fault("pwrite", "t-0/00000000000000000000.log", error))
    answer = await broker.produce(build())
    assert (answer.error_code, answer.base_offset) == (Code.KAFKA_STORAGE_ERROR, -1)
    assert any("can't write to t-0" in line for line in caplog.messages)
    for _ in range(2):
        assert (await broker.produce(build())).error_code == Code.KAFKA_STORAGE_ERROR
        assert (await broker.fetch()).error_code == Code.KAFKA_STORAGE_ERROR
        assert (await broker.list_offset(-1)).error_code == Code.KAFKA_STORAGE_ERROR
    assert (await broker.produce(build(), partition=1)).error_code == Code.NONE, "not the others"
    await broker.kill()
    assert len(await broker.read_all()) == 3
    assert (await broker.produce(build())).base_offset == 3, "and on it goes"
