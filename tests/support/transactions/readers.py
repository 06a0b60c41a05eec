"""Who writes the input and reads the output."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import closing

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec
from kafka import KafkaConsumer
from kafka import TopicPartition as Place

from support.transactions.judge import input_value
from support.wait import eventually

READ_WITHIN_S = 120.0
POLL_S = 0.1
OUTSTANDING_RECORDS_MAX = 20_000
NOT_KNOWN_YET = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
)
"""What is answered, or known to the client, while a leader changes."""

Got = dict[int, list[tuple[int, bytes]]]
"""Offset and value, by partition."""


def fill(bootstrap: str, topic: str, counts: Mapping[int, int]) -> None:
    """Write the input: record `number` of each partition lies at that offset."""
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in range(max(counts.values())):
        for partition, count in counts.items():
            if number < count:
                value = input_value(partition, number)
                producer.produce(topic, value, partition=partition, on_delivery=delivered)
        while len(producer) > OUTSTANDING_RECORDS_MAX:
            producer.poll(POLL_S)
    assert producer.flush(READ_WITHIN_S) == 0
    assert not failures, failures[:10]


def consumer(bootstrap: str, topic: str, partitions: int, isolation: str) -> Consumer:
    """One that reads a topic from its beginning, in no group."""
    made = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "none",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "log_level": 0,
        }
    )
    made.assign([TopicPartition(topic, at, 0) for at in range(partitions)])
    return made


class LiveReader(threading.Thread):
    """Reads committed records as they come, through all deaths of the broker."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        super().__init__(name="live reader", daemon=True)
        self.got: Got = {at: [] for at in range(partitions)}
        self.count = 0
        self._consumer = consumer(bootstrap, topic, partitions, "read_committed")
        self._stopping = threading.Event()

    def run(self) -> None:
        while not self._stopping.is_set():
            for message in self._consumer.consume(1000, POLL_S):
                if message.error() is None:
                    self.got[message.partition()].append((message.offset(), message.value()))
                    self.count += 1
        self._consumer.close()

    def finish(self) -> None:
        """Read no more."""
        self._stopping.set()
        self.join(READ_WITHIN_S)
        assert not self.is_alive(), "the reader does not end"


def read_all(bootstrap: str, topic: str, partitions: int, isolation: str) -> Got:
    """All that lies in a topic, up to what is its end for that isolation."""
    got: Got = {at: [] for at in range(partitions)}
    left = set(got)
    end_offsets = known_ends(bootstrap, [(topic, at) for at in got], isolation)
    until = time.monotonic() + READ_WITHIN_S
    reader = consumer(bootstrap, topic, partitions, isolation)
    while left:
        assert time.monotonic() < until, f"{topic}, partitions {left}: not read to their end"
        for message in reader.consume(1000, POLL_S):
            if message.error() is None:
                got[message.partition()].append((message.offset(), message.value()))
            elif is_end(message, end_offsets):
                left.discard(message.partition())
    reader.close()
    return got


def read_by_kafka_python(bootstrap: str, topic: str, ends: Mapping[int, int]) -> Got:
    """All committed records, up to where a topic ends, by another client."""
    got: Got = {at: [] for at in ends}
    places = [Place(topic, at) for at in ends]
    with closing(
        KafkaConsumer(bootstrap_servers=bootstrap, isolation_level="read_committed")
    ) as reader:
        reader.assign(places)
        reader.seek_to_beginning(*places)

        def at_end() -> bool:
            for at, records in reader.poll(timeout_ms=500).items():
                got[at.partition] += [(record.offset, record.value) for record in records]
            return all(reader.position(at) >= ends[at.partition] for at in places)

        eventually(at_end, within_s=READ_WITHIN_S, what=f"kafka-python reads {topic}")
    return got


def known_ends(
    bootstrap: str, places: Iterable[tuple[str, int]], isolation: str
) -> dict[tuple[str, int], int]:
    """Where partitions end, when their leaders know it. One that has just begun to lead gives its
    readers less than is committed for a while, and says here that it does not know (KIP-207)."""
    level = IsolationLevel[isolation.upper()]
    specs = {TopicPartition(*place): OffsetSpec.latest() for place in places}
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def known() -> dict[tuple[str, int], int] | None:
        try:
            found = admin.list_offsets(specs, isolation_level=level, request_timeout=READ_WITHIN_S)
            return {
                (at.topic, at.partition): future.result().offset for at, future in found.items()
            }
        except KafkaException as raised:
            if raised.args[0].code() not in NOT_KNOWN_YET:
                raise
            return None

    return eventually(known, within_s=READ_WITHIN_S, what=f"the ends of {specs} are known")


def is_end(message: Message, ends: Mapping[tuple[str, int], int]) -> bool:
    """Whether a message says that one of these partitions is read to its end."""
    error = message.error()
    if error is None or error.code() != KafkaError._PARTITION_EOF:
        return False
    return bool(message.offset() >= ends[message.topic(), message.partition()])


def ends(bootstrap: str, topic: str, partitions: int, isolation: str) -> dict[int, int]:
    """Where each partition ends for a reader: its high watermark, or its last stable offset."""
    found = known_ends(bootstrap, [(topic, at) for at in range(partitions)], isolation)
    return {at: offset for (_, at), offset in found.items()}


def await_stable(bootstrap: str, topic: str, partitions: int, within_s: float) -> dict[int, int]:
    """Wait until no transaction is open in a topic; where its partitions end."""

    def stable() -> dict[int, int] | None:
        committed = ends(bootstrap, topic, partitions, "read_committed")
        every = ends(bootstrap, topic, partitions, "read_uncommitted")
        return every if committed == every else None

    return eventually(stable, within_s=within_s, what=f"no transaction is open in {topic}")
