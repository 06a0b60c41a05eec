"""aiokafka. It takes no record without key and value."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from support.clients.client import CLIENT_TIMEOUT_S, Ack, Found
from support.clients.corpus import Record, Shapes

POLL_MS = 500
CREATE_TIME = 0


class AioKafka:
    """Driver of aiokafka; each call runs an event loop of its own."""

    name = "aiokafka"
    shapes = Shapes(null_pair=False)

    def create_topic(self, bootstrap: str, topic: str, partitions: int) -> None:
        asyncio.run(_create(bootstrap, topic, partitions))

    def write(self, bootstrap: str, topic: str, records: Sequence[Record], codec: str) -> list[Ack]:
        return asyncio.run(_write(bootstrap, topic, records, codec))

    def read(self, bootstrap: str, topic: str, ends: Mapping[int, int]) -> dict[int, list[Found]]:
        return asyncio.run(_read(bootstrap, topic, ends))


async def _create(bootstrap: str, topic: str, partitions: int) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        response = await admin.create_topics([NewTopic(topic, partitions, 1)])
    finally:
        await admin.close()
    # Unlike the other clients it leaves the error codes in the response.
    errors = [(name, code) for name, code, *_ in response.topic_errors if code]
    assert not errors, errors


async def _write(bootstrap: str, topic: str, records: Sequence[Record], codec: str) -> list[Ack]:
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap,
        acks="all",
        enable_idempotence=True,
        linger_ms=5,
        compression_type=None if codec == "none" else codec,
    )
    await producer.start()
    try:
        sent = [
            await producer.send(
                topic,
                record.value,
                record.key,
                partition=record.partition,
                timestamp_ms=record.timestamp_ms,
                headers=list(record.headers),
            )
            for record in records
        ]
        async with asyncio.timeout(CLIENT_TIMEOUT_S):
            done = await asyncio.gather(*sent)
    finally:
        await producer.stop()
    return [Ack(metadata.partition, metadata.offset) for metadata in done]


async def _read(bootstrap: str, topic: str, ends: Mapping[int, int]) -> dict[int, list[Found]]:
    found: dict[int, list[Found]] = {partition: [] for partition in ends}
    partitions = [TopicPartition(topic, partition) for partition in ends]
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap)
    await consumer.start()
    try:
        consumer.assign(partitions)
        await consumer.seek_to_beginning(*partitions)
        async with asyncio.timeout(CLIENT_TIMEOUT_S):
            while any([await consumer.position(tp) < ends[tp.partition] for tp in partitions]):
                for batch in (await consumer.getmany(timeout_ms=POLL_MS)).values():
                    for message in batch:
                        assert message.timestamp_type == CREATE_TIME
                        found[message.partition].append(_found(message))
    finally:
        await consumer.stop()
    return found


def _found(message) -> Found:  # type: ignore[no-untyped-def]  # generic over its own types
    return Found(
        message.offset,
        Record(
            message.key,
            message.value,
            tuple(message.headers),
            message.partition,
            message.timestamp,
        ),
    )
