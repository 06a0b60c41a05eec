"""Produce, asked over a connection; what is appended is read back and judged by kafka-python.

Codes and the order of checks were taken from Apache Kafka 4.3.1's answers to the same requests.
"""

from __future__ import annotations

import errno
import logging
from uuid import UUID

import pytest

from kavka.log.memfs import Fault
from kavka.server.auth.authorizer import Operation
from kavka.server.handlers import produce
from kavka.server.replica.partition_state import Leadership
from kavka.server.runtime.rate_limited_log import LINES_MAX
from kavka.wire.apis.produce import API
from kavka.wire.errors import ErrorCode as Code
from support.batches import CODECS, REFUSED, Written, build
from support.denied import Denied
from support.logs import Read
from support.memory_broker import MemoryBroker, producing, scenario
from support.pauses import pauses_of
from support.virtual import settle

VERSIONS = range(API.lowest, API.highest + 1)
BY_NAME = [version for version in VERSIONS if version < 13]
NOBODY = UUID(int=77)
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


@pytest.mark.parametrize("version", VERSIONS)
@scenario()
async def test_every_version_appends_and_tells_where(broker: MemoryBroker, version: int) -> None:
    topic_id = await broker.create("t")
    ids = {"t": topic_id}
    for base in (0, 3):
        answer = await broker.ask(
            "Produce", version, **producing({("t", 0): build()}, topic_ids=ids)
        )
        (of_topic,) = answer.responses
        (of_partition,) = of_topic.partition_responses
        assert of_topic.topic_id == (topic_id if version >= 13 else None)
        assert of_topic.name == ("" if version >= 13 else "t")
        assert (of_partition.index, of_partition.error_code) == (0, Code.NONE)
        assert of_partition.base_offset == base
        assert of_partition.log_append_time_ms == -1, "the topic keeps the producer's times"
        assert of_partition.log_start_offset == (0 if version >= 5 else -1)
    assert await broker.read_all() == [Read(offset, TIME_MS, b"value") for offset in range(6)]


@pytest.mark.parametrize("codec", CODECS)
@scenario(topics={"t": 1})
async def test_what_every_codec_packs_is_kept_as_it_is(broker: MemoryBroker, codec: str) -> None:
    records = [Written(value=b"%d" % number * 100, time_ms=number) for number in range(50)]
    answer = await broker.produce(build(records, codec=codec))
    assert answer.error_code == Code.NONE
    wanted = [Read(n, TIME_MS + one.time_ms, one.value) for n, one in enumerate(records)]
    assert await broker.read_all() == wanted


@scenario(topics={"t": 1})
async def test_acks_0_appends_and_answers_nothing(broker: MemoryBroker) -> None:
    client = broker.client
    client.tell("Produce", 9, **producing({("t", 0): build()}, acks=0))
    end = await broker.list_offset(-1)
    assert end.offset == 3, "and this is the answer to ListOffsets"
    assert not client.frames


@scenario(topics={"t": 3, "u": 1})
async def test_each_partition_has_its_own_outcome(broker: MemoryBroker) -> None:
    batches = {
        ("t", 2): build([Written()]),
        ("t", 0): REFUSED["a wrong CRC"][0],
        ("t", 7): build(),
        ("gone", 0): build(),
        ("u", 0): build(),
    }
    answer = await broker.ask("Produce", 9, **producing(batches))
    outcomes = {
        (topic.name, one.index): (one.error_code, one.base_offset)
        for topic in answer.responses
        for one in topic.partition_responses
    }
    assert outcomes == {
        ("t", 2): (Code.NONE, 0),
        ("t", 0): (Code.CORRUPT_MESSAGE, -1),
        ("t", 7): (Code.UNKNOWN_TOPIC_OR_PARTITION, -1),
        ("gone", 0): (Code.UNKNOWN_TOPIC_OR_PARTITION, -1),
        ("u", 0): (Code.NONE, 0),
    }
    assert len(await broker.read_all("t", 2)) == 1
    assert await broker.read_all("t", 0) == []
    assert len(await broker.read_all("u", 0)) == 3


@pytest.mark.parametrize("acks", [-1, 0, 1])
def test_many_batches_are_appended_in_steps(acks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(produce, "BATCHES_A_STEP", 2)
    places = [("t", 0), ("t", 1), ("gone", 0), ("t", 2), ("u", 0), ("u", 1), ("u", 2)]

    @scenario(topics={"t": 3, "u": 3})
    async def story(broker: MemoryBroker) -> None:
        pauses = pauses_of(broker)
        received = [place for place in places if acks or place[0] != "gone"]
        asked = producing({place: build() for place in received}, acks=acks)
        first = broker.client.send("Produce", 9, **asked) if acks else None
        if first is None:
            broker.client.tell("Produce", 9, **asked)
        behind = broker.client.send("Produce", 9, **producing({("u", 2): build([Written()])}))
        ((after,),) = [one.partition_responses for one in (await behind).responses]
        assert after.base_offset == 3, "what comes behind does not overtake"
        assert pauses == [0, 0, 0][: (len(received) - 1) // 2]
        if first is not None:
            found = {
                (topic.name, one.index): (one.error_code, one.base_offset)
                for topic in first.result().responses
                for one in topic.partition_responses
            }
            unknown = (Code.UNKNOWN_TOPIC_OR_PARTITION, -1)
            assert found == {one: (Code.NONE, 0) for one in received} | {("gone", 0): unknown}
        for place in received:
            if place[0] != "gone":
                assert len(await broker.read_all(*place)) == 3 + (place == ("u", 2))

    story()


@scenario()
async def test_no_topics_is_an_empty_answer(broker: MemoryBroker) -> None:
    answer = await broker.ask("Produce", 9, **producing({}, acks=7))
    assert answer.responses == []


# -- what is refused ------------------------------------------------------------------------


@pytest.mark.parametrize("acks", [2, -2, 7])
@scenario(topics={"t": 1})
async def test_other_acks_are_refused_by_partition(broker: MemoryBroker, acks: int) -> None:
    batches = {("t", 0): build(), ("gone", 0): build()}
    answer = await broker.ask("Produce", 9, **producing(batches, acks=acks))
    codes = [topic.partition_responses[0].error_code for topic in answer.responses]
    assert codes == [Code.INVALID_REQUIRED_ACKS, Code.UNKNOWN_TOPIC_OR_PARTITION]
    assert await broker.read_all() == []


@pytest.mark.parametrize("version", BY_NAME)
@scenario(topics={"t": 1})
async def test_unknown_topics_and_partitions(broker: MemoryBroker, version: int) -> None:
    for topic, partition in (("gone", 0), ("t", 1), ("t", -1), ("a b", 0), ("", 0)):
        answer = await broker.produce(build(), topic, partition, version=version)
        assert answer.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
        assert (answer.base_offset, answer.log_append_time_ms) == (-1, -1)
        assert answer.log_start_offset == -1


@pytest.mark.parametrize("unknown", [NOBODY, None])
@scenario(topics={"t": 1})
async def test_unknown_topic_ids(broker: MemoryBroker, unknown: UUID | None) -> None:
    ids = {"t": unknown} if unknown else {}
    answer = await broker.ask("Produce", 13, **producing({("t", 0): build()}, topic_ids=ids))
    assert answer.responses[0].topic_id == unknown
    assert answer.responses[0].partition_responses[0].error_code == Code.UNKNOWN_TOPIC_ID


@scenario()
async def test_internal_topics_are_not_for_clients(broker: MemoryBroker) -> None:
    name = "__consumer_offsets"
    answer = await broker.produce(build(), name)
    assert answer.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION, "it isn't there yet"
    await broker.create(name)
    answer = await broker.produce(build(), name)
    assert answer.error_code == Code.INVALID_TOPIC_EXCEPTION


@scenario(topics={"t": 1, "u": 1})
async def test_who_may_not(broker: MemoryBroker) -> None:
    broker.parts.authorizer = Denied((Operation.WRITE, "t"), (Operation.WRITE, "gone"))
    for topic in ("t", "gone"):
        answer = await broker.produce(build(), topic)
        assert answer.error_code == Code.TOPIC_AUTHORIZATION_FAILED, "nor is told which there are"
    assert (await broker.produce(build(), "u")).error_code == Code.NONE
    assert await broker.read_all() == []


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


@scenario(topics={"t": 1})
async def test_null_is_no_batch(broker: MemoryBroker) -> None:
    assert (await broker.produce(None)).error_code == Code.INVALID_RECORD


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


@pytest.mark.parametrize("version", BY_NAME)
@scenario(topics={"t": 1})
async def test_zstd_is_taken_from_version_7_on(broker: MemoryBroker, version: int) -> None:
    answer = await broker.produce(build(codec="zstd"), version=version)
    allowed = version >= 7 or version < 3  # where Apache Kafka does not ask
    assert answer.error_code == (Code.NONE if allowed else Code.UNSUPPORTED_COMPRESSION_TYPE)


IN_TRANSACTION = build(producer=(4000, 0, 0), transactional=True)


# -- replicas in sync -----------------------------------------------------------------------


@scenario()
async def test_one_replica_is_enough_where_there_is_only_one(broker: MemoryBroker) -> None:
    await broker.create("t", configs={"min.insync.replicas": "2"})
    assert (await broker.produce(build())).error_code == Code.NONE


@scenario()
async def test_too_few_replicas_in_sync(broker: MemoryBroker) -> None:
    await broker.create("t", configs={"min.insync.replicas": "2"})
    broker.share((1,))
    assert (await broker.produce(build())).error_code == Code.NOT_ENOUGH_REPLICAS
    assert (await broker.produce(build(), acks=1)).error_code == Code.NONE
    assert len(await broker.read_all()) == 3


@scenario(topics={"t": 1})
async def test_acks_all_waits_for_the_replicas_in_sync(broker: MemoryBroker) -> None:
    broker.share((1, 2))
    request = producing({("t", 0): build()}, timeout_ms=1000)
    late = broker.client.send("Produce", 9, **request)
    await broker.advance(999)
    assert not late.done()
    await broker.advance(1)
    assert late.result().responses[0].partition_responses[0].error_code == Code.REQUEST_TIMED_OUT

    in_time = broker.client.send("Produce", 9, **request)
    await broker.advance(500)
    broker.share((1,))
    await settle()
    answer = in_time.result().responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (Code.NONE, 3), "the late one is there too"


@scenario(topics={"t": 1})
async def test_acks_1_waits_for_nobody(broker: MemoryBroker) -> None:
    broker.share((1, 2))
    assert (await broker.produce(build(), acks=1)).error_code == Code.NONE
    assert await broker.read_all() == [], "nothing is committed, so nothing is shown"


@scenario(topics={"t": 1})
async def test_a_copy_of_what_is_not_committed_waits_as_well(broker: MemoryBroker) -> None:
    broker.share((1, 2))
    request = producing({("t", 0): build(producer=(5, 0, 0))}, timeout_ms=1000)
    first, again = (broker.client.send("Produce", 9, **request) for _ in range(2))
    await broker.advance(999)
    assert not again.done()
    broker.share((1,))
    await settle()
    for answer in (first.result(), again.result()):
        partition = answer.responses[0].partition_responses[0]
        assert (partition.error_code, partition.base_offset) == (Code.NONE, 0)


@scenario(topics={"t": 1})
async def test_who_waits_hears_of_a_lost_leadership(broker: MemoryBroker) -> None:
    broker.share((1, 2))
    waiting = broker.client.send("Produce", 9, **producing({("t", 0): build()}))
    await settle()
    replica = broker.replica()
    replica.partition.follow(Leadership(1, 2, replica.partition.leader_epoch + 1, (2,), 9, (1, 2)))
    broker.parts.purgatory.changed(replica.key)
    await settle()
    answer = waiting.result().responses[0].partition_responses[0]
    assert answer.error_code == Code.NOT_LEADER_OR_FOLLOWER
    whole = await broker.ask("Produce", 10, **producing({("t", 0): build()}))
    answer = whole.responses[0].partition_responses[0]
    assert answer.error_code == Code.NOT_LEADER_OR_FOLLOWER
    assert answer.current_leader.leader_id == 1, "as the metadata still say"
    assert [one.node_id for one in whole.node_endpoints] == [1], "and where to find it (KIP-951)"


@scenario(topics={"t": 2})
async def test_requests_behind_one_that_waits_are_done_and_answered_in_order(
    broker: MemoryBroker,
) -> None:
    broker.share((1, 2))
    waits = broker.client.send("Produce", 9, **producing({("t", 0): build()}))
    quick = broker.client.send("Produce", 9, **producing({("t", 1): build()}))
    await settle()
    assert not waits.done() and not quick.done()
    other = await broker.connect().ask("ListOffsets", 1, replica_id=-1, topics=[_end_of("t", 1)])
    assert other.topics[0].partitions[0].offset == 3, "appended while the first still waits"
    broker.share((1,))
    await settle()
    assert waits.done() and quick.done()


def _end_of(topic: str, partition: int) -> dict[str, object]:
    return {"name": topic, "partitions": [{"partition_index": partition, "timestamp": -1}]}


# -- the disk -------------------------------------------------------------------------------


@pytest.mark.parametrize("acks", [-1, 1])
@scenario()
async def test_flush_messages_1_answers_after_the_fsync(broker: MemoryBroker, acks: int) -> None:
    await broker.create("t", configs={"flush.messages": "1"})
    broker.jobs.hold()
    waiting = broker.client.send("Produce", 9, **producing({("t", 0): build()}, acks=acks))
    await settle()
    assert not waiting.done()
    assert broker.jobs.held == ["FlushPlan.run"]
    broker.jobs.release()
    await settle()
    assert waiting.result().responses[0].partition_responses[0].error_code == Code.NONE
    await broker.crash()
    assert len(await broker.read_all()) == 3, "a power cut takes nothing of it"


@scenario()
async def test_one_fsync_serves_all_who_wait_for_it(broker: MemoryBroker) -> None:
    await broker.create("t", configs={"flush.messages": "1"})
    broker.jobs.hold()
    clients = [broker.connect() for _ in range(10)]
    waiting = [clients[0].send("Produce", 9, **producing({("t", 0): build()}))]
    await settle()
    waiting += [one.send("Produce", 9, **producing({("t", 0): build()})) for one in clients[1:]]
    await settle()
    broker.jobs.done.clear()
    broker.jobs.release()
    await settle()
    assert all(one.done() for one in waiting)
    assert broker.jobs.done == ["FlushPlan.run"] * 2, "one for the first, one for all the others"


@scenario()
async def test_an_fsync_that_takes_too_long_is_a_timeout(broker: MemoryBroker) -> None:
    await broker.create("t", configs={"flush.messages": "1"})
    broker.jobs.hold()
    request = producing({("t", 0): build()}, timeout_ms=1000)
    waiting = broker.client.send("Produce", 9, **request)
    await broker.advance(1000)
    answer = waiting.result().responses[0].partition_responses[0]
    assert answer.error_code == Code.REQUEST_TIMED_OUT
    broker.jobs.release()


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


@scenario(topics={"t": 1})
async def test_a_full_disk_loses_nothing_that_was_acknowledged(broker: MemoryBroker) -> None:
    assert (await broker.produce(build())).error_code == Code.NONE
    broker.fs.capacity_bytes = 0
    assert (await broker.produce(build())).error_code == Code.KAFKA_STORAGE_ERROR
    broker.fs.capacity_bytes = None
    await broker.restart()
    assert [one.offset for one in await broker.read_all()] == [0, 1, 2]
    assert (await broker.produce(build())).base_offset == 3


@scenario()
async def test_an_fsync_that_fails_acknowledges_nothing(broker: MemoryBroker) -> None:
    await broker.create("t", configs={"flush.messages": "1"})
    broker.fs.faults.append(Fault("sync", ".log"))
    assert (await broker.produce(build())).error_code == Code.KAFKA_STORAGE_ERROR
    assert (await broker.produce(build())).error_code == Code.KAFKA_STORAGE_ERROR, "offline"
