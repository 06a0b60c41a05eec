"""Writes and reads with the kafka-python on the path, as if the broker were of a given version.

write VERSION BOOTSTRAP TOPIC CODEC: records on standard input, a line each: partition, timestamp
or -, key, value (Base64, or - for null); prints partition and offset of each.
read VERSION BOOTSTRAP TOPIC ENDS MAX_PARTITION_BYTES: prints partition, offset, timestamp or -, key
and value of each record from the first to the one before its partition's end. ENDS is like
0:17,1:21 for two partitions.
commit VERSION BOOTSTRAP TOPIC OFFSET METADATA: commits an offset of partition 0 for the group of
the topic's name, which has no members; prints the one before and, by another consumer, this one.

The same in Java is tests/java/old/OldClient.java.
"""

from __future__ import annotations

import base64
import sys
import time
from collections.abc import Callable
from typing import Any

import kafka

TIMEOUT_S = 60


def write(settings: dict[str, Any], topic: str, codec: str) -> None:
    producer = kafka.KafkaProducer(
        acks="all", linger_ms=5, compression_type=None if codec == "none" else codec, **settings
    )
    sent = []
    for line in sys.stdin:
        partition, timestamp, key, value = line.split()
        sent.append(
            producer.send(
                topic,
                key=data(key),
                value=data(value),
                partition=int(partition),
                timestamp_ms=None if timestamp == "-" else int(timestamp),
            )
        )
    producer.flush(TIMEOUT_S)
    for future in sent:
        at = future.get(TIMEOUT_S)
        print(at.partition, at.offset)
    producer.close()


def read(settings: dict[str, Any], topic: str, ends_given: str, max_bytes: str) -> None:
    ends = {}
    for each in ends_given.split(","):
        partition, end = each.split(":")
        ends[kafka.TopicPartition(topic, int(partition))] = int(end)
    consumer = kafka.KafkaConsumer(
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=int(max_bytes),
        **settings,
    )
    consumer.assign(list(ends))
    consumer.seek_to_beginning(*ends)
    deadline = time.monotonic() + TIMEOUT_S
    while any(consumer.position(place) < end for place, end in ends.items()):
        assert time.monotonic() < deadline, f"stuck at {[*map(consumer.position, ends)]}"
        for messages in consumer.poll(500).values():
            for each in messages:
                print(
                    each.partition,
                    each.offset,
                    timestamp_of(each),
                    text(each.key),
                    text(each.value),
                )
    consumer.close()


def commit(settings: dict[str, Any], topic: str, offset: str, metadata: str) -> None:
    place = kafka.TopicPartition(topic, 0)
    for step in ("before", "after"):
        consumer = kafka.KafkaConsumer(group_id=topic, enable_auto_commit=False, **settings)
        consumer.assign([place])
        print(consumer.committed(place))
        if step == "before":
            consumer.commit({place: kafka.OffsetAndMetadata(int(offset), metadata)})
        consumer.close()


def timestamp_of(message: Any) -> str:
    if message.timestamp is None:
        return "-"
    return f"{('CreateTime', 'LogAppendTime')[message.timestamp_type]}:{message.timestamp}"


def text(found: bytes | None) -> str:
    return "-" if found is None else "=" + base64.b64encode(found).decode()


def data(given: str) -> bytes | None:
    return None if given == "-" else base64.b64decode(given[1:])


def main() -> None:
    action, version, bootstrap, topic, *rest = sys.argv[1:]
    settings = {
        "bootstrap_servers": bootstrap,
        "api_version": tuple(int(part) for part in version.split(".")),
    }
    actions: dict[str, Callable[..., None]] = {"write": write, "read": read, "commit": commit}
    actions[action](settings, topic, *rest)


if __name__ == "__main__":
    main()
