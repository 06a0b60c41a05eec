"""The driver of kafka-python 3 (see ../README.md)."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import kafka.errors
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import BrokerResponseError, for_code
from kafka.structs import OffsetAndMetadata
from serve import Arguments, from_base64, given, headers_as_json, headers_of, serve, to_base64

CAN = [
    *("produce", "acks", "gzip", "snappy", "lz4", "zstd", "headers", "timestamps", "timeout"),
    *("empty_bytes", "append_time", "fencing", "keyed", "auto_create", "retries", "recreated"),
    "new_partitions",
    *("idempotence", "transactions", "send_offsets"),
    *("consume", "group", "pattern", "range", "roundrobin", "sticky", "cooperative"),
    *(
        "static_members",
        "isolation",
        "seek",
        "pause",
        "reset",
        "reset_none",
        "offsets_for_times",
        "ends",
    ),
    "commit_metadata",
    *("create_topic", "delete_topic", "create_partitions", "list_topics", "describe_topic"),
    *("describe_configs", "alter_configs", "delete_records", "list_groups", "describe_group"),
    *("delete_group", "group_offsets", "describe_cluster"),
]

PRODUCER_SETTINGS = {
    "acks": "acks",
    "codec": "compression_type",
    "idempotent": "enable_idempotence",
    "transactional_id": "transactional_id",
    "transaction_timeout_ms": "transaction_timeout_ms",
    "linger_ms": "linger_ms",
    "batch_bytes": "batch_size",
    "max_request_bytes": "max_request_size",
}

CONSUMER_SETTINGS = {
    "group": "group_id",
    "reset": "auto_offset_reset",
    "isolation": "isolation_level",
    "instance_id": "group_instance_id",
    "session_timeout_ms": "session_timeout_ms",
    "heartbeat_ms": "heartbeat_interval_ms",
    "fetch_max_bytes": "fetch_max_bytes",
    "partition_fetch_max_bytes": "max_partition_fetch_bytes",
    "metadata_max_age_ms": "metadata_max_age_ms",
}

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
    "cooperative": CooperativeStickyAssignor,
}

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
            settings |= timeouts(arguments["timeout_ms"])
        self._producer = KafkaProducer(bootstrap_servers=self._bootstrap, **settings)
        if "transactional_id" in settings:
            self._producer.init_transactions()
        return {}

    def send(self, arguments: Arguments) -> dict[str, Any]:
        futures: list[Any] = []
        for record in arguments["records"]:
            try:
                future = self._producer.send(
                    arguments["topic"],
                    value=from_base64(record.get("value")),
                    key=from_base64(record.get("key")),
                    headers=headers_of(record) or None,
                    partition=record.get("partition"),
                    timestamp_ms=record.get("timestamp"),
                )
            except Exception as failure:  # of this record only
                futures.append(failure)
            else:
                futures.append(future)
        self._producer.flush()
        return {"placed": [self._placed(future) for future in futures]}

    def _placed(self, future: Any) -> dict[str, Any]:
        if isinstance(future, Exception):
            return {"error": error_as_json(future)}
        try:
            placed = future.get(timeout=0)
        except Exception as failure:  # of this record only
            return {"error": error_as_json(failure)}
        return {
            "partition": placed.partition,
            "offset": placed.offset,
            "timestamp": placed.timestamp,
        }

    def begin(self, _: Arguments) -> dict[str, Any]:
        self._producer.begin_transaction()
        return {}

    def commit_transaction(self, _: Arguments) -> dict[str, Any]:
        self._producer.commit_transaction()
        return {}

    def abort_transaction(self, _: Arguments) -> dict[str, Any]:
        self._producer.abort_transaction()
        return {}

    def send_offsets(self, arguments: Arguments, group: Any) -> dict[str, Any]:
        offsets = {
            partition_of(one): OffsetAndMetadata(one["offset"], "", -1)
            for one in arguments["offsets"]
        }
        self._producer.send_offsets_to_transaction(offsets, group or arguments["group"])
        return {}

    def partitions(self, topic: str) -> set[int] | None:
        return None if self._producer is None else self._producer.partitions_for(topic)

    def close(self, _: Arguments | None = None, timeout_s: float | None = CLOSE_S) -> Any:
        if self._producer is not None:
            self._producer.close(timeout=timeout_s)
            self._producer = None
        return {}


def timeouts(timeout_ms: int) -> dict[str, int]:
    """Settings with which a record is given up after a time; kafka-python wants the time for a
    request below it."""
    return {
        "delivery_timeout_ms": timeout_ms,
        "request_timeout_ms": max(timeout_ms // 2, 1),
        "max_block_ms": timeout_ms,
        "linger_ms": 0,
    }


class Consuming:
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self.group: str | None = None
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
            for found in self._consumer.poll(left_s * 1000, count - len(records)).values():
                records += found
        return {"records": [record_as_json(record) for record in records]}

    def assignment(self, arguments: Arguments) -> dict[str, Any]:
        until = time.monotonic() + arguments["timeout_ms"] / 1000
        while (left_s := until - time.monotonic()) > 0:
            for found in self._consumer.poll(left_s * 1000).values():
                self._kept += found
        return {"partitions": partitions_as_json(self._consumer.assignment())}

    def seek(self, arguments: Arguments) -> dict[str, Any]:
        self._kept = [one for one in self._kept if place_of(one) != partition_of(arguments)]
        self._consumer.seek(partition_of(arguments), arguments["offset"])
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
                partition_of(one): OffsetAndMetadata(one["offset"], one.get("metadata", ""), -1)
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

    def partitions(self, topic: str) -> set[int] | None:
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
        topic = {
            "num_partitions": arguments.get("partitions", -1),
            "replication_factor": arguments.get("replicas", -1),
            "configs": arguments.get("configs", {}),
        }
        self._admin.create_topics({arguments["topic"]: topic})
        return {}

    def delete_topic(self, arguments: Arguments) -> dict[str, Any]:
        self._admin.delete_topics([arguments["topic"]])
        return {}

    def create_partitions(self, arguments: Arguments) -> dict[str, Any]:
        self._admin.create_partitions({arguments["topic"]: arguments["total"]})
        return {}

    def list_topics(self, _: Arguments) -> dict[str, Any]:
        return {"topics": sorted(name for name in self._admin.list_topics() if name[:2] != "__")}

    def describe_topic(self, arguments: Arguments) -> dict[str, Any]:
        (topic,) = self._admin.describe_topics([arguments["topic"]])
        if topic["error_code"]:
            raise for_code(topic["error_code"])(arguments["topic"])
        found = sorted(topic["partitions"], key=lambda one: one["partition_index"])
        return {
            "partitions": [
                {
                    "partition": one["partition_index"],
                    "leader": one["leader_id"],
                    "replicas": one["replica_nodes"],
                    "isr": one["isr_nodes"],
                }
                for one in found
            ]
        }

    def describe_configs(self, arguments: Arguments) -> dict[str, Any]:
        resource = ConfigResource("TOPIC", arguments["topic"])
        found = self._admin.describe_configs([resource], config_filter="all")
        configs = found["topic"][arguments["topic"]]
        return {"configs": {name: config["value"] for name, config in configs.items()}}

    def alter_configs(self, arguments: Arguments) -> dict[str, Any]:
        changes: dict[str, Any] = {
            name: ("SET", value) for name, value in arguments.get("set", {}).items()
        }
        changes |= {name: ("DELETE", None) for name in arguments.get("remove", ())}
        resource = ConfigResource("TOPIC", arguments["topic"], changes)
        results = self._admin.alter_configs([resource], raise_on_unknown=False)
        for result in (result for names in results.values() for result in names.values()):
            if result != "OK":  # "[Error 40] ..."
                raise for_code(int(result.partition("]")[0].removeprefix("[Error ")))(result)
        return {}

    def delete_records(self, arguments: Arguments) -> dict[str, Any]:
        partition = partition_of(arguments)
        found = self._admin.delete_records({partition: arguments["before"]})
        return {"earliest": found[partition]["low_watermark"]}

    def list_groups(self, _: Arguments) -> dict[str, Any]:
        return {"groups": sorted(one["group_id"] for one in self._admin.list_groups())}

    def describe_group(self, arguments: Arguments) -> dict[str, Any]:
        group = self._admin.describe_groups([arguments["group"]])[arguments["group"]]
        return {
            "state": group["group_state"],
            "members": [
                {
                    "client_id": member["client_id"],
                    "partitions": [
                        {"topic": topic["topic"], "partition": partition}
                        for topic in (member["member_assignment"] or {}).get(
                            "assigned_partitions", ()
                        )
                        for partition in topic["partitions"]
                    ],
                }
                for member in group["members"]
            ],
        }

    def delete_group(self, arguments: Arguments) -> dict[str, Any]:
        outcome = self._admin.delete_groups([arguments["group"]])[arguments["group"]]
        if outcome != "OK":
            raise getattr(kafka.errors, outcome)
        return {}

    def group_offsets(self, arguments: Arguments) -> dict[str, Any]:
        found = self._admin.list_group_offsets({arguments["group"]: None})[arguments["group"]]
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
            "brokers": sorted(one["broker_id"] for one in found["brokers"]),
        }

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()


def main() -> None:
    (bootstrap,) = sys.argv[1:]
    producing, consuming = Producing(bootstrap), Consuming(bootstrap)
    administrating = Administrating(bootstrap)

    def hello(_: Arguments) -> dict[str, Any]:
        return {"client": "kafka-python", "version": kafka.__version__, "can": CAN}

    def send_offsets(arguments: Arguments) -> dict[str, Any]:
        return producing.send_offsets(arguments, consuming.metadata_of(arguments["group"]))

    def partitions(arguments: Arguments) -> dict[str, Any]:
        topic = arguments["topic"]
        found = producing.partitions(topic)
        return {"partitions": sorted(found or consuming.partitions(topic) or ())}

    def close() -> None:
        producing.close()
        consuming.close()
        administrating.close()

    names = {
        producing: ("producer", "send", "begin", "commit_transaction", "abort_transaction"),
        consuming: (
            *("consumer", "subscribe", "assign", "poll", "assignment", "seek"),
            *("position", "pause", "resume", "commit", "committed", "offsets_for_times", "ends"),
        ),
        administrating: CAN[CAN.index("create_topic") :],
    }
    requests: dict[str, Callable[[Arguments], Any]] = {
        name: getattr(part, name) for part, of_part in names.items() for name in of_part
    }
    requests |= {
        "hello": hello,
        "send_offsets": send_offsets,
        "partitions": partitions,
        "close_producer": lambda _: producing.close(timeout_s=None),
        "close_consumer": consuming.close,
    }
    serve(requests, error_as_json, close)


if __name__ == "__main__":
    main()
