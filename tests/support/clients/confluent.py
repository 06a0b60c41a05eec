"""confluent-kafka, that is librdkafka."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from confluent_kafka import (
    OFFSET_BEGINNING,
    TIMESTAMP_CREATE_TIME,
    Consumer,
    KafkaError,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from support.clients.client import CLIENT_TIMEOUT_S, Ack, Found
from support.clients.corpus import Record, Shapes
from support.wait import eventually

POLL_S = 0.5
MESSAGES_A_POLL = 1_000


class Confluent:
    """Driver of confluent-kafka."""

    name = "confluent-kafka"
    shapes = Shapes()

    def create_topic(self, bootstrap: str, topic: str, partitions: int) -> None:
        admin = AdminClient({"bootstrap.servers": bootstrap})
        created = admin.create_topics([NewTopic(topic, partitions, 1)])
        created[topic].result(timeout=CLIENT_TIMEOUT_S)

    def write(self, bootstrap: str, topic: str, records: Sequence[Record], codec: str) -> list[Ack]:
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "compression.type": codec,
                "batch.size": 16_384,  # as the other clients; its own default is a megabyte
            }
        )
        acks: list[Ack | None] = [None] * len(records)

        def delivered(number: int, error: KafkaError | None, message: Message) -> None:
            assert error is None, error
            acks[number] = Ack(message.partition(), message.offset())

        for number, record in enumerate(records):
            producer.produce(
                topic,
                record.value,
                record.key,
                partition=record.partition,
                timestamp=record.timestamp_ms,
                headers=list(record.headers),
                on_delivery=lambda error, message, n=number: delivered(n, error, message),
            )
            producer.poll(0)
        assert producer.flush(CLIENT_TIMEOUT_S) == 0
        return [ack for ack in acks if ack is not None]

    def read(self, bootstrap: str, topic: str, ends: Mapping[int, int]) -> dict[int, list[Found]]:
        found: dict[int, list[Found]] = {partition: [] for partition in ends}
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "no group: librdkafka wants a name, but only assigns",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
            }
        )
        try:
            consumer.assign(
                [TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in ends]
            )

            def goes_on() -> bool:
                messages = consumer.consume(MESSAGES_A_POLL, POLL_S)
                for message in messages:
                    assert message.error() is None, message.error()
                    found[message.partition()].append(_found(message))
                return bool(messages)

            def is_whole() -> bool:
                return all(  # by offset: old records, or old values of a key, may be gone
                    not end or (found[partition] and found[partition][-1].offset >= end - 1)
                    for partition, end in ends.items()
                )

            while not is_whole():  # there may be millions
                eventually(goes_on, within_s=CLIENT_TIMEOUT_S, what=f"{self.name} read {topic}")
        finally:
            consumer.close()
        return found


def _found(message: Message) -> Found:
    kind, timestamp_ms = message.timestamp()
    assert kind == TIMESTAMP_CREATE_TIME
    return Found(
        message.offset(),
        Record(
            message.key(),
            message.value(),
            tuple(message.headers() or ()),
            message.partition(),
            timestamp_ms,
        ),
    )
