"""A producer and a consumer beside a crowd of idle, slow and stubborn connections."""

from __future__ import annotations

import logging
import struct
from contextlib import ExitStack

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from kavka.wire.frame import ARENA_BYTES, IN_USE_BYTES_MAX, POOL_BYTES_MAX, RESPONSE_BYTES_MAX
from support.broker import StartBroker
from support.clients.every import CONFLUENT
from support.crowd import (
    ANNOUNCED_BYTES,
    ASKED_BYTES,
    BYTE_WRITERS,
    IDLE,
    SLOW_READERS,
    Crowd,
    allow_open_files,
    connect,
    is_served,
    resident_bytes,
)
from support.wait import eventually

logger = logging.getLogger(__name__)

RECORDS = 3000
VALUE_BYTES = 1000
FILL_VALUE_BYTES = 16_000
WITHIN_S = 120.0
IDLE_BYTES = 8 * 1024
BEGUN_BYTES = 30 * 1024

BOUND_BYTES = (
    IN_USE_BYTES_MAX
    + POOL_BYTES_MAX
    + RESPONSE_BYTES_MAX
    + SLOW_READERS * ARENA_BYTES
    + (IDLE + SLOW_READERS + BYTE_WRITERS) * IDLE_BYTES
)
"""As docs/limits.md has it, for batches of less than 256 KiB."""


def test_memory_grows_with_what_is_sent_not_with_what_is_announced(
    start_broker: StartBroker,
) -> None:
    allow_open_files()
    broker = start_broker(**{"socket.listen.backlog.size": "4096"})
    assert broker.process is not None
    before_bytes = resident_bytes(broker.process.pid)
    begun = struct.pack(">i", ANNOUNCED_BYTES) + bytes(BEGUN_BYTES)
    with ExitStack() as stack:
        for _ in range(IDLE):
            stack.enter_context(connect(broker.port)).sendall(begun)
        another = stack.enter_context(connect(broker.port))
        assert is_served(another)
        pid = broker.process.pid
        eventually(
            lambda: resident_bytes(pid) - before_bytes > IDLE * BEGUN_BYTES // 2,
            within_s=WITHIN_S,
            what="it has come",
        )
        grown_bytes = resident_bytes(pid) - before_bytes
        logger.info("grew by %d MiB for %d MiB", grown_bytes >> 20, IDLE * BEGUN_BYTES >> 20)
        assert grown_bytes < 2 * IDLE * BEGUN_BYTES + POOL_BYTES_MAX
    broker.stop()


def test_producer_and_consumer_go_on(start_broker: StartBroker, topic: str) -> None:
    allow_open_files()
    value = b"v" * VALUE_BYTES
    broker = start_broker(**{"socket.listen.backlog.size": "4096"})  # they come all at once
    crowded = f"{topic}-crowded"
    for name in (topic, crowded):
        CONFLUENT.create_topic(broker.bootstrap, name, 1)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5})
    for _ in range(ASKED_BYTES // FILL_VALUE_BYTES + 100):
        producer.produce(crowded, bytes(FILL_VALUE_BYTES), partition=0)
    assert producer.flush(WITHIN_S) == 0
    assert broker.process is not None
    before_bytes = resident_bytes(broker.process.pid)
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "none", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    with Crowd(broker.port, crowded) as crowd:
        failed: list[object] = []
        read: list[int] = []
        grown_bytes = 0

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failed.append(error)

        def read_some() -> None:
            for message in consumer.consume(100, 0.01):
                assert message.error() is None, message.error()
                read.append(int(message.key()))

        for number in range(RECORDS):
            producer.produce(topic, value, str(number), partition=0, on_delivery=delivered)
            producer.poll(0)
            if number % 10 == 0:
                crowd.step()
                read_some()
                grown_bytes = max(grown_bytes, resident_bytes(broker.process.pid) - before_bytes)

        def all_read() -> bool:
            crowd.step()
            read_some()
            return len(read) >= RECORDS

        assert producer.flush(WITHIN_S) == 0
        eventually(all_read, within_s=WITHIN_S, what="every record is read")
        assert failed == []
        assert read == list(range(RECORDS))
        assert all(is_served(connection) for connection in crowd.idle)
    consumer.close()
    logger.info("grew by %d MiB", grown_bytes >> 20)
    assert grown_bytes < BOUND_BYTES
    broker.stop()
