"""`kavka.durability=fsync`: no power cut takes what is acknowledged, or what a consumer sees."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from kavka.compat_tests.raw.codec.batches import Written, build
from kavka.log.memfs import Fault
from kavka.wire.errors import ErrorCode as Code
from support.config_requests import BROKER, DELETE, SET, TOPIC, change, value_of
from support.logs import Read
from support.memory_broker import MemoryBroker, fetching, producing, scenario
from support.memory_network import Closed
from support.virtual import run_until_idle

KEY = "kavka.durability"
FSYNC = {KEY: "fsync"}
FLUSH = "FlushPlan.run"
END = -1
ROUNDS = 40


def send(broker: MemoryBroker, *, acks: int = 1, topic: str = "t") -> asyncio.Future[Any]:
    """One batch of three records, on a connection of its own."""
    return broker.connect().send("Produce", 9, **producing({(topic, 0): build()}, acks=acks))


def outcome(answer: asyncio.Future[Any]) -> Any:
    """The one partition's answer."""
    return answer.result().responses[0].partition_responses[0]


@pytest.mark.parametrize("acks", [-1, 1])
@scenario()
async def test_neither_acknowledged_nor_shown_before_the_fsync(
    broker: MemoryBroker, acks: int
) -> None:
    await broker.create("t", configs=FSYNC)
    broker.jobs.hold(FLUSH)
    sent = send(broker, acks=acks)
    polled = broker.connect().send("Fetch", 12, **fetching({("t", 0): 0}, max_wait_ms=60_000))
    await run_until_idle()
    assert not sent.done() and not polled.done()
    assert broker.jobs.held == [FLUSH]
    assert (await broker.list_offset(END)).offset == 0
    assert (await broker.fetch()).high_watermark == 0
    broker.jobs.release()
    await run_until_idle()
    assert (outcome(sent).error_code, outcome(sent).base_offset) == (Code.NONE, 0)
    (found,) = polled.result().responses[0].partitions
    assert found.high_watermark == 3 and found.records
    await broker.crash()
    assert len(await broker.read_all()) == 3


@scenario()
async def test_many_requests_share_one_fsync(broker: MemoryBroker) -> None:
    await broker.create("t", configs=FSYNC)
    broker.jobs.hold(FLUSH)
    sent = [send(broker)]
    await run_until_idle()
    sent += [send(broker, acks=acks) for acks in (1, -1) for _ in range(20)]
    await run_until_idle()
    broker.jobs.done.clear()
    broker.jobs.release()
    await run_until_idle()
    assert [outcome(response).error_code for response in sent] == [Code.NONE] * 41
    assert broker.jobs.done == [FLUSH] * 2, "one for the first, one for all the others"


@scenario()
async def test_an_fsync_is_of_the_records_alone(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The indexes follow from them; three times as many fsyncs would be waited for."""
    await broker.create("t", configs=FSYNC)
    await broker.produce(build())
    synced: list[str] = []

    def note(op: str, path: str) -> None:
        if op.startswith("sync"):
            synced.append(path)

    monkeypatch.setattr(broker.fs, "check", note)
    await broker.produce(build())
    assert synced == ["/data/t-0/00000000000000000000.log"]


@scenario()
async def test_after_a_failed_fsync_nothing_is_acknowledged_nor_shown(
    broker: MemoryBroker,
) -> None:
    await broker.create("t", configs=FSYNC)
    broker.fs.faults.append(Fault("sync", "t-0/00000000000000000000.log"))
    for _ in range(2):
        assert (await broker.produce(build(), acks=1)).error_code == Code.KAFKA_STORAGE_ERROR
        assert (await broker.fetch()).error_code == Code.KAFKA_STORAGE_ERROR


@scenario()
async def test_with_acks_0_consumers_wait_and_what_is_sent_behind_it(
    broker: MemoryBroker,
) -> None:
    await broker.create("t", configs=FSYNC)
    broker.jobs.hold(FLUSH)
    producer = broker.connect()
    producer.tell("Produce", 9, **producing({("t", 0): build()}, acks=0))
    behind = producer.send("Fetch", 11, **fetching({("t", 0): 0}, max_wait_ms=0))
    assert (await broker.fetch()).high_watermark == 0
    await run_until_idle()
    assert not behind.done()
    broker.jobs.release()
    await run_until_idle()
    assert behind.result().responses[0].partitions[0].high_watermark == 3
    assert (await broker.fetch()).high_watermark == 3


@scenario()
async def test_with_acks_0_a_failed_fsync_closes_the_connection(broker: MemoryBroker) -> None:
    await broker.create("t", configs=FSYNC)
    broker.fs.faults.append(Fault("sync", "t-0/00000000000000000000.log"))
    producer = broker.connect()
    producer.tell("Produce", 9, **producing({("t", 0): build()}, acks=0))
    with pytest.raises(Closed):
        await producer.send("Fetch", 11, **fetching({("t", 0): 0}, max_wait_ms=0))


@scenario()
async def test_with_acks_0_a_topic_that_is_deleted_meanwhile_closes_nothing(
    broker: MemoryBroker,
) -> None:
    for name in ("t", "u"):
        await broker.create(name, configs=FSYNC)
    broker.jobs.hold(FLUSH)
    producer = broker.connect()
    producer.tell("Produce", 9, **producing({("t", 0): build()}, acks=0))
    producer.tell("Produce", 9, **producing({("u", 0): build()}, acks=0))
    behind = producer.send("Fetch", 11, **fetching({("u", 0): 0}, max_wait_ms=0))
    deleted = broker.connect().send("DeleteTopics", 5, topic_names=["t"], timeout_ms=60_000)
    await run_until_idle()
    broker.jobs.release()
    await run_until_idle()
    assert deleted.result().responses[0].error_code == Code.NONE
    assert behind.result().responses[0].partitions[0].high_watermark == 3


@scenario(f"{KEY}=fsync")
async def test_the_broker_s_setting_is_the_topics_default(broker: MemoryBroker) -> None:
    await broker.create("t")
    await broker.create("u", configs={KEY: "system"})
    broker.jobs.hold(FLUSH)
    sent = {topic: send(broker, topic=topic) for topic in ("t", "u")}
    await run_until_idle()
    assert [topic for topic in sent if sent[topic].done()] == ["u"]
    broker.jobs.release()
    await run_until_idle()
    assert sent["t"].done()


@scenario(topics={"t": 1})
async def test_it_is_switched_on_and_off_while_it_runs(broker: MemoryBroker) -> None:
    broker.jobs.hold(FLUSH)
    assert outcome_of(await change(broker, (TOPIC, "t", [(KEY, SET, "never")]))) == (
        Code.INVALID_CONFIG
    )
    first = send(broker)
    await run_until_idle()
    assert first.done(), "off"
    assert outcome_of(await change(broker, (TOPIC, "t", [(KEY, SET, "fsync")]))) == Code.NONE
    await run_until_idle()
    assert (await broker.fetch()).high_watermark == 3, "what was shown stays"
    assert broker.jobs.held == [FLUSH], "and is made safe"
    second = send(broker)
    await run_until_idle()
    assert not second.done()
    assert outcome_of(await change(broker, (TOPIC, "t", [(KEY, DELETE, None)]))) == Code.NONE
    await run_until_idle()
    assert second.done(), "off again"
    assert (await broker.fetch()).high_watermark == 6
    broker.jobs.release()


def outcome_of(outcomes: list[tuple[int, str | None]]) -> int:
    ((code, _),) = outcomes
    return code


@scenario(topics={"t": 1})
async def test_the_broker_s_default_is_switched_while_it_runs(broker: MemoryBroker) -> None:
    assert outcome_of(await change(broker, (BROKER, "", [(KEY, SET, "fsync")]))) == Code.NONE
    assert await value_of(broker, BROKER, "1", KEY) == "fsync"
    broker.jobs.hold(FLUSH)
    sent = send(broker)
    await run_until_idle()
    assert not sent.done()
    broker.jobs.release()
    await run_until_idle()
    assert sent.done()


@scenario()
async def test_a_topic_is_described_as_by_apache_kafka_until_it_is_set(
    broker: MemoryBroker,
) -> None:
    await broker.create("t")
    assert await value_of(broker, TOPIC, "t", KEY) == "<none>"
    await change(broker, (TOPIC, "t", [(KEY, SET, "fsync")]))
    assert await value_of(broker, TOPIC, "t", KEY) == "fsync"


@scenario()
async def test_what_a_killed_process_wrote_is_shown_after_an_fsync(broker: MemoryBroker) -> None:
    await broker.create("t", configs=FSYNC)
    broker.jobs.hold(FLUSH)
    send(broker)
    await run_until_idle()
    await broker.kill()
    assert (await broker.list_offset(END)).offset == 3
    await broker.crash()
    assert len(await broker.read_all()) == 3, "it was shown, so it stays"


@scenario()
async def test_flush_messages_1_shows_nothing_before_its_fsync(broker: MemoryBroker) -> None:
    """As in Apache Kafka, which does the fsync before it moves the high watermark."""
    await broker.create("t", configs={"flush.messages": "5"})
    broker.jobs.hold(FLUSH)
    first, second, third = send(broker), send(broker), send(broker)
    await run_until_idle()
    assert first.done() and not second.done() and not third.done()
    assert (await broker.fetch()).high_watermark == 3
    broker.jobs.release()
    await run_until_idle()
    assert outcome(second).error_code == outcome(third).error_code == Code.NONE
    assert (await broker.fetch()).high_watermark == 9


@scenario()
async def test_a_batch_that_came_during_the_fsync_is_not_kept_waiting(
    broker: MemoryBroker,
) -> None:
    """It is too few by itself for another one."""
    await broker.create("t", configs={"flush.messages": "5"})
    await broker.produce(build())
    broker.jobs.hold(FLUSH)
    due = send(broker)
    await run_until_idle()
    assert broker.jobs.held == [FLUSH]
    late = send(broker)
    await run_until_idle()
    broker.jobs.release()
    await run_until_idle()
    assert outcome(due).error_code == outcome(late).error_code == Code.NONE
    assert (await broker.fetch()).high_watermark == 9


@pytest.mark.parametrize("seed", range(6))
@scenario()
async def test_no_power_cut_takes_what_was_acknowledged_or_read(
    broker: MemoryBroker, seed: int
) -> None:
    """Fsyncs that take their time, rolls, and cuts that tear what was not synced."""
    chance = random.Random(seed)
    await broker.create("t", configs=FSYNC | {"internal.segment.bytes": "2000"})
    acknowledged: dict[int, bytes] = {}
    seen: list[Read] = []
    number = 0
    for _ in range(ROUNDS):
        sent: list[tuple[bytes, asyncio.Future[Any]]] = []
        for _ in range(chance.randint(1, 12)):
            number += 1
            value = b"%06d" % number + chance.randbytes(chance.randint(0, 400))
            request = producing(
                {("t", 0): build([Written(value=value)])}, acks=chance.choice((1, -1))
            )
            sent.append((value, broker.connect().send("Produce", 9, **request)))
            if chance.random() < 0.3:
                broker.jobs.hold(FLUSH)
            elif chance.random() < 0.5:
                broker.jobs.release()
            await run_until_idle(chance.randint(0, 20))
        seen = await broker.read_all()
        for value, answer in sent:
            if answer.done() and outcome(answer).error_code == Code.NONE:
                acknowledged[outcome(answer).base_offset] = value
        await broker.crash(random.Random(chance.random()))
        found = await broker.read_all()
        assert found[: len(seen)] == seen
        values = {record.offset: record.value for record in found}
        assert {offset: values.get(offset) for offset in acknowledged} == acknowledged
    assert len(acknowledged) > ROUNDS
