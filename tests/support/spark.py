"""Records in topics and in Spark's tables, for tests of Spark on a broker.

A test produces with kafka-python, which says where each record came to lie; the same records are
then expected of Spark. `Stored` is a record of a topic, whichever of the two has read it.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType

from support.wait import eventually

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Headers = tuple[tuple[str, bytes | None], ...]

CLIENT_WITHIN_S: Final = 60.0
POLL_MS: Final = 200


def whole() -> bool:
    """Whether all tests are to run, on both brokers (`make spark`), and not only a quick part."""
    return os.environ.get("SPARK") == "whole"


class Record(NamedTuple):
    """A record to produce. kafka-python chooses the partition (by the key) where it is None, and
    the time of sending where `timestamp_ms` is; it takes no header that is null."""

    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: Headers = ()


class Stored(NamedTuple):
    """A record in a topic. Sorted by topic, partition and offset, which no two share."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()

    def bare(self) -> Stored:
        """Without headers, as the source gives it without `includeHeaders`."""
        return self._replace(headers=())


def create_topic(
    bootstrap: str,
    topic: str,
    partitions: int = 1,
    configs: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Create a topic with one replica, and wait until its partitions have leaders; its name."""
    new_topic = {"num_partitions": partitions, "replication_factor": 1, "configs": dict(configs)}
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        admin.create_topics({topic: new_topic})
        admin.wait_for_topics([topic])
    return topic


def delete_topic(bootstrap: str, topic: str) -> None:
    """Delete a topic, and wait until the broker knows it no more."""
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        admin.delete_topics([topic])
        eventually(
            lambda: topic not in admin.list_topics(),
            within_s=CLIENT_WITHIN_S,
            what=f"{topic} is gone",
        )


def delete_records(bootstrap: str, topic: str, before: Mapping[int, int]) -> None:
    """Delete the records below an offset, by partition (DeleteRecords)."""
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        admin.delete_records(
            {TopicPartition(topic, partition): offset for partition, offset in before.items()}
        )


def set_config(bootstrap: str, topic: str, name: str, value: str) -> None:
    """Change one of a topic's configs."""
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {name: value})])


def produce(bootstrap: str, topic: str, records: Iterable[Record], **settings: Any) -> list[Stored]:
    """Write records with kafka-python, in order; where they are, in the same order. `settings` are
    more of KafkaProducer's."""
    with closing(KafkaProducer(bootstrap_servers=bootstrap, acks="all", **settings)) as producer:
        return send(producer, topic, records)


def send(producer: KafkaProducer, topic: str, records: Iterable[Record]) -> list[Stored]:
    """The same with a producer that is there, for instance in a transaction.

    A record that names no time gets that of its sending here, so that it is known from elsewhere
    than the broker.
    """
    timed = [
        record
        if record.timestamp_ms is not None
        else record._replace(timestamp_ms=time.time_ns() // 1_000_000)
        for record in records
    ]
    sent = [
        producer.send(
            topic,
            key=record.key,
            value=record.value,
            headers=list(record.headers),
            partition=record.partition,
            timestamp_ms=record.timestamp_ms,
        )
        for record in timed
    ]
    producer.flush(timeout=CLIENT_WITHIN_S)
    done = [future.get(timeout=CLIENT_WITHIN_S) for future in sent]
    return [
        Stored(
            topic,
            metadata.partition,
            metadata.offset,
            record.timestamp_ms or 0,
            record.key,
            record.value,
            record.headers,
        )
        for record, metadata in zip(timed, done, strict=True)
    ]


def read_topic(bootstrap: str, topic: str, *, committed: bool = True) -> list[Stored]:
    """All records of a topic, read with kafka-python, sorted; `committed` leaves out those of
    aborted and unfinished transactions."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        isolation_level="read_committed" if committed else "read_uncommitted",
    )
    found: list[Stored] = []
    with closing(consumer):
        numbers = eventually(
            lambda: consumer.partitions_for_topic(topic),
            within_s=CLIENT_WITHIN_S,
            what=f"{topic} has partitions",
        )
        partitions = [TopicPartition(topic, number) for number in numbers]
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        ends = consumer.end_offsets(partitions)

        def at_end() -> bool:
            for batch in consumer.poll(timeout_ms=POLL_MS).values():
                found.extend(_stored(message) for message in batch)
            return all(consumer.position(tp) >= ends[tp] for tp in partitions)

        eventually(at_end, within_s=CLIENT_WITHIN_S, what=f"{topic} is read to its end")
    return sorted(found, key=place)


def _stored(message: Any) -> Stored:
    return Stored(
        message.topic,
        message.partition,
        message.offset,
        message.timestamp,
        message.key,
        message.value,
        tuple(message.headers),
    )


def end_offsets(bootstrap: str, topic: str, partitions: int) -> dict[int, int]:
    """The offset behind the last record, by partition."""
    topic_partitions = [TopicPartition(topic, partition) for partition in range(partitions)]
    with closing(KafkaConsumer(bootstrap_servers=bootstrap)) as consumer:
        return {
            tp.partition: offset for tp, offset in consumer.end_offsets(topic_partitions).items()
        }


def start_offsets(bootstrap: str, topic: str, partitions: int) -> dict[int, int]:
    """The offset of the first record that is left, by partition."""
    topic_partitions = [TopicPartition(topic, partition) for partition in range(partitions)]
    with closing(KafkaConsumer(bootstrap_servers=bootstrap)) as consumer:
        return {
            tp.partition: offset
            for tp, offset in consumer.beginning_offsets(topic_partitions).items()
        }


def place(record: Stored) -> tuple[str, int, int]:
    """What records are sorted by."""
    return record.topic, record.partition, record.offset


def rows(frame: DataFrame) -> list[Stored]:
    """What Spark's Kafka source gives, sorted: with headers if `includeHeaders` is set."""
    from pyspark.sql import functions as sql

    columns: Sequence[Any] = ("topic", "partition", "offset", "key", "value", "timestampType")
    if "headers" in frame.columns:
        columns = (*columns, "headers")
    in_ms = sql.unix_millis("timestamp").alias("timestamp_ms")
    found = []
    for row in frame.select(*columns, in_ms).collect():
        assert row.timestampType == 0, "not the time of creation"
        headers = row.headers if "headers" in columns else None
        found.append(
            Stored(
                row.topic,
                row.partition,
                row.offset,
                row.timestamp_ms,
                _bytes(row.key),
                _bytes(row.value),
                tuple((header.key, _bytes(header.value)) for header in headers or ()),
            )
        )
    return sorted(found, key=place)


def _bytes(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)


def numbered(
    count: int,
    *,
    partitions: int = 1,
    start: int = 0,
    first_ms: int | None = None,
    step_ms: int = 1000,
) -> list[Record]:
    """`count` records that all differ, over the partitions in turn: with keys (every fifth has
    none), values (every seventh is empty) and headers (every third has two of one name).

    The first is of `first_ms`, and each of `step_ms` later than the one before; or of now.
    """
    made = []
    for number in range(start, start + count):
        headers: Headers = ()
        if number % 3 == 0:
            headers = (("n", str(number).encode()), ("n", b""), ("\u00e9", b"\x00\xff"))
        made.append(
            Record(
                value=b"" if number % 7 == 3 else f"value {number}".encode(),
                key=None if number % 5 == 4 else f"key {number}".encode(),
                partition=number % partitions,
                timestamp_ms=None if first_ms is None else first_ms + (number - start) * step_ms,
                headers=headers,
            )
        )
    return made


def by_partition(records: Iterable[Stored]) -> dict[int, list[Stored]]:
    """Records by partition, in the order of their offsets."""
    ordered = sorted(records, key=place)
    return {
        partition: list(group)
        for partition, group in itertools.groupby(ordered, key=lambda record: record.partition)
    }
