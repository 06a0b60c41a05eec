"""Partitions added to a topic by stock clients while others write to it and read from it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewPartitions
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.errors import InvalidPartitionsError

from support import java
from support.broker import StartBroker
from support.clients.kafka_python import KafkaPython, create_topic, offsets
from support.dump_log import assert_sound
from support.process import BrokerProcess
from support.wait import eventually

TIMEOUT_S = 60
METADATA_MAX_AGE_MS = 100
BEFORE, AFTER = 2, 5

Extend = Callable[[str, str, int], None]


def by_kafka_python(bootstrap: str, topic: str, count: int) -> None:
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        admin.create_partitions({topic: count})


def by_confluent(bootstrap: str, topic: str, count: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_partitions([NewPartitions(topic, count)])[topic].result(TIMEOUT_S)


def by_java(bootstrap: str, topic: str, count: int) -> None:
    done = java.run(
        java.TOPICS,
        f"--bootstrap-server={bootstrap}",
        "--alter",
        f"--topic={topic}",
        f"--partitions={count}",
    )
    assert (done.exit_code, done.text, done.stderr) == (0, "", ""), done


EXTEND = (by_kafka_python, by_confluent, by_java)


@contextmanager
def writing(bootstrap: str, topic: str) -> Iterator[Callable[[], dict[int, int]]]:
    """A producer that writes all the time, round all partitions that it knows.

    Gives a function that returns how many records it has had acknowledged, by partition. Fails
    when any could not be written.
    """
    stopped = threading.Event()
    acknowledged: dict[int, int] = {}

    def write() -> None:
        producer = KafkaProducer(
            bootstrap_servers=bootstrap, acks="all", metadata_max_age_ms=METADATA_MAX_AGE_MS
        )
        with closing(producer):
            while not stopped.is_set():
                for partition in sorted(producer.partitions_for(topic)):
                    sent = producer.send(topic, b"x", partition=partition)
                    sent.get(timeout=TIMEOUT_S)
                    acknowledged[partition] = acknowledged.get(partition, 0) + 1

    with ThreadPoolExecutor(1) as pool:
        running: Future[None] = pool.submit(write)

        def counts() -> dict[int, int]:
            if running.done():
                running.result()
            return dict(acknowledged)

        try:
            yield counts
        finally:
            stopped.set()
        running.result(TIMEOUT_S)


@pytest.mark.parametrize("extend", EXTEND, ids=lambda extend: extend.__name__)
def test_a_running_producer_uses_new_partitions(
    start_broker: StartBroker, topic: str, extend: Extend
) -> None:
    broker = start_broker()
    create_topic(broker.bootstrap, topic, BEFORE)
    with writing(broker.bootstrap, topic) as counts:
        eventually(lambda: len(counts()) == BEFORE, within_s=TIMEOUT_S, what="it writes")
        extend(broker.bootstrap, topic, AFTER)
        eventually(lambda: len(counts()) == AFTER, within_s=TIMEOUT_S, what="it writes to all")
    expected = counts()
    assert sorted(expected) == list(range(AFTER))
    check(broker, topic, expected)
    broker.kill()
    broker.start()
    check(broker, topic, expected)
    extend(broker.bootstrap, topic, AFTER + 1)
    assert offsets(broker.bootstrap, topic, AFTER + 1)[1][AFTER] == 0
    broker.stop()
    if java.available():
        assert assert_sound(broker.data_dir).records == sum(expected.values())


def check(broker: BrokerProcess, topic: str, expected: dict[int, int]) -> None:
    """Everything acknowledged is there, and can be read."""
    _, ends = offsets(broker.bootstrap, topic, AFTER)
    assert ends == expected
    found = KafkaPython().read(broker.bootstrap, topic, ends)
    assert {partition: len(records) for partition, records in found.items()} == expected


def test_a_running_consumer_finds_the_new_ones(broker: BrokerProcess, topic: str) -> None:
    """One without a group, which learns of them from its metadata."""
    create_topic(broker.bootstrap, topic, 1)
    consumer = KafkaConsumer(
        bootstrap_servers=broker.bootstrap, metadata_max_age_ms=METADATA_MAX_AGE_MS
    )
    with closing(consumer):
        assert consumer.partitions_for_topic(topic) == {0}
        by_confluent(broker.bootstrap, topic, 3)
        assert consumer.partitions_for_topic(topic) == {0, 1, 2} or eventually(
            lambda: sees(consumer, topic, 3), within_s=TIMEOUT_S, what="the new partitions"
        )


def sees(consumer: KafkaConsumer, topic: str, partitions: int) -> bool:
    """Whether a consumer that looks again knows so many partitions of a topic."""
    consumer.topics()
    return len(consumer.partitions_for_topic(topic) or ()) == partitions


def test_librdkafka_s_producer_writes_to_a_new_partition(broker: BrokerProcess, topic: str) -> None:
    create_topic(broker.bootstrap, topic, 1)
    delivered: list[Any] = []
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "topic.metadata.refresh.interval.ms": 100}
    )
    producer.produce(
        topic, b"old", partition=0, on_delivery=lambda *report: delivered.append(report)
    )
    producer.flush(TIMEOUT_S)
    by_kafka_python(broker.bootstrap, topic, 2)

    def knows() -> bool:
        return len(producer.list_topics(topic, TIMEOUT_S).topics[topic].partitions) == 2

    eventually(knows, within_s=TIMEOUT_S, what="the producer knows the new partition")
    producer.produce(
        topic, b"new", partition=1, on_delivery=lambda *report: delivered.append(report)
    )
    producer.flush(TIMEOUT_S)
    assert [(error, message.partition(), message.offset()) for error, message in delivered] == [
        (None, 0, 0),
        (None, 1, 0),
    ]
    assert offsets(broker.bootstrap, topic, 2)[1] == {0: 1, 1: 1}


def test_a_topic_can_t_become_smaller(broker: BrokerProcess, topic: str) -> None:
    create_topic(broker.bootstrap, topic, 3)
    with pytest.raises(InvalidPartitionsError, match="would not be an increase"):
        by_kafka_python(broker.bootstrap, topic, 2)
    with pytest.raises(KafkaException, match="Topic already has 3 partition"):
        by_confluent(broker.bootstrap, topic, 3)
    assert len(offsets(broker.bootstrap, topic, 3)[0]) == 3
