"""The driver of kafka-python 2.0.2 (see ../README.md and kafka_python_2.txt)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import kafka
from brokers import for_kafka_python
from kafka import KafkaProducer
from kafka.admin import (
    ConfigResource,
    ConfigResourceType,
    KafkaAdminClient,
    NewPartitions,
    NewTopic,
)
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.errors import NoError, for_code
from kafka_python_parts import (
    Consuming,
    error_as_json,
    partitions_as_json,
    send,
)
from serve import Arguments, given, serve

ADMINISTRATION = (
    *("create_topic", "delete_topic", "create_partitions", "list_topics", "describe_topic"),
    *("describe_configs", "list_groups", "describe_group", "delete_group", "group_offsets"),
    "describe_cluster",
)

CAN = [
    *("produce", "acks", "gzip", "snappy", "lz4", "zstd", "headers", "timestamps", "timeout"),
    *("append_time", "empty_bytes", "keyed", "auto_create", "recreated"),
    *("consume", "group", "pattern", "range", "roundrobin", "seek", "pause"),
    *("reset", "reset_none", "small_fetches", "offsets_for_times", "ends", "commit_metadata"),
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
            timeout_ms = arguments["timeout_ms"]
            settings |= {"request_timeout_ms": timeout_ms, "max_block_ms": timeout_ms}
        self._producer = KafkaProducer(
            bootstrap_servers=self._bootstrap, **for_kafka_python(), **settings
        )
        return {}

    def send(self, arguments: Arguments) -> dict[str, Any]:
        return send(self._producer, arguments)

    def partitions(self, topic: str) -> set[int] | None:
        return None if self._producer is None else self._producer.partitions_for(topic)

    def close(self, timeout_s: float | None = CLOSE_S) -> None:
        if self._producer is not None:
            self._producer.close(timeout=timeout_s)
            self._producer = None


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
        return {"topics": sorted(topic["topic"] for topic in found if not topic["is_internal"])}

    def describe_topic(self, arguments: Arguments) -> dict[str, Any]:
        (topic,) = self._admin.describe_topics([arguments["topic"]])
        check(topic["error_code"], arguments["topic"])
        found = sorted(topic["partitions"], key=lambda partition: partition["partition"])
        names = ("partition", "leader", "replicas", "isr")
        return {"partitions": [{name: partition[name] for name in names} for partition in found]}

    def describe_configs(self, arguments: Arguments) -> dict[str, Any]:
        resource = ConfigResource(ConfigResourceType.TOPIC, arguments["topic"])
        (response,) = self._admin.describe_configs([resource])
        (found,) = response.to_object()["resources"]
        check(found["error_code"], found["error_message"] or "")
        return {
            "configs": {
                config["config_names"]: config["config_value"] for config in found["config_entries"]
            }
        }

    def list_groups(self, _: Arguments) -> dict[str, Any]:
        return {"groups": sorted(group for group, _ in self._admin.list_consumer_groups())}

    def describe_group(self, arguments: Arguments) -> dict[str, Any]:
        (group,) = self._admin.describe_consumer_groups([arguments["group"]])
        return {
            "state": group.state,
            "members": [
                {"client_id": member.client_id, "partitions": assigned(member.member_assignment)}
                for member in group.members
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
            "brokers": sorted(broker["node_id"] for broker in found["brokers"]),
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
    producing, consuming = Producing(bootstrap), Consuming(bootstrap, CONSUMER_SETTINGS, ASSIGNORS)
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
