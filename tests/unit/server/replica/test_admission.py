"""Batches that are looked into before they are appended: what is stored, and in which order.

Records are read back by kafka-python. What Apache Kafka 4.3.1 does with the same is asked by
tests/differential.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from kafka.record import MemoryRecords

from kavka.server.replica.manager import OPENED_AT_ONCE_MAX
from kavka.server.replica.offsets import RECORDS_PER_TURN
from kavka.wire.errors import ErrorCode as Code
from support.batches import BASE_TIMESTAMP_MS, CODECS, Written, build, field, patch, read
from support.config_requests import SET, TOPIC, change
from support.memory_broker import MemoryBroker, producing, scenario
from support.virtual import settle

CHANCE = random.Random(3)
NOISE = CHANCE.randbytes(200_000)
SMALL = [Written(b"k%d" % n, b"v" * 50, (("h", None),), n) for n in range(20)]
LARGE = [
    Written(b"k%d" % n, NOISE[n : n + 500] + b"x" * 500, (("h", b"h"),), n) for n in range(300)
]
MANY = [Written(b"k%d" % n, b"v", (), n % 9) for n in range(5000)]
KINDS = {"small": SMALL, "large": LARGE, "many": MANY}
HOUR_MS = 3_600_000


async def stored(broker: MemoryBroker, topic: str = "t", partition: int = 0) -> list[bytes]:
    """The whole batches of a partition, one by one."""
    found: list[bytes] = []
    offset = 0
    while True:
        data = bytes((await broker.fetch(offset, topic, partition, max_bytes=1 << 24)).records)
        batches = MemoryRecords(data)
        position = 0
        while (batch := batches.next_batch()) is not None:
            assert batch.validate_crc()
            size = field(data[position:], "batch_length") + 12
            found.append(data[position : position + size])
            position += size
        if not position:
            return found
        last = found[-1]
        offset = field(last, "base_offset") + field(last, "last_offset_delta") + 1


async def values(broker: MemoryBroker, topic: str = "t", partition: int = 0) -> list[Any]:
    return [one.value for one in await broker.read_all(topic, partition)]


def bare(batch: bytes | bytearray) -> list[Any]:
    """Its records without their offsets."""
    return [(one.timestamp, one.key, one.value, one.headers) for one in read(batch)]


async def configure(broker: MemoryBroker, topic: str, **configs: str) -> None:
    changes = [(name.replace("_", "."), SET, value) for name, value in configs.items()]
    assert await change(broker, (TOPIC, topic, changes)) == [(Code.NONE, None)]


# -- another codec --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("codec", CODECS)
@scenario(topics={})
async def test_batches_are_stored_in_the_topic_s_codec(
    broker: MemoryBroker, codec: str, kind: str
) -> None:
    batch = build(KINDS[kind], codec=codec)
    if codec != "none":
        assert field(batch, "attributes"), "kafka-python has compressed it"
    for wanted, number in CODECS.items():
        name = "uncompressed" if wanted == "none" else wanted
        await broker.create(wanted, configs={"compression.type": name})
        assert (await broker.produce(batch, wanted)).error_code == Code.NONE
        [found] = await stored(broker, wanted)
        assert field(found, "attributes") == number
        assert bare(found) == bare(batch)


@pytest.mark.parametrize("kind", KINDS)
@scenario(topics={"t": 1})
async def test_a_batch_in_the_wanted_codec_is_stored_as_it_is(
    broker: MemoryBroker, kind: str
) -> None:
    await configure(broker, "t", compression_type="lz4")
    batch = build(KINDS[kind], codec="lz4")
    await broker.produce(batch)
    [found] = await stored(broker)
    assert found[16:] == batch[16:], "but for the offset and the leader's epoch"


@scenario(topics={})
async def test_levels_count(broker: MemoryBroker) -> None:
    sizes = []
    for level in ("1", "9"):
        configs = {"compression.type": "gzip", "compression.gzip.level": level}
        await broker.create(f"t{level}", configs=configs)
        await broker.produce(build(LARGE), f"t{level}")
        sizes += [len(one) for one in await stored(broker, f"t{level}")]
    assert sizes[0] > sizes[1]


@scenario(topics={})
async def test_what_grows_too_big_is_refused(broker: MemoryBroker) -> None:
    batch = build([Written(value=b"x" * 1000)], codec="gzip")
    configs = {"compression.type": "uncompressed", "max.message.bytes": "500"}
    await broker.create("t", configs=configs)
    answer = await broker.produce(batch)
    assert (answer.error_code, answer.log_start_offset) == (Code.MESSAGE_TOO_LARGE, -1)
    assert broker.replica().traffic.bytes_rejected == len(batch), "what came, not what it grew to"
    assert await stored(broker) == []


@scenario(topics={})
async def test_what_came_and_what_changed_is_counted(broker: MemoryBroker) -> None:
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
async def test_what_cannot_be_inflated_is_refused(broker: MemoryBroker, size: int) -> None:
    await broker.create("t", configs={"compression.type": "uncompressed"})
    batch = build(LARGE, codec="zstd")
    damaged = batch[:]
    damaged[100 : min(100 + size, len(batch))] = bytes(min(size, len(batch) - 100))
    assert (await broker.produce(patch(damaged))).error_code == Code.UNKNOWN_SERVER_ERROR
    assert await stored(broker) == []
    assert (await broker.produce(batch)).error_code == Code.NONE, "others are taken"


# -- the time of the append -----------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("codec", ["none", "gzip"])
@scenario(topics={})
async def test_the_time_of_the_append_is_stored_and_told(
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
        assert {(one.timestamp, one.timestamp_type) for one in found} == {(time_ms, 1)}
        assert [one.value for one in found] == [one.value for one in KINDS[kind]]
    newest = await broker.list_offset(-3)
    assert newest.timestamp == times_ms[-1], "the time index goes by it"


@scenario(topics={})
async def test_times_of_appends_rise_with_the_offsets(broker: MemoryBroker) -> None:
    configs = {"message.timestamp.type": "LogAppendTime", "compression.type": "gzip"}
    await broker.create("t", configs=configs)
    broker.jobs.hold("compress")
    late = broker.client.send("Produce", 9, **producing({("t", 0): build(LARGE)}))
    await settle()
    await broker.advance(1000)
    other = broker.connect()
    early = await other.ask("Produce", 9, **producing({("t", 0): build(SMALL)}))
    await broker.advance(1000)
    broker.jobs.release()
    answers = [one.responses[0].partition_responses[0] for one in (early, await late)]
    assert [one.base_offset for one in answers] == [0, len(SMALL)]
    assert answers[0].log_append_time_ms < answers[1].log_append_time_ms


@scenario(topics={})
async def test_a_batch_sent_twice_is_told_its_own_time(broker: MemoryBroker) -> None:
    await broker.create("t", configs={"message.timestamp.type": "LogAppendTime"})
    batch = build(SMALL, producer=(4000, 0, 0))
    first = await broker.produce(batch)
    await broker.advance(5000)
    again = await broker.produce(batch)
    assert (again.base_offset, again.log_append_time_ms) == (0, first.log_append_time_ms)
    assert len(await stored(broker)) == 1


@scenario(topics={"t": 1})
async def test_by_default_records_keep_their_times(broker: MemoryBroker) -> None:
    assert (await broker.produce(build(SMALL))).log_append_time_ms == -1
    [found] = await stored(broker)
    assert bare(found) == bare(build(SMALL))


# -- keys and times -------------------------------------------------------------------------


@pytest.mark.parametrize("count", [10, 5000])
@pytest.mark.parametrize("codec", ["none", "zstd"])
@scenario(topics={})
async def test_records_without_a_key_are_named(
    broker: MemoryBroker, codec: str, count: int
) -> None:
    await broker.create("t", configs={"cleanup.policy": "compact"})
    records = [Written(b"k")] * count
    assert (await broker.produce(build(records, codec=codec))).error_code == Code.NONE
    records[7] = records[count - 1] = Written(None)
    answer = await broker.produce(build(records, codec=codec))
    assert answer.error_code == Code.INVALID_RECORD
    assert [one.batch_index for one in answer.record_errors] == [7, count - 1]
    assert (answer.base_offset, answer.log_start_offset) == (-1, 0)
    assert len(await stored(broker)) == 1, "all of a batch or nothing"
    assert broker.replica().traffic.keyless == 2


@scenario(topics={"t": 1})
async def test_older_versions_hear_only_the_code(broker: MemoryBroker) -> None:
    await configure(broker, "t", cleanup_policy="compact")
    answer = await broker.produce(build([Written(None)]), version=7)
    assert answer.error_code == Code.INVALID_RECORD


@scenario(topics={"t": 1})
async def test_the_clock_moves_the_bound_on(broker: MemoryBroker) -> None:
    ahead = build([Written(time_ms=HOUR_MS + 60_000)])
    for _ in range(3):  # the short way knows of the bound too
        assert (await broker.produce(build())).error_code == Code.NONE
        assert (await broker.produce(ahead)).error_code == Code.INVALID_TIMESTAMP
    await broker.advance(60_000)
    assert (await broker.produce(ahead)).error_code == Code.NONE


@scenario(topics={"t": 1})
async def test_a_claim_to_be_newer_than_all_records_is_put_right(broker: MemoryBroker) -> None:
    batch = build(SMALL)
    await broker.produce(patch(batch, max_timestamp=BASE_TIMESTAMP_MS + 10 * HOUR_MS))
    [found] = await stored(broker)
    assert found[16:] == batch[16:], "else the segment would be kept for ten hours longer"


@scenario(topics={"t": 1})
async def test_old_records_are_refused_wherever_they_are(broker: MemoryBroker) -> None:
    await configure(broker, "t", message_timestamp_before_max_ms=str(HOUR_MS))
    for times, bad in (((0, 5), []), ((0, -HOUR_MS - 1, 1), [1]), ((-HOUR_MS,), [])):
        answer = await broker.produce(build([Written(time_ms=one) for one in times]))
        assert [one.batch_index for one in answer.record_errors] == bad


@scenario(topics={"t": 1})
async def test_settings_count_from_the_next_batch_on(broker: MemoryBroker) -> None:
    for _ in range(3):  # the later ones go the short way
        await broker.produce(build())
    await configure(broker, "t", cleanup_policy="compact")
    assert (await broker.produce(build())).error_code == Code.INVALID_RECORD
    await configure(broker, "t", cleanup_policy="delete", compression_type="gzip")
    assert (await broker.produce(build(SMALL))).error_code == Code.NONE
    await configure(broker, "t", compression_type="producer")
    for _ in range(3):
        assert (await broker.produce(build(SMALL))).error_code == Code.NONE
    codecs = [field(one, "attributes") for one in await stored(broker)]
    assert codecs == [0, 0, 0, 1, 0, 0, 0]


# -- batches that take their time -----------------------------------------------------------


def numbered(number: int) -> bytearray:
    return build([Written(b"k", b"%d" % number), Written(b"k", NOISE[:50_000])])


async def slow(broker: MemoryBroker, topics: int = 1) -> None:
    """Topics whose batches are compressed by a job, which waits."""
    for number in range(topics):
        name = f"t{number}" if number else "t"
        await broker.create(name, configs={"compression.type": "gzip"})
    broker.jobs.hold("compress")


@scenario(topics={"plain": 1})
async def test_nothing_of_a_connection_overtakes(broker: MemoryBroker) -> None:
    await slow(broker)
    first = broker.client.send("Produce", 9, **producing({("t", 0): numbered(1)}))
    second = broker.client.send("Produce", 9, **producing({("plain", 0): numbered(2)}))
    end = broker.client.send(
        "ListOffsets",
        9,
        replica_id=-1,
        isolation_level=0,
        topics=[
            {
                "name": name,
                "partitions": [{"partition_index": 0, "timestamp": -1, "current_leader_epoch": -1}],
            }
            for name in ("t", "plain")
        ],
    )
    await settle()
    assert not broker.client.transport.is_reading()
    assert [broker.replica(name).log.end_offset for name in ("t", "plain")] == [0, 0]
    broker.jobs.release()
    found = (await end).topics
    assert [topic.partitions[0].offset for topic in found] == [2, 2]
    assert first.done()
    assert second.done()
    assert broker.client.transport.is_reading()


@scenario(topics={})
async def test_others_do_not_wait(broker: MemoryBroker) -> None:
    await slow(broker)
    held = broker.client.send("Produce", 9, **producing({("t", 0): numbered(1)}))
    await settle()
    other = broker.connect()
    answer = await other.ask("Produce", 9, **producing({("t", 0): build(SMALL)}))
    assert answer.responses[0].partition_responses[0].base_offset == 0
    broker.jobs.release()
    assert (await held).responses[0].partition_responses[0].base_offset == len(SMALL)


@scenario(topics={})
async def test_many_requests_keep_their_order(broker: MemoryBroker) -> None:
    await broker.create("t", configs={"compression.type": "gzip"})
    kinds = [SMALL, LARGE, MANY]
    sent = []
    for number in range(30):
        first = Written(b"first", b"%d" % number)
        batch = build([first, *kinds[CHANCE.randrange(3)]])
        sent.append(broker.client.send("Produce", 9, **producing({("t", 0): batch})))
    answers = [(await one).responses[0].partition_responses[0] for one in sent]
    assert [one.error_code for one in answers] == [0] * 30
    offsets = [one.base_offset for one in answers]
    assert offsets == sorted(offsets)
    firsts = [one.value for one in await broker.read_all() if one.offset in offsets]
    assert firsts == [b"%d" % number for number in range(30)]


@scenario(topics={})
async def test_the_next_goes_on_while_the_first_waits_for_replicas(broker: MemoryBroker) -> None:
    await slow(broker)
    broker.share((1, 2))  # which never fetches
    first = broker.client.send("Produce", 9, **producing({("t", 0): numbered(1)}, timeout_ms=5000))
    second = broker.client.send("Produce", 9, **producing({("t", 0): build(SMALL)}, acks=1))
    await settle()
    assert broker.replica().log.end_offset == 0
    broker.jobs.release()
    await settle()
    assert broker.replica().log.end_offset == 2 + len(SMALL), "both are appended"
    assert not first.done()
    await broker.advance(5000)
    found = [(await one).responses[0].partition_responses[0] for one in (first, second)]
    assert [one.error_code for one in found] == [Code.REQUEST_TIMED_OUT, Code.NONE]


@scenario(topics={"plain": 1})
async def test_several_partitions_of_a_request(broker: MemoryBroker) -> None:
    await slow(broker, topics=3)
    batches = {
        ("t", 0): numbered(1),
        ("plain", 0): numbered(2),
        ("t1", 0): build([Written(None, NOISE[:40_000])]),
        ("t2", 0): patch(numbered(3), crc=1),
    }
    asked = broker.client.send("Produce", 9, **producing(batches))
    await settle()
    broker.jobs.release()
    found = {
        topic.name: topic.partition_responses[0].error_code for topic in (await asked).responses
    }
    assert found == {"t": 0, "plain": 0, "t1": 0, "t2": Code.CORRUPT_MESSAGE}


@scenario(topics={})
async def test_acks_0_waits_without_an_answer(broker: MemoryBroker) -> None:
    await slow(broker)
    broker.client.tell("Produce", 9, **producing({("t", 0): numbered(1)}, acks=0))
    later = broker.client.send("Produce", 9, **producing({("t", 0): numbered(2)}))
    await settle()
    broker.jobs.release()
    assert (await later).responses[0].partition_responses[0].base_offset == 2


@scenario(topics={})
async def test_acks_0_that_fails_later_closes_the_connection(broker: MemoryBroker) -> None:
    await slow(broker)
    doomed = broker.connect()
    doomed.tell("Produce", 9, **producing({("t", 0): numbered(1)}, acks=0))
    await settle()
    await broker.ask("DeleteTopics", 5, topic_names=["t"], timeout_ms=1000)
    assert not doomed.is_closed
    broker.jobs.release()
    await doomed.closed()


@scenario(topics={})
async def test_a_partition_that_is_lost_meanwhile_takes_nothing(broker: MemoryBroker) -> None:
    await slow(broker)
    held = broker.client.send("Produce", 9, **producing({("t", 0): numbered(1)}))
    await settle()
    replica, other = broker.replica(), broker.connect()
    await other.ask("DeleteTopics", 5, topic_names=["t"], timeout_ms=1000)
    await other.ask(
        "CreateTopics",
        7,
        timeout_ms=1000,
        topics=[{"name": "t", "num_partitions": 1, "replication_factor": 1}],
    )
    assert broker.replica() is not replica
    broker.jobs.release()
    answer = (await held).responses[0].partition_responses[0]
    assert answer.error_code == Code.NOT_LEADER_OR_FOLLOWER
    assert broker.replica().log.end_offset == 0, "it was meant for another topic"


@scenario(topics={})
async def test_too_few_replicas_meanwhile(broker: MemoryBroker) -> None:
    await slow(broker)
    broker.share((1, 2))
    await configure(broker, "t", min_insync_replicas="2")
    broker.jobs.hold("compress")
    held = broker.client.send("Produce", 9, **producing({("t", 0): numbered(1)}))
    await settle()
    broker.share((1,))
    broker.jobs.release()
    answer = (await held).responses[0].partition_responses[0]
    assert answer.error_code == Code.NOT_ENOUGH_REPLICAS
    assert broker.replica().log.end_offset == 0


@scenario(topics={})
async def test_a_connection_that_ends_meanwhile_leaves_nothing_behind(broker: MemoryBroker) -> None:
    await slow(broker)
    others = [broker.connect() for _ in range(OPENED_AT_ONCE_MAX + 2)]
    for number, client in enumerate(others):
        client.send("Produce", 9, **producing({("t", 0): numbered(number)}))
    await settle()
    for client in others:
        client.transport.abort()
    await settle()
    broker.jobs.release()
    assert (await broker.produce(numbered(9))).base_offset == 0, "nothing is held for the dead"


@scenario(topics={})
async def test_so_many_are_opened_at_once(broker: MemoryBroker) -> None:
    await slow(broker)
    others = [broker.connect() for _ in range(OPENED_AT_ONCE_MAX + 3)]
    asked = [
        client.send("Produce", 9, **producing({("t", 0): numbered(number)}))
        for number, client in enumerate(others)
    ]
    await settle()
    assert broker.jobs.held == ["compress"] * OPENED_AT_ONCE_MAX
    broker.jobs.release()
    answers = [(await one).responses[0].partition_responses[0] for one in asked]
    assert sorted(one.base_offset for one in answers) == [2 * n for n in range(len(asked))]


@scenario(topics={})
async def test_what_it_came_in_may_be_used_again_meanwhile(broker: MemoryBroker) -> None:
    await slow(broker)
    held = broker.client.send("Produce", 9, **producing({("t", 0): numbered(1)}))
    await settle()
    other = broker.connect()
    await broker.parts.tasks.sleep(0)
    plain = {"name": "plain", "num_partitions": 1, "replication_factor": 1}
    await other.ask("CreateTopics", 7, timeout_ms=1000, topics=[plain])
    for _ in range(5):  # through the same arena, as the first request lies in none any more
        await other.ask("Produce", 9, **producing({("plain", 0): build([Written(value=NOISE)])}))
    broker.jobs.release()
    await held
    [found] = await stored(broker)
    assert bare(found) == bare(numbered(1))


@pytest.mark.parametrize("codec", ["none", "gzip"])
@pytest.mark.parametrize("count", [RECORDS_PER_TURN - 1, RECORDS_PER_TURN, RECORDS_PER_TURN + 1])
@scenario(topics={"plain": 1})
async def test_so_it_may_be_after_a_turn_of_looking_at_records(
    broker: MemoryBroker, count: int, codec: str
) -> None:
    await slow(broker)
    await broker.create("keyed", configs={"cleanup.policy": "compact"})
    for number in range(OPENED_AT_ONCE_MAX):
        broker.connect().send("Produce", 9, **producing({("t", 0): numbered(number)}))
    await settle()
    batch = build([Written(b"", None)] * count, codec=codec)
    held = broker.connect().send("Produce", 9, **producing({("keyed", 0): batch}))
    await settle()
    await broker.produce(build([Written(value=NOISE)]), "plain")  # through the same arena
    broker.jobs.release()
    await held
    [found] = await stored(broker, "keyed")
    assert bare(found) == bare(batch)


@pytest.mark.parametrize(
    ("batch", "configs"),
    [
        (build([Written(b"k")] * 1000, codec="gzip"), {"cleanup.policy": "compact"}),
        (build([Written(b"k")] * 1000), {"cleanup.policy": "compact"}),
        (build([Written(b"k", bytes(300_000))], codec="zstd"), {"cleanup.policy": "compact"}),
        (build([Written(b"k", NOISE[:10_000])]), {"compression.type": "zstd"}),
    ],
    ids=["records", "plain records", "bytes", "compressed bytes"],
)
@scenario()
async def test_a_request_has_only_so_much_done_on_the_loop(
    broker: MemoryBroker, batch: bytearray, configs: dict[str, str]
) -> None:
    await broker.create("t", 10, configs=configs)
    ends = []
    asked = broker.client.send(
        "Produce", 9, **producing({("t", number): batch for number in range(10)})
    )
    while not asked.done():
        await asyncio.sleep(0)
        ends.append(sum(broker.replica("t", number).log.end_offset > 0 for number in range(10)))
    assert 1 <= next(count for count in ends if count) <= 2
    assert all(not one.error_code for one in asked.result().responses[0].partition_responses)
    for number in range(10):
        [found] = await stored(broker, "t", number)
        assert bare(found) == bare(batch)


@scenario(topics={})
async def test_the_loop_turns_while_many_records_are_walked_through(broker: MemoryBroker) -> None:
    await broker.create("t", configs={"cleanup.policy": "compact"})
    asked = broker.client.send("Produce", 9, **producing({("t", 0): build(MANY)}))
    turns = 0
    while not asked.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > len(MANY) // 2048
    assert broker.replica().log.end_offset == len(MANY)
