"""The driver of kafka-python 2.0.2 (see ../README.md and kafka_python_2.txt)."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import kafka
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import (
    ConfigResource,
    ConfigResourceType,
    KafkaAdminClient,
    NewPartitions,
    NewTopic,
)
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.errors import BrokerResponseError, NoError, for_code
from kafka.structs import OffsetAndMetadata
from serve import Arguments, from_base64, given, headers_as_json, headers_of, serve, to_base64

ADMINISTRATION = (
    *("create_topic", "delete_topic", "create_partitions", "list_topics", "describe_topic"),
    *("describe_configs", "list_groups", "describe_group", "delete_group", "group_offsets"),
    "describe_cluster",
)

CAN = [
    *("produce", "acks", "gzip", "snappy", "lz4", "zstd", "headers", "timestamps", "timeout"),
    *("append_time", "empty_bytes", "keyed", "auto_create", "recreated"),
    *("consume", "group", "pattern", "range", "roundrobin", "seek", "pause"),
    *("reset", "reset_none", "offsets_for_times", "ends", "commit_metadata"),
    "new_partitions",
    *ADMINISTRATION,
]
"""Its sticky assignor fails in the second rebalance, whatever the broker does: under Python 3 it
can't encode what it had assigned."""

PRODUCER_SETTINGS = {
    "acks": "acks",
    "codec": "compression_type",
    "linger_ms": "linger_ms",
    "batch_bytes": "batch_size",
    "max_request_bytes": "max_request_size",
}

CONSUMER_SETTINGS = {
    "group": "group_id",
    "reset": "auto_offset_reset",
    "session_timeout_ms": "session_timeout_ms",
    "heartbeat_ms": "heartbeat_interval_ms",
    "fetch_max_bytes": "fetch_max_bytes",
    "partition_fetch_max_bytes": "max_partition_fetch_bytes",
    "metadata_max_age_ms": "metadata_max_age_ms",
}

ASSIGNORS = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}

TIMESTAMP_TYPES = {0: "create", 1: "append"}
CLOSE_S = 5


def partition_of(one: Arguments) -> TopicPartition:
    return TopicPartition(one["topic"], one["partition"])


def partitions_of(arguments: Arguments) -> list[TopicPartition]:
    return [partition_of(one) for one in arguments["partitions"]]


def partitions_as_json(partitions: Any) -> list[dict[str, Any]]:
    return [{"topic": one.topic, "partition": one.partition} for one in sorted(partitions)]


def error_as_json(failure: Exception) -> dict[str, Any]:
    if isinstance(failure, BrokerResponseError):
        return {"code": failure.errno, "message": str(failure)}
    return {"name": type(failure).__name__, "message": str(failure)}


class Producing:
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._producer: Any = None

    def producer(self, arguments: Arguments) -> dict[str, Any]:
        self.close()
        settings = given(arguments, PRODUCER_SETTINGS)
        if settings.get("acks") in ("0", "1"):
            settings["acks"] = int(settings["acks"])
        if settings.get("compression_type") == "none":
            settings["compression_type"] = None
        if "timeout_ms" in arguments:
            timeout_ms = arguments["timeout_ms"]
            settings |= {"request_timeout_ms": timeout_ms, "max_block_ms": timeout_ms}
        self._producer = KafkaProducer(bootstrap_servers=self._bootstrap, **settings)
        return {}

    def send(self, arguments: Arguments) -> dict[str, Any]:
        sent = [self._sent(arguments["topic"], record) for record in arguments["records"]]
        self._producer.flush()
        return {"placed": [placed(one) for one in sent]}

    def _sent(self, topic: str, record: Arguments) -> Any:
        try:
            return self._producer.send(
                topic,
                value=from_base64(record.get("value")),
                key=from_base64(record.get("key")),
                headers=headers_of(record) or None,
                partition=record.get("partition"),
                timestamp_ms=record.get("timestamp"),
            )
        except Exception as failure:  # of this record only
            return failure

    def partitions(self, topic: str) -> set[int] | None:
        return None if self._producer is None else self._producer.partitions_for(topic)

    def close(self, timeout_s: float | None = CLOSE_S) -> None:
        if self._producer is not None:
            self._producer.close(timeout=timeout_s)
            self._producer = None


def placed(sent: Any) -> dict[str, Any]:
    if isinstance(sent, Exception):
        return {"error": error_as_json(sent)}
    try:
        place = sent.get(timeout=0)
    except Exception as failure:  # of this record only
        return {"error": error_as_json(failure)}
    return {"partition": place.partition, "offset": place.offset, "timestamp": place.timestamp}


class Consuming:
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._consumer: Any = None
        self._kept: list[Any] = []

    def consumer(self, arguments: Arguments) -> dict[str, Any]:
        self.close()
        settings = {"auto_offset_reset": "earliest", **given(arguments, CONSUMER_SETTINGS)}
        if "assignor" in arguments:
            settings["partition_assignment_strategy"] = [ASSIGNORS[arguments["assignor"]]]
        self._consumer = KafkaConsumer(
            bootstrap_servers=self._bootstrap, enable_auto_commit=False, **settings
        )
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
        for one in arguments["partitions"]:
            partition, offset = partition_of(one), one["offset"]
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
        self._kept = [one for one in self._kept if place_of(one) != partition]
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
                partition_of(one): OffsetAndMetadata(one["offset"], one.get("metadata", ""))
                for one in arguments["offsets"]
            }
        )
        return {}

    def committed(self, arguments: Arguments) -> dict[str, Any]:
        found = [self._consumer.committed(one, metadata=True) for one in partitions_of(arguments)]
        return {
            "offsets": [
                {"offset": None, "metadata": ""}
                if one is None
                else {"offset": one.offset, "metadata": one.metadata}
                for one in found
            ]
        }

    def offsets_for_times(self, arguments: Arguments) -> dict[str, Any]:
        asked = {partition_of(one): one["timestamp"] for one in arguments["partitions"]}
        found = self._consumer.offsets_for_times(asked)
        return {
            "offsets": [
                {"offset": None, "timestamp": None}
                if found[one] is None
                else {"offset": found[one].offset, "timestamp": found[one].timestamp}
                for one in partitions_of(arguments)
            ]
        }

    def ends(self, arguments: Arguments) -> dict[str, Any]:
        asked = partitions_of(arguments)
        earliest = self._consumer.beginning_offsets(asked)
        latest = self._consumer.end_offsets(asked)
        return {"ends": [{"earliest": earliest[one], "latest": latest[one]} for one in asked]}

    def partitions(self, topic: str) -> Any:
        return self._consumer.partitions_for_topic(topic)

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close(autocommit=False)
            self._consumer, self._kept = None, []


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


class Administrating:
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._opened: Any = None

    @property
    def _admin(self) -> Any:
        if self._opened is None:
            self._opened = KafkaAdminClient(bootstrap_servers=self._bootstrap)
        return self._opened

    def create_topic(self, arguments: Arguments) -> dict[str, Any]:
        partitions, replicas = arguments.get("partitions", -1), arguments.get("replicas", -1)
        topic = NewTopic(
            arguments["topic"],
            partitions,
            replicas,
            # NewTopic wants assignments, be they empty, exactly if a number is -1
            replica_assignments={} if -1 in (partitions, replicas) else None,
            topic_configs=arguments.get("configs", {}),
        )
        self._admin.create_topics([topic])
        return {}

    def delete_topic(self, arguments: Arguments) -> dict[str, Any]:
        self._admin.delete_topics([arguments["topic"]])
        return {}

    def create_partitions(self, arguments: Arguments) -> dict[str, Any]:
        self._admin.create_partitions({arguments["topic"]: NewPartitions(arguments["total"])})
        return {}

    def list_topics(self, _: Arguments) -> dict[str, Any]:
        found = self._admin.describe_topics()
        return {"topics": sorted(one["topic"] for one in found if not one["is_internal"])}

    def describe_topic(self, arguments: Arguments) -> dict[str, Any]:
        (topic,) = self._admin.describe_topics([arguments["topic"]])
        check(topic["error_code"], arguments["topic"])
        found = sorted(topic["partitions"], key=lambda one: one["partition"])
        names = ("partition", "leader", "replicas", "isr")
        return {"partitions": [{name: one[name] for name in names} for one in found]}

    def describe_configs(self, arguments: Arguments) -> dict[str, Any]:
        resource = ConfigResource(ConfigResourceType.TOPIC, arguments["topic"])
        (response,) = self._admin.describe_configs([resource])
        (found,) = response.to_object()["resources"]
        check(found["error_code"], found["error_message"] or "")
        return {
            "configs": {one["config_names"]: one["config_value"] for one in found["config_entries"]}
        }

    def list_groups(self, _: Arguments) -> dict[str, Any]:
        return {"groups": sorted(group for group, _ in self._admin.list_consumer_groups())}

    def describe_group(self, arguments: Arguments) -> dict[str, Any]:
        (group,) = self._admin.describe_consumer_groups([arguments["group"]])
        return {
            "state": group.state,
            "members": [
                {"client_id": one.client_id, "partitions": assigned(one.member_assignment)}
                for one in group.members
            ],
        }

    def delete_group(self, arguments: Arguments) -> dict[str, Any]:
        ((_, error),) = self._admin.delete_consumer_groups([arguments["group"]])
        if error is not NoError:
            raise error(arguments["group"])
        return {}

    def group_offsets(self, arguments: Arguments) -> dict[str, Any]:
        found = self._admin.list_consumer_group_offsets(arguments["group"])
        return {
            "offsets": [
                {"topic": one.topic, "partition": one.partition, "offset": found[one].offset}
                for one in sorted(found)
            ]
        }

    def describe_cluster(self, _: Arguments) -> dict[str, Any]:
        found = self._admin.describe_cluster()
        return {
            "cluster_id": found["cluster_id"],
            "controller": found["controller_id"],
            "brokers": sorted(one["node_id"] for one in found["brokers"]),
        }

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()


def check(code: int, text: str) -> None:
    """Some responses come back as they are, with their errors."""
    if code:
        raise for_code(code)(text)


def assigned(assignment: Any) -> list[dict[str, Any]]:
    if not assignment:  # of a member that waits for a rebalance to end
        return []
    return partitions_as_json(assignment.partitions())


def main() -> None:
    (bootstrap,) = sys.argv[1:]
    producing, consuming = Producing(bootstrap), Consuming(bootstrap)
    administrating = Administrating(bootstrap)

    def hello(_: Arguments) -> dict[str, Any]:
        return {"client": "kafka-python", "version": kafka.__version__, "can": CAN}

    def partitions(arguments: Arguments) -> dict[str, Any]:
        topic = arguments["topic"]
        found = producing.partitions(topic)
        return {"partitions": sorted(found or consuming.partitions(topic) or ())}

    def close_producer(_: Arguments) -> dict[str, Any]:
        producing.close(timeout_s=None)
        return {}

    def close_consumer(_: Arguments) -> dict[str, Any]:
        consuming.close()
        return {}

    def close() -> None:
        producing.close()
        consuming.close()
        administrating.close()

    names = {
        producing: ("producer", "send"),
        consuming: (
            *("consumer", "subscribe", "assign", "poll", "assignment", "seek"),
            *("position", "pause", "resume", "commit", "committed", "offsets_for_times", "ends"),
        ),
        administrating: ADMINISTRATION,
    }
    requests: dict[str, Callable[[Arguments], Any]] = {
        name: getattr(part, name) for part, of_part in names.items() for name in of_part
    }
    requests |= {
        "hello": hello,
        "partitions": partitions,
        "close_producer": close_producer,
        "close_consumer": close_consumer,
    }
    serve(requests, error_as_json, close)


if __name__ == "__main__":
    main()
