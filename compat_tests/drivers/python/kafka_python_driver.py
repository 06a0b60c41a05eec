"""The driver of kafka-python 3 (see ../README.md)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import kafka.errors
from brokers import for_kafka_python
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import ConfigResource
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import for_code
from kafka_python_parts import (
    Consuming,
    error_as_json,
    offset_and_metadata,
    partition_of,
    send,
)
from serve import Arguments, given, serve

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
        "small_fetches",
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

CLOSE_S = 5


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
        self._producer = KafkaProducer(
            bootstrap_servers=self._bootstrap, **for_kafka_python(), **settings
        )
        if "transactional_id" in settings:
            self._producer.init_transactions()
        return {}

    def send(self, arguments: Arguments) -> dict[str, Any]:
        return send(self._producer, arguments)

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
            partition_of(commit): offset_and_metadata(commit["offset"])
            for commit in arguments["offsets"]
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


class Administrating:
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._opened: Any = None

    @property
    def _admin(self) -> Any:
        if self._opened is None:
            self._opened = KafkaAdminClient(bootstrap_servers=self._bootstrap, **for_kafka_python())
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
        found = sorted(topic["partitions"], key=lambda partition: partition["partition_index"])
        return {
            "partitions": [
                {
                    "partition": partition["partition_index"],
                    "leader": partition["leader_id"],
                    "replicas": partition["replica_nodes"],
                    "isr": partition["isr_nodes"],
                }
                for partition in found
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
        return {"groups": sorted(group["group_id"] for group in self._admin.list_groups())}

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
                {
                    "topic": partition.topic,
                    "partition": partition.partition,
                    "offset": found[partition].offset,
                }
                for partition in sorted(found)
            ]
        }

    def describe_cluster(self, _: Arguments) -> dict[str, Any]:
        found = self._admin.describe_cluster()
        return {
            "cluster_id": found["cluster_id"],
            "controller": found["controller_id"],
            "brokers": sorted(broker["broker_id"] for broker in found["brokers"]),
        }

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()


def main() -> None:
    (bootstrap,) = sys.argv[1:]
    producing, consuming = Producing(bootstrap), Consuming(bootstrap, CONSUMER_SETTINGS, ASSIGNORS)
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
