"""What the drivers of kafka-python's releases share (see ../README.md)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from brokers import for_kafka_python
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import BrokerResponseError
from kafka.structs import OffsetAndMetadata
from serve import Arguments, from_base64, given, headers_as_json, headers_of, to_base64

TIMESTAMP_TYPES = {0: "create", 1: "append"}
NO_EPOCH = -1


def partition_of(arguments: Arguments) -> TopicPartition:
    return TopicPartition(arguments["topic"], arguments["partition"])


def partitions_of(arguments: Arguments) -> list[TopicPartition]:
    return [partition_of(partition) for partition in arguments["partitions"]]


def partitions_as_json(partitions: Any) -> list[dict[str, Any]]:
    return [
        {"topic": partition.topic, "partition": partition.partition}
        for partition in sorted(partitions)
    ]


def error_as_json(failure: Exception) -> dict[str, Any]:
    if isinstance(failure, BrokerResponseError):
        return {"code": failure.errno, "message": str(failure)}
    return {"name": type(failure).__name__, "message": str(failure)}


def offset_and_metadata(offset: int, metadata: str = "") -> OffsetAndMetadata:
    """To commit; 2.0.2 has no leader epoch beside them."""
    has_epoch = "leader_epoch" in OffsetAndMetadata._fields
    return OffsetAndMetadata(offset, metadata, *([NO_EPOCH] if has_epoch else []))


def sent(producer: Any, topic: str, record: Arguments) -> Any:
    """The library's future of a record, or the error that came of it at once."""
    try:
        return producer.send(
            topic,
            value=from_base64(record.get("value")),
            key=from_base64(record.get("key")),
            headers=headers_of(record) or None,
            partition=record.get("partition"),
            timestamp_ms=record.get("timestamp"),
        )
    except Exception as failure:  # of this record only
        return failure


def placed(future: Any) -> dict[str, Any]:
    if isinstance(future, Exception):
        return {"error": error_as_json(future)}
    try:
        place = future.get(timeout=0)
    except Exception as failure:  # of this record only
        return {"error": error_as_json(failure)}
    return {"partition": place.partition, "offset": place.offset, "timestamp": place.timestamp}


def send(producer: Any, arguments: Arguments) -> dict[str, Any]:
    """All records at once, then what became of each."""
    futures = [sent(producer, arguments["topic"], record) for record in arguments["records"]]
    producer.flush()
    return {"placed": [placed(future) for future in futures]}


class Consuming:
    """The requests for a consumer. `settings`: those of CONSUMER_SETTINGS that the release has;
    `assignors`: by their names in requests."""

    def __init__(
        self, bootstrap: str, settings: Mapping[str, str], assignors: Mapping[str, Any]
    ) -> None:
        self._bootstrap = bootstrap
        self._settings = settings
        self._assignors = assignors
        self.group: str | None = None
        self._consumer: Any = None
        self._kept: list[Any] = []

    def consumer(self, arguments: Arguments) -> dict[str, Any]:
        self.close()
        settings = {"auto_offset_reset": "earliest", **given(arguments, self._settings)}
        if "assignor" in arguments:
            settings["partition_assignment_strategy"] = [self._assignors[arguments["assignor"]]]
        self._consumer = KafkaConsumer(
            bootstrap_servers=self._bootstrap,
            enable_auto_commit=False,
            **for_kafka_python(),
            **settings,
        )
        self.group = arguments.get("group")
        return {}

    def subscribe(self, arguments: Arguments) -> dict[str, Any]:
        if "pattern" in arguments:
            pattern = f"^{arguments['pattern']}$"
            self._consumer.subscribe(pattern=pattern)
        else:
            self._consumer.subscribe(arguments["topics"])
        return {}

    def assign(self, arguments: Arguments) -> dict[str, Any]:
        self._kept = []
        self._consumer.assign(partitions_of(arguments))
        for start in arguments["partitions"]:
            partition, offset = partition_of(start), start["offset"]
            if offset == "earliest":
                self._consumer.seek_to_beginning(partition)
            elif offset == "latest":
                self._consumer.seek_to_end(partition)
            else:
                self._consumer.seek(partition, offset)
        return {}

    def poll(self, arguments: Arguments) -> dict[str, Any]:
        count, until = arguments["records"], time.monotonic() + arguments["timeout_ms"] / 1000
        records, self._kept = self._kept[:count], self._kept[count:]
        while len(records) < count and (left_s := until - time.monotonic()) > 0:
            records += self._next(left_s * 1000, count - len(records))
        return {"records": [record_as_json(record) for record in records]}

    def _next(self, timeout_ms: float, count: int | None = None) -> list[Any]:
        found = self._consumer.poll(timeout_ms, count)
        return [record for records in found.values() for record in records]

    def assignment(self, arguments: Arguments) -> dict[str, Any]:
        until = time.monotonic() + arguments["timeout_ms"] / 1000
        while (left_s := until - time.monotonic()) > 0:
            self._kept += self._next(left_s * 1000)
        return {"partitions": partitions_as_json(self._consumer.assignment())}

    def seek(self, arguments: Arguments) -> dict[str, Any]:
        partition = partition_of(arguments)
        self._kept = [record for record in self._kept if place_of(record) != partition]
        self._consumer.seek(partition, arguments["offset"])
        return {}

    def position(self, arguments: Arguments) -> dict[str, Any]:
        return {"offset": self._consumer.position(partition_of(arguments))}

    def pause(self, arguments: Arguments) -> dict[str, Any]:
        self._consumer.pause(*partitions_of(arguments))
        return {}

    def resume(self, arguments: Arguments) -> dict[str, Any]:
        self._consumer.resume(*partitions_of(arguments))
        return {}

    def commit(self, arguments: Arguments) -> dict[str, Any]:
        if "offsets" not in arguments:
            self._consumer.commit()
            return {}
        self._consumer.commit(
            {
                partition_of(commit): offset_and_metadata(
                    commit["offset"], commit.get("metadata", "")
                )
                for commit in arguments["offsets"]
            }
        )
        return {}

    def committed(self, arguments: Arguments) -> dict[str, Any]:
        found = [
            self._consumer.committed(partition, metadata=True)
            for partition in partitions_of(arguments)
        ]
        return {
            "offsets": [
                {"offset": None, "metadata": ""}
                if committed is None
                else {"offset": committed.offset, "metadata": committed.metadata}
                for committed in found
            ]
        }

    def offsets_for_times(self, arguments: Arguments) -> dict[str, Any]:
        timestamps = {
            partition_of(partition): partition["timestamp"] for partition in arguments["partitions"]
        }
        found = self._consumer.offsets_for_times(timestamps)
        return {
            "offsets": [
                {"offset": None, "timestamp": None}
                if found[partition] is None
                else {"offset": found[partition].offset, "timestamp": found[partition].timestamp}
                for partition in partitions_of(arguments)
            ]
        }

    def ends(self, arguments: Arguments) -> dict[str, Any]:
        partitions = partitions_of(arguments)
        earliest = self._consumer.beginning_offsets(partitions)
        latest = self._consumer.end_offsets(partitions)
        return {
            "ends": [
                {"earliest": earliest[partition], "latest": latest[partition]}
                for partition in partitions
            ]
        }

    def partitions(self, topic: str) -> Any:
        return self._consumer.partitions_for_topic(topic)

    def metadata_of(self, group: str) -> Any:
        """This member's metadata, if it is one of that group."""
        return self._consumer.group_metadata() if group == self.group else None

    def close(self, _: Arguments | None = None) -> dict[str, Any]:
        if self._consumer is not None:
            self._consumer.close(autocommit=False)
            self._consumer, self.group, self._kept = None, None, []
        return {}


def place_of(record: Any) -> TopicPartition:
    return TopicPartition(record.topic, record.partition)


def record_as_json(record: Any) -> dict[str, Any]:
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestamp_type": TIMESTAMP_TYPES.get(record.timestamp_type),
        "key": to_base64(record.key),
        "value": to_base64(record.value),
        "headers": headers_as_json(record.headers),
    }
