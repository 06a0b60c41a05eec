"""kafka-python's clients against brokers in their own process, which are restarted and killed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from kavka.testing import AsyncBroker, Broker

WITHIN_S = 60
RECORDS = 3_000
KILLS = 3


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


def read_all(broker: Broker, topic: str) -> list[bytes]:
    """The values of partition 0 as a consumer gets them."""
    with KafkaConsumer(bootstrap_servers=broker.bootstrap_servers) as consumer:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek_to_beginning()
        (end,) = consumer.end_offsets([partition]).values()
        return [next(consumer).value for _ in range(end)]


def test_nothing_acknowledged_is_lost_or_doubled_by_kills(broker: Broker) -> None:
    """An idempotent producer goes on through kills in the midst of its writing."""
    broker.create_topic("t")
    acknowledged = threading.Semaphore(0)
    with KafkaProducer(
        bootstrap_servers=broker.bootstrap_servers,
        acks="all",
        enable_idempotence=True,
        batch_size=1_000,
        retry_backoff_ms=20,
        reconnect_backoff_ms=20,
        delivery_timeout_ms=WITHIN_S * 1000,
    ) as producer:
        sent = []
        for number in range(RECORDS):
            future = producer.send("t", b"%d" % number)
            future.add_callback(lambda _: acknowledged.release())
            sent.append(future)
        for _ in range(KILLS):
            for _ in range(RECORDS // (KILLS + 1)):
                assert acknowledged.acquire(timeout=WITHIN_S)
            broker.kill()
            broker.start()
        for number, future in enumerate(sent):
            assert future.get(timeout=WITHIN_S).offset == number
    expected = [b"%d" % number for number in range(RECORDS)]
    assert read_all(broker, "t") == expected
    assert [record.value for record in broker.read("t")] == expected


def test_clients_continue_over_a_restart(broker: Broker) -> None:
    broker.create_topic("t")
    with KafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(3):
            producer.send("t", b"%d" % number).get(timeout=WITHIN_S)
            broker.restart()
    assert read_all(broker, "t") == [b"0", b"1", b"2"]


def test_two_brokers_answer_their_own_clients() -> None:
    """Both encode and decode at once, in two threads, with one copy of the codec."""
    failures: list[BaseException] = []

    def use(broker: Broker, name: str) -> None:
        try:
            topics = [f"{name}-{number}" for number in range(5)]
            for topic in topics:
                broker.create_topic(topic)
            with KafkaProducer(bootstrap_servers=broker.bootstrap_servers, linger_ms=0) as producer:
                for number in range(500):
                    topic = topics[number % 5]
                    result = producer.send(topic, f"{name}{number}".encode()).get(WITHIN_S)
                    assert (result.topic, result.offset) == (topic, number // 5)
                    assert producer.partitions_for(topic) == {0}
            expected = [f"{name}{number}".encode() for number in range(2, 500, 5)]
            assert read_all(broker, topics[2]) == expected
        except BaseException as failure:
            failures.append(failure)

    with Broker() as first, Broker() as second:
        users = [
            threading.Thread(target=use, args=(first, "first")),
            threading.Thread(target=use, args=(second, "second")),
        ]
        for user in users:
            user.start()
        for user in users:
            user.join()
    assert not failures, failures


def test_clients_on_the_brokers_own_loop() -> None:
    async def main() -> None:
        async with AsyncBroker() as broker:
            await broker.create_topic("t")
            producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers)
            await producer.start()
            for number in range(100):
                await producer.send_and_wait("t", b"%d" % number)
            await broker.kill()
            await broker.start()
            await producer.send_and_wait("t", b"100")
            await producer.stop()
            consumer = AIOKafkaConsumer(
                "t", bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest"
            )
            await consumer.start()
            values = [(await consumer.getone()).value for _ in range(101)]
            await consumer.stop()
            assert values == [b"%d" % number for number in range(101)]

    asyncio.run(asyncio.wait_for(main(), WITHIN_S))
