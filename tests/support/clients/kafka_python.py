"""kafka-python. It takes neither a null header value nor a record without key and value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from types import MappingProxyType

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

from support.clients.client import CLIENT_TIMEOUT_S, Ack, Found
from support.clients.corpus import Record, Shapes
from support.wait import eventually

POLL_MS = 500
CREATE_TIME = 0


class KafkaPython:
    """Driver of kafka-python."""

    name = "kafka-python"
    shapes = Shapes(null_pair=False, null_headers=False)

    def create_topic(self, bootstrap: str, topic: str, partitions: int) -> None:
        create_topic(bootstrap, topic, partitions)

    def write(self, bootstrap: str, topic: str, records: Sequence[Record], codec: str) -> list[Ack]:
        producer = KafkaProducer(
            bootstrap_servers=bootstrap,
            acks="all",
            linger_ms=5,
            compression_type=None if codec == "none" else codec,
        )
        with closing(producer):
            sent = [
                producer.send(
                    topic,
                    key=record.key,
                    value=record.value,
                    headers=list(record.headers),
                    partition=record.partition,
                    timestamp_ms=record.timestamp_ms,
                )
                for record in records
            ]
            producer.flush(timeout=CLIENT_TIMEOUT_S)
            done = [future.get(timeout=CLIENT_TIMEOUT_S) for future in sent]
        return [Ack(metadata.partition, metadata.offset) for metadata in done]

    def read(self, bootstrap: str, topic: str, ends: Mapping[int, int]) -> dict[int, list[Found]]:
        found: dict[int, list[Found]] = {partition: [] for partition in ends}
        partitions = [TopicPartition(topic, partition) for partition in ends]
        with closing(KafkaConsumer(bootstrap_servers=bootstrap)) as consumer:
            consumer.assign(partitions)
            consumer.seek_to_beginning(*partitions)

            def at_end() -> bool:
                for batch in consumer.poll(timeout_ms=POLL_MS).values():
                    for message in batch:
                        found[message.partition].append(_found(message))
                return all(consumer.position(tp) >= ends[tp.partition] for tp in partitions)

            eventually(at_end, within_s=CLIENT_TIMEOUT_S, what=f"{self.name} read {topic}")
        return found


def _found(message) -> Found:  # type: ignore[no-untyped-def]  # the library's namedtuple
    assert message.timestamp_type == CREATE_TIME
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


def create_topic(
    bootstrap: str,
    topic: str,
    partitions: int,
    configs: Mapping[str, str] = MappingProxyType({}),
    *,
    replicas: int = 1,
) -> None:
    """Create a topic; -1 partitions for the broker's default."""
    new_topic = {
        "num_partitions": partitions,
        "replication_factor": replicas,
        "configs": dict(configs),
    }
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        admin.create_topics({topic: new_topic})


def offsets(bootstrap: str, topic: str, partitions: int) -> tuple[dict[int, int], dict[int, int]]:
    """Earliest and latest offset per partition, as ListOffsets gives them."""
    topic_partitions = [TopicPartition(topic, partition) for partition in range(partitions)]
    with closing(KafkaConsumer(bootstrap_servers=bootstrap)) as consumer:
        first = consumer.beginning_offsets(topic_partitions)
        last = consumer.end_offsets(topic_partitions)
    return (
        {tp.partition: offset for tp, offset in first.items()},
        {tp.partition: offset for tp, offset in last.items()},
    )
