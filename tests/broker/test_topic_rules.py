"""Topics that store records otherwise than they were sent, or refuse some: with stock clients."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Consumer, KafkaError, Message, Producer
from confluent_kafka import TopicPartition as Place
from kafka import KafkaProducer
from kafka.errors import InvalidRecordError, InvalidTimestampError

from support import java
from support.broker import StartBroker
from support.clients import compare, corpus
from support.clients.client import CLIENT_TIMEOUT_S
from support.clients.every import AIOKAFKA, KAFKA_PYTHON
from support.clients.kafka_python import create_topic, offsets
from support.dump_log import assert_sound
from support.process import BrokerProcess
from support.segments import codecs
from support.wait import eventually

COUNT = 2_000
HOUR_MS = 3_600_000
SENT_IN = {"uncompressed": "zstd", "gzip": "none", "snappy": "gzip", "lz4": "snappy", "zstd": "lz4"}
"""What is written to a topic of another `compression.type`."""


def now_ms() -> int:
    """Wall-clock time as record timestamps count it."""
    return time.time_ns() // 1_000_000


def test_every_client_reads_what_the_broker_compressed(start_broker: StartBroker) -> None:
    broker = start_broker()
    written = corpus.make(KAFKA_PYTHON.shapes, now_ms(), COUNT)
    for compression_type, codec in SENT_IN.items():
        create_topic(
            broker.bootstrap,
            compression_type,
            corpus.PARTITIONS,
            {"compression.type": compression_type},
        )
        acks = KAFKA_PYTHON.write(broker.bootstrap, compression_type, written, codec)
        _, ends = offsets(broker.bootstrap, compression_type, corpus.PARTITIONS)
        found = KAFKA_PYTHON.read(broker.bootstrap, compression_type, ends)
        compare.assert_placed(written, acks, found)
        compare.assert_same(found, AIOKAFKA.read(broker.bootstrap, compression_type, ends))
        stored = "none" if compression_type == "uncompressed" else compression_type
        assert codecs(broker.data_dir, compression_type) == {stored}
    broker.stop()
    if java.available():  # Java's readers take them too
        assert assert_sound(broker.data_dir).records == COUNT * len(SENT_IN)


def test_records_carry_the_time_of_their_append(start_broker: StartBroker) -> None:
    broker = start_broker(**{"log.message.timestamp.type": "LogAppendTime"})
    create_topic(broker.bootstrap, "t", 1, {"compression.type": "lz4"})
    create_topic(broker.bootstrap, "u", 1)
    from_ms = now_ms()
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})
    for number in range(COUNT):
        producer.produce("tu"[number % 2], b"%d" % number, timestamp=1_000 + number)
    assert producer.flush(CLIENT_TIMEOUT_S) == 0
    to_ms = now_ms()
    for topic in "tu":
        times = list(read_times(broker, topic, COUNT // 2))
        assert {kind for kind, _ in times} == {TIMESTAMP_LOG_APPEND_TIME}
        values = [time_ms for _, time_ms in times]
        assert from_ms <= min(values) <= max(values) <= to_ms
        assert values == sorted(values)
    broker.stop()
    if java.available():
        assert assert_sound(broker.data_dir).records == COUNT


def read_times(broker: BrokerProcess, topic: str, count: int) -> Iterator[tuple[int, int]]:
    """(kind of timestamp, timestamp in ms) of the first records."""
    settings = {"group.id": "only a name", "enable.auto.commit": False}
    with closing(Consumer({"bootstrap.servers": broker.bootstrap, **settings})) as consumer:
        consumer.assign([Place(topic, 0, 0)])
        messages: list[Message] = []

        def are_all() -> bool:
            messages.extend(consumer.consume(count - len(messages), timeout=0.5))
            return len(messages) == count

        eventually(are_all, within_s=CLIENT_TIMEOUT_S, what=f"{topic} is read")
    for message in messages:
        assert message.error() is None
        yield message.timestamp()


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_clients_get_an_error_for_a_refused_record(broker: BrokerProcess, policy: str) -> None:
    topic = f"rules-{policy.replace(',', '-')}"
    create_topic(broker.bootstrap, topic, 1, {"cleanup.policy": policy})
    send(broker, topic, key=b"k")
    with pytest.raises(InvalidRecordError, match="without key"):
        send(broker, topic)
    with pytest.raises(InvalidTimestampError):
        send(broker, topic, key=b"k", timestamp_ms=now_ms() + 3 * HOUR_MS)
    errors: list[KafkaError | None] = []
    confluent = Producer({"bootstrap.servers": broker.bootstrap})
    confluent.produce(topic, b"v", on_delivery=lambda error, _: errors.append(error))
    assert confluent.flush(CLIENT_TIMEOUT_S) == 0
    assert [error and error.code() for error in errors] == [KafkaError.INVALID_RECORD]
    _, ends = offsets(broker.bootstrap, topic, 1)
    assert ends == {0: 1}, "of all these only one was taken"


def send(broker: BrokerProcess, topic: str, **arguments: Any) -> None:
    """One record, from a producer of its own: after a refusal it says the same of all further."""
    with closing(KafkaProducer(bootstrap_servers=broker.bootstrap)) as producer:
        producer.send(topic, value=b"v", **arguments).get(CLIENT_TIMEOUT_S)
