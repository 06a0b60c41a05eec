"""Batches that take time before they are appended: their order, and what may happen meanwhile."""

from __future__ import annotations

import asyncio
import random

import pytest

from kavka.compat_tests.raw.codec.batches import Written, build, patch
from kavka.log.appended import Appended
from kavka.log.txn_guards import Guard
from kavka.server.replica.batch_opening import OPENED_AT_ONCE_MAX, RECORDS_PER_STEP
from kavka.server.replica.replica import Replica
from kavka.wire.errors import ErrorCode as Code
from kavka.wire.record_batches import BatchHeader
from support.config_requests import SET, TOPIC, change
from support.memory_broker import MemoryBroker, producing, scenario
from support.memory_network import until
from support.stored import LARGE, MANY, NOISE, SMALL, bare, stored
from support.virtual import run_until_idle

CHANCE = random.Random(3)


def numbered(number: int) -> bytearray:
    return build([Written(b"k", b"%d" % number), Written(b"k", NOISE[:50_000])])


async def slow(broker: MemoryBroker, topics: int = 1) -> None:
    """Topics whose batches are compressed by a job, which waits."""
    for number in range(topics):
        name = f"t{number}" if number else "t"
        await broker.create(name, configs={"compression.type": "gzip"})
    broker.jobs.hold("compress")


@scenario(topics={"plain": 1})
async def test_requests_of_a_connection_keep_their_order(broker: MemoryBroker) -> None:
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
    await run_until_idle()
    assert not broker.client.transport.is_reading()
    assert [broker.replica(name).log.end_offset for name in ("t", "plain")] == [0, 0]
    broker.jobs.release()
    found = (await end).topics
    assert [topic.partitions[0].offset for topic in found] == [2, 2]
    assert first.done()
    assert second.done()
    assert broker.client.transport.is_reading()


@scenario(topics={})
async def test_other_connections_do_not_wait(broker: MemoryBroker) -> None:
    await slow(broker)
    held = broker.client.send("Produce", 9, **producing({("t", 0): numbered(1)}))
    await run_until_idle()
    other = broker.connect()
    answer = await other.ask("Produce", 9, **producing({("t", 0): build(SMALL)}))
    assert answer.responses[0].partition_responses[0].base_offset == 0
    broker.jobs.release()
    assert (await held).responses[0].partition_responses[0].base_offset == len(SMALL)


@scenario(topics={})
async def test_many_pipelined_requests_keep_their_order(broker: MemoryBroker) -> None:
    await broker.create("t", configs={"compression.type": "gzip"})
    kinds = [SMALL, LARGE, MANY]
    sent = []
    for number in range(30):
        first = Written(b"first", b"%d" % number)
        batch = build([first, *kinds[CHANCE.randrange(3)]])
        sent.append(broker.client.send("Produce", 9, **producing({("t", 0): batch})))
    answers = [(await response).responses[0].partition_responses[0] for response in sent]
    assert [answer.error_code for answer in answers] == [0] * 30
    offsets = [answer.base_offset for answer in answers]
    assert offsets == sorted(offsets)
    firsts = [record.value for record in await broker.read_all() if record.offset in offsets]
    assert firsts == [b"%d" % number for number in range(30)]


@scenario(topics={})
async def test_a_request_is_appended_while_the_one_before_waits_for_replicas(
    broker: MemoryBroker,
) -> None:
    await slow(broker)
    broker.share((1, 2))  # which never fetches
    first = broker.client.send("Produce", 9, **producing({("t", 0): numbered(1)}, timeout_ms=5000))
    second = broker.client.send("Produce", 9, **producing({("t", 0): build(SMALL)}, acks=1))
    await run_until_idle()
    assert broker.replica().log.end_offset == 0
    broker.jobs.release()
    await run_until_idle()
    assert broker.replica().log.end_offset == 2 + len(SMALL), "both are appended"
    assert not first.done()
    await broker.advance(5000)
    found = [(await response).responses[0].partition_responses[0] for response in (first, second)]
    assert [answer.error_code for answer in found] == [Code.REQUEST_TIMED_OUT, Code.NONE]


@scenario(topics={"plain": 1})
async def test_partitions_of_a_request_succeed_or_fail_alone(broker: MemoryBroker) -> None:
    await slow(broker, topics=3)
    batches = {
        ("t", 0): numbered(1),
        ("plain", 0): numbered(2),
        ("t1", 0): build([Written(None, NOISE[:40_000])]),
        ("t2", 0): patch(numbered(3), crc=1),
    }
    response = broker.client.send("Produce", 9, **producing(batches))
    await run_until_idle()
    broker.jobs.release()
    found = {
        topic.name: topic.partition_responses[0].error_code for topic in (await response).responses
    }
    assert found == {"t": 0, "plain": 0, "t1": 0, "t2": Code.CORRUPT_MESSAGE}


@scenario(topics={})
async def test_acks_0_is_appended_in_order(broker: MemoryBroker) -> None:
    await slow(broker)
    broker.client.tell("Produce", 9, **producing({("t", 0): numbered(1)}, acks=0))
    later = broker.client.send("Produce", 9, **producing({("t", 0): numbered(2)}))
    await run_until_idle()
    broker.jobs.release()
    assert (await later).responses[0].partition_responses[0].base_offset == 2


@scenario(topics={})
async def test_acks_0_that_fails_closes_the_connection(broker: MemoryBroker) -> None:
    await slow(broker)
    doomed = broker.connect()
    doomed.tell("Produce", 9, **producing({("t", 0): numbered(1)}, acks=0))
    await run_until_idle()
    await broker.ask("DeleteTopics", 5, topic_names=["t"], timeout_ms=1000)
    assert not doomed.is_closed
    broker.jobs.release()
    await doomed.closed()


@scenario(topics={})
async def test_a_topic_deleted_and_created_meanwhile_gets_no_records(broker: MemoryBroker) -> None:
    await slow(broker)
    held = broker.client.send("Produce", 9, **producing({("t", 0): numbered(1)}))
    await run_until_idle()
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
async def test_the_isr_shrinks_below_the_minimum_meanwhile(broker: MemoryBroker) -> None:
    await slow(broker)
    broker.share((1, 2))
    more = (TOPIC, "t", [("min.insync.replicas", SET, "2")])
    assert await change(broker, more) == [(Code.NONE, None)]
    broker.jobs.hold("compress")
    held = broker.client.send("Produce", 9, **producing({("t", 0): numbered(1)}))
    await run_until_idle()
    broker.share((1,))
    broker.jobs.release()
    answer = (await held).responses[0].partition_responses[0]
    assert answer.error_code == Code.NOT_ENOUGH_REPLICAS
    assert broker.replica().log.end_offset == 0


@scenario(topics={})
async def test_requests_of_closed_connections_are_appended(
    broker: MemoryBroker,
) -> None:
    await slow(broker)
    others = [broker.connect() for _ in range(OPENED_AT_ONCE_MAX + 2)]
    for number, client in enumerate(others):
        client.send("Produce", 9, **producing({("t", 0): numbered(number)}))
    await run_until_idle()
    for client in others:
        client.transport.abort()
    await run_until_idle()
    broker.jobs.release()
    await until(lambda: broker.replica().log.end_offset == 2 * len(others), "all are appended")
    assert (await broker.produce(numbered(9))).base_offset == 2 * len(others)
    assert broker.parts.arenas.in_use_bytes == 0


@scenario(topics={})
async def test_the_batches_being_recompressed_are_bounded(broker: MemoryBroker) -> None:
    await slow(broker)
    others = [broker.connect() for _ in range(OPENED_AT_ONCE_MAX + 3)]
    sent = [
        client.send("Produce", 9, **producing({("t", 0): numbered(number)}))
        for number, client in enumerate(others)
    ]
    await run_until_idle()
    assert broker.jobs.held == ["compress"] * OPENED_AT_ONCE_MAX
    broker.jobs.release()
    answers = [(await response).responses[0].partition_responses[0] for response in sent]
    assert sorted(answer.base_offset for answer in answers) == [2 * n for n in range(len(sent))]


@scenario(topics={})
async def test_the_arena_of_a_waiting_request_can_be_reused(broker: MemoryBroker) -> None:
    await slow(broker)
    held = broker.client.send("Produce", 9, **producing({("t", 0): numbered(1)}))
    await run_until_idle()
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
@pytest.mark.parametrize("count", [RECORDS_PER_STEP - 1, RECORDS_PER_STEP, RECORDS_PER_STEP + 1])
@scenario(topics={"plain": 1})
async def test_the_arena_can_be_reused_after_a_slice_of_records(
    broker: MemoryBroker, count: int, codec: str
) -> None:
    await slow(broker)
    await broker.create("keyed", configs={"cleanup.policy": "compact"})
    for number in range(OPENED_AT_ONCE_MAX):
        broker.connect().send("Produce", 9, **producing({("t", 0): numbered(number)}))
    await run_until_idle()
    batch = build([Written(b"", None)] * count, codec=codec)
    held = broker.connect().send("Produce", 9, **producing({("keyed", 0): batch}))
    await run_until_idle()
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
async def test_the_work_of_a_request_on_the_event_loop_is_bounded(
    broker: MemoryBroker, batch: bytearray, configs: dict[str, str]
) -> None:
    await broker.create("t", 10, configs=configs)
    ends = []
    response = broker.client.send(
        "Produce", 9, **producing({("t", number): batch for number in range(10)})
    )
    while not response.done():
        await asyncio.sleep(0)
        ends.append(sum(broker.replica("t", number).log.end_offset > 0 for number in range(10)))
    assert 1 <= next(count for count in ends if count) <= 2
    assert all(
        not partition.error_code for partition in response.result().responses[0].partition_responses
    )
    for number in range(10):
        [found] = await stored(broker, "t", number)
        assert bare(found) == bare(batch)


@scenario(topics={})
async def test_other_tasks_run_while_many_records_are_checked(broker: MemoryBroker) -> None:
    await broker.create("t", configs={"cleanup.policy": "compact"})
    response = broker.client.send("Produce", 9, **producing({("t", 0): build(MANY)}))
    turns = 0
    while not response.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > len(MANY) // 2048
    assert broker.replica().log.end_offset == len(MANY)


@pytest.mark.parametrize("codec", ["producer", "gzip"])
@scenario(topics={})
async def test_an_unexpected_failure_is_one_partition_s(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch, codec: str
) -> None:
    await broker.create("t", 3, configs={"compression.type": codec})
    append = Replica.append

    def fails(
        replica: Replica, batch: memoryview, header: BatchHeader, guard: Guard | None
    ) -> Appended:
        assert replica.key != ("t", 1), "planted"
        return append(replica, batch, header, guard)

    monkeypatch.setattr(Replica, "append", fails)
    batches = {("t", number): numbered(number) for number in range(3)}
    answer = await broker.ask("Produce", 9, **producing(batches))
    found = {
        partition.index: (partition.error_code, partition.base_offset)
        for partition in answer.responses[0].partition_responses
    }
    assert found == {0: (0, 0), 1: (Code.UNKNOWN_SERVER_ERROR, -1), 2: (0, 0)}
