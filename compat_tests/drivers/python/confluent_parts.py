"""What the two drivers of confluent-kafka share: settings, and the library's objects in JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from brokers import for_librdkafka
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from serve import Arguments, from_base64, given, headers_as_json, to_base64

PRODUCER_CAN = (
    *("produce", "acks", "gzip", "snappy", "lz4", "zstd", "timeout", "empty_bytes", "keyed"),
    *(
        "auto_create",
        "retries",
        "recreated",
        "idempotence",
        "transactions",
        "fencing",
        "send_offsets",
    ),
)

CONSUMER_CAN = (
    *("consume", "group", "pattern", "range", "roundrobin", "cooperative", "consumer_protocol"),
    *("static_members", "isolation", "seek", "pause", "reset", "reset_none"),
    "small_fetches",
    *("offsets_for_times", "ends", "commit_metadata", "append_time", "new_partitions"),
)

PRODUCER_SETTINGS = {
    "acks": "acks",
    "codec": "compression.type",
    "idempotent": "enable.idempotence",
    "transactional_id": "transactional.id",
    "transaction_timeout_ms": "transaction.timeout.ms",
    "linger_ms": "linger.ms",
    "batch_bytes": "batch.size",
    "max_request_bytes": "message.max.bytes",
    "timeout_ms": "message.timeout.ms",
}

CONSUMER_SETTINGS = {
    "group": "group.id",
    "reset": "auto.offset.reset",
    "isolation": "isolation.level",
    "assignor": "partition.assignment.strategy",
    "protocol": "group.protocol",
    "instance_id": "group.instance.id",
    "session_timeout_ms": "session.timeout.ms",
    "heartbeat_ms": "heartbeat.interval.ms",
    "fetch_max_bytes": "fetch.max.bytes",
    "partition_fetch_max_bytes": "max.partition.fetch.bytes",
    "metadata_max_age_ms": "topic.metadata.refresh.interval.ms",
}

NO_GROUP = "no-group"
"""The library makes no consumer without a name of a group; assigned partitions don't join it."""

OFFSETS = {"earliest": OFFSET_BEGINNING, "latest": OFFSET_END}
TIMESTAMP_TYPES = {TIMESTAMP_CREATE_TIME: "create", TIMESTAMP_LOG_APPEND_TIME: "append"}
LAST_LOCAL_ERROR = -100
"""Errors up to here are librdkafka's own, those above it are the protocol's."""

CLOSE_S = 5
POLL_RECORDS = 500


def common_settings(bootstrap: str) -> dict[str, Any]:
    return {"bootstrap.servers": bootstrap, **for_librdkafka()}


def producer_settings(bootstrap: str, arguments: Arguments) -> dict[str, Any]:
    return {**common_settings(bootstrap), **given(arguments, PRODUCER_SETTINGS)}


def consumer_settings(bootstrap: str, arguments: Arguments) -> dict[str, Any]:
    settings = {
        **common_settings(bootstrap),
        "enable.auto.commit": False,
        "group.id": NO_GROUP,
        "auto.offset.reset": "earliest",
        **given(arguments, CONSUMER_SETTINGS),
    }
    if settings["auto.offset.reset"] == "none":
        settings["auto.offset.reset"] = "error"
    if settings.get("partition.assignment.strategy") == "cooperative":
        settings["partition.assignment.strategy"] = "cooperative-sticky"
    return settings


def error_as_json(failure: Any) -> dict[str, Any]:
    """An exception, or what the library passes to callbacks instead."""
    error = failure.args[0] if isinstance(failure, KafkaException) else failure
    if not isinstance(error, KafkaError):
        return {"name": type(failure).__name__, "message": str(failure)}
    if error.code() > LAST_LOCAL_ERROR:
        return {"code": error.code(), "message": error.str()}
    return {"name": error.name(), "message": error.str()}


def to_produce(record: Arguments) -> dict[str, Any]:
    """A record as arguments of `produce`, without its headers."""
    data = {"value": from_base64(record.get("value")), "key": from_base64(record.get("key"))}
    return data | {name: record[name] for name in ("partition", "timestamp") if name in record}


def placed_as_json(outcome: Any) -> dict[str, Any]:
    """What became of a record: its message, or an error."""
    if isinstance(outcome, KafkaError | Exception):
        return {"error": error_as_json(outcome)}
    offset = outcome.offset()
    return {
        "partition": outcome.partition(),
        "offset": -1 if offset is None else offset,
        "timestamp": outcome.timestamp()[1],
    }


def partition_of(arguments: Arguments) -> TopicPartition:
    return TopicPartition(arguments["topic"], arguments["partition"])


def partitions_of(arguments: Arguments) -> list[TopicPartition]:
    return [partition_of(partition) for partition in arguments["partitions"]]


def starts_of(arguments: Arguments) -> list[TopicPartition]:
    """Partitions with the offsets from which to read them."""
    return [
        TopicPartition(
            partition["topic"],
            partition["partition"],
            OFFSETS.get(partition["offset"], partition["offset"]),
        )
        for partition in arguments["partitions"]
    ]


def offsets_of(arguments: Arguments) -> list[TopicPartition]:
    """Partitions with offsets to commit."""
    return [
        TopicPartition(
            commit["topic"], commit["partition"], commit["offset"], commit.get("metadata", "")
        )
        for commit in arguments["offsets"]
    ]


def times_of(arguments: Arguments) -> list[TopicPartition]:
    """Partitions with times, which the library wants in the place of offsets."""
    return [
        TopicPartition(partition["topic"], partition["partition"], partition["timestamp"])
        for partition in arguments["partitions"]
    ]


def checked(partitions: Sequence[TopicPartition]) -> Sequence[TopicPartition]:
    """A result, each partition of which may have an error of its own."""
    for partition in partitions:
        if partition.error is not None:
            raise KafkaException(partition.error)
    return partitions


def partitions_as_json(partitions: Sequence[TopicPartition]) -> list[dict[str, Any]]:
    return [
        {"topic": partition.topic, "partition": partition.partition}
        for partition in sorted(partitions)
    ]


def committed_as_json(partitions: Sequence[TopicPartition]) -> list[dict[str, Any]]:
    return [
        {"offset": known(partition.offset), "metadata": partition.metadata or ""}
        for partition in checked(partitions)
    ]


def times_as_json(partitions: Sequence[TopicPartition]) -> list[dict[str, Any]]:
    """The library does not tell the timestamps of what it found."""
    return [
        {"offset": known(partition.offset), "timestamp": None} for partition in checked(partitions)
    ]


def known(offset: int) -> int | None:
    """An offset; the library's negative ones say that there is none."""
    return offset if offset >= 0 else None


def numbers_of(metadata: Any, topic: str) -> list[int]:
    """The partitions of a topic in metadata."""
    found = metadata.topics[topic]
    if found.error is not None:
        raise KafkaException(found.error)
    return sorted(found.partitions)


def has_error(messages: Sequence[Any]) -> bool:
    return any(message.error() is not None for message in messages)


class Kept:
    """What a consumer returned and nobody has asked for yet."""

    def __init__(self) -> None:
        self.messages: list[Any] = []

    def wants(self, count: int) -> int:
        """How many more messages a poll for `count` should wait for: none if there is an error."""
        return 0 if has_error(self.messages) else max(count - len(self.messages), 0)

    def take(self, count: int) -> list[dict[str, Any]]:
        """The next records. KafkaException if there is an error among all; records stay then."""
        for index, message in enumerate(self.messages):
            if message.error() is not None:
                del self.messages[index]
                raise KafkaException(message.error())
        taken, self.messages = self.messages[:count], self.messages[count:]
        return [record_as_json(message) for message in taken]

    def drop(self, partition: TopicPartition) -> None:
        """Forget the records of a partition."""
        place = (partition.topic, partition.partition)
        self.messages = [
            message
            for message in self.messages
            if message.error() or (message.topic(), message.partition()) != place
        ]


def record_as_json(message: Any) -> dict[str, Any]:
    kind, timestamp = message.timestamp()
    return {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": timestamp,
        "timestamp_type": TIMESTAMP_TYPES.get(kind),
        "key": to_base64(message.key()),
        "value": to_base64(message.value()),
        "headers": headers_as_json(message.headers()),
    }
