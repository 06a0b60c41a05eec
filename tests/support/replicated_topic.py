"""Stock clients of a topic with two replicas, beside brokers on the running loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic

T = TypeVar("T")
DEADLINE_S = 120.0
PLACE = TopicPartition("t", 0)


async def in_thread(function: Callable[..., T], *args: Any, **options: Any) -> T:
    """Stock clients block; the brokers run on this loop."""
    return await asyncio.wait_for(asyncio.to_thread(function, *args, **options), DEADLINE_S)


def create(addresses: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=addresses)
    try:
        admin.create_topics([NewTopic("t", 1, 2)], timeout_ms=30_000)
    finally:
        admin.close()


def write(addresses: str, values: list[bytes]) -> None:
    """All of them, acknowledged by all in-sync replicas."""
    producer = KafkaProducer(bootstrap_servers=addresses, acks="all", retries=1000)
    try:
        sent = [producer.send("t", value) for value in values]
        producer.flush(timeout=DEADLINE_S)
        for future in sent:
            future.get(timeout=DEADLINE_S)
    finally:
        producer.close()


def read(addresses: str) -> list[bytes]:
    consumer = KafkaConsumer(bootstrap_servers=addresses, consumer_timeout_ms=30_000)
    try:
        consumer.assign([PLACE])
        consumer.seek_to_beginning(PLACE)
        end = consumer.end_offsets([PLACE])[PLACE]
        found: list[bytes] = []
        while consumer.position(PLACE) < end:
            found.append(next(consumer).value)
        return found
    finally:
        consumer.close()
