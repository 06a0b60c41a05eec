"""Records that keep coming, and what became of the commits."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from confluent_kafka import Consumer, KafkaError, TopicPartition

from support.clients.idempotent import ConfluentWriter
from support.clients.kafka_python import offsets
from support.groups.events import Place

OFFSETS_TOPIC = "__consumer_offsets"
OFFSET_KEYS = (0, 1)
"""Versions of the keys of commits."""
READ_WITHIN_S = 60.0

_short, _int, _long = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")


class Traffic(ConfluentWriter):
    """A producer that takes its time: some hundred records a second."""

    label = "traffic"
    BURST = 12
    PAUSE_S = 0.02
    _sent = 0

    def send(self, partition: int, key: bytes | None, value: bytes) -> None:
        super().send(partition, key, value)
        self._sent += 1
        if self._sent % self.BURST == 0:
            self._stopping.wait(self.PAUSE_S)

    def acknowledged(self) -> list[tuple[Place, int]]:
        """All that is acknowledged so far."""
        return [(f"{self.topic}/{at}", offset) for at, offset in list(self.history.acknowledged)]

    def ends(self) -> dict[Place, int]:
        """Of each partition with a record, the offset behind the last acknowledged."""
        found: dict[Place, int] = {}
        for at, offset in self.acknowledged():
            found[at] = max(found.get(at, 0), offset + 1)
        return found


def stored_commits(bootstrap: str, partitions: int) -> Iterator[tuple[str, Place, int]]:
    """All commits (group, place, offset) that lie in the offsets topic, in order."""
    _, ends = offsets(bootstrap, OFFSETS_TOPIC, partitions)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "none",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(OFFSETS_TOPIC, at, 0) for at in range(partitions)])
    left = {at for at, end in ends.items() if end}
    while left:
        message = consumer.poll(READ_WITHIN_S)
        assert message is not None, f"{OFFSETS_TOPIC}, partitions {left}: not read to their end"
        error = message.error()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                left.discard(message.partition())
        elif message.value() is not None:
            yield from commit_of(message.key(), message.value())
    consumer.close()


def committed(bootstrap: str, group: str, topic: str, partitions: int) -> dict[Place, int]:
    """A group's offsets in a topic, as the broker gives them; places without one are left out."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    topic_partitions = [TopicPartition(topic, at) for at in range(partitions)]
    offsets = consumer.committed(topic_partitions, READ_WITHIN_S)
    consumer.close()
    return {
        f"{topic}/{topic_partition.partition}": topic_partition.offset
        for topic_partition in offsets
        if topic_partition.offset >= 0
    }


def commit_of(key: bytes, value: bytes) -> Iterator[tuple[str, Place, int]]:
    """The commit (group, place, offset) of a record as Apache Kafka's OffsetCommitKey and
    OffsetCommitValue have it; nothing of other records."""
    if _short.unpack_from(key)[0] not in OFFSET_KEYS:
        return
    group, position = _text(key, _short.size)
    topic, position = _text(key, position)
    (partition,) = _int.unpack_from(key, position)
    (offset,) = _long.unpack_from(value, _short.size)
    yield group, f"{topic}/{partition}", offset


def _text(data: bytes, position: int) -> tuple[str, int]:
    (size,) = _short.unpack_from(data, position)
    begin = position + _short.size
    return data[begin : begin + size].decode(), begin + size
