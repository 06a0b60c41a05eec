"""The driver of confluent-kafka: its producer, consumer and admin client (see ../README.md)."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import confluent_kafka
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)
from confluent_parts import (
    CLOSE_S,
    CONSUMER_CAN,
    POLL_RECORDS,
    PRODUCER_CAN,
    Kept,
    checked,
    committed_as_json,
    common_settings,
    consumer_settings,
    error_as_json,
    numbers_of,
    offsets_of,
    partition_of,
    partitions_as_json,
    partitions_of,
    placed_as_json,
    producer_settings,
    starts_of,
    times_as_json,
    times_of,
    to_produce,
)
from serve import Arguments, headers_of, serve

ADMINISTRATION = (
    *("create_topic", "delete_topic", "create_partitions", "list_topics", "describe_topic"),
    *("describe_configs", "alter_configs", "delete_records", "list_groups", "describe_group"),
    *("delete_group", "group_offsets", "describe_cluster"),
)

CAN = [
    *PRODUCER_CAN,
    *("headers", "null_headers", "timestamps"),
    *CONSUMER_CAN,
    *ADMINISTRATION,
]

STATES = {
    ConsumerGroupState.PREPARING_REBALANCING: "PreparingRebalance",
    ConsumerGroupState.COMPLETING_REBALANCING: "CompletingRebalance",
    ConsumerGroupState.STABLE: "Stable",
    ConsumerGroupState.DEAD: "Dead",
    ConsumerGroupState.EMPTY: "Empty",
}


class Producing:
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._producer: Any = None

    def producer(self, arguments: Arguments) -> dict[str, Any]:
        self.close()
        producer = Producer(producer_settings(self._bootstrap, arguments))
        if "transactional_id" in arguments:
            producer.init_transactions()
        self._producer = producer
        return {}

    def send(self, arguments: Arguments) -> dict[str, Any]:
        records = arguments["records"]
        outcomes: list[Any] = [None] * len(records)
        for number, record in enumerate(records):

            def note(error: Any, message: Any, number: int = number) -> None:
                outcomes[number] = error or message

            headers = {"headers": headers_of(record)} if record.get("headers") else {}
            try:
                self._producer.produce(
                    arguments["topic"], on_delivery=note, **to_produce(record), **headers
                )
            except Exception as failure:  # of this record only
                outcomes[number] = failure
        try:
            self._producer.flush()
        except Exception as failure:  # of all that is still to be delivered
            outcomes = [outcome or failure for outcome in outcomes]
        return {"placed": [placed_as_json(outcome) for outcome in outcomes]}

    def begin(self, _: Arguments) -> dict[str, Any]:
        self._producer.begin_transaction()
        return {}

    def commit_transaction(self, _: Arguments) -> dict[str, Any]:
        self._producer.commit_transaction()
        return {}

    def abort_transaction(self, _: Arguments) -> dict[str, Any]:
        self._producer.abort_transaction()
        return {}

    def send_offsets(self, arguments: Arguments, metadata: Any) -> dict[str, Any]:
        self._producer.send_offsets_to_transaction(offsets_of(arguments), metadata)
        return {}

    def partitions(self, topic: str) -> list[int] | None:
        return (
            None if self._producer is None else numbers_of(self._producer.list_topics(topic), topic)
        )

    def close_producer(self, _: Arguments) -> dict[str, Any]:
        if self._producer is not None:
            producer, self._producer = self._producer, None
            producer.close()
        return {}

    def close(self) -> None:
        """Without waiting for long."""
        if self._producer is not None:
            producer, self._producer = self._producer, None
            if producer.flush(CLOSE_S):
                producer.purge()
            producer.close()


class Consuming:
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._group: str | None = None
        self._consumer: Any = None
        self._kept = Kept()

    def consumer(self, arguments: Arguments) -> dict[str, Any]:
        self.close()
        self._consumer = Consumer(consumer_settings(self._bootstrap, arguments))
        self._group = arguments.get("group")
        return {}

    def subscribe(self, arguments: Arguments) -> dict[str, Any]:
        topics = arguments.get("topics") or [f"^{arguments['pattern']}$"]
        self._consumer.subscribe(topics)
        return {}

    def assign(self, arguments: Arguments) -> dict[str, Any]:
        self._kept = Kept()
        self._consumer.assign(starts_of(arguments))
        return {}

    def poll(self, arguments: Arguments) -> dict[str, Any]:
        count, until = arguments["records"], time.monotonic() + arguments["timeout_ms"] / 1000
        while (missing := self._kept.wants(count)) and (left_s := until - time.monotonic()) > 0:
            self._kept.messages += self._consumer.consume(missing, left_s)
        return {"records": self._kept.take(count)}

    def assignment(self, arguments: Arguments) -> dict[str, Any]:
        until = time.monotonic() + arguments["timeout_ms"] / 1000
        while (left_s := until - time.monotonic()) > 0:
            self._kept.messages += self._consumer.consume(POLL_RECORDS, left_s)
        return {"partitions": partitions_as_json(self._consumer.assignment())}

    def seek(self, arguments: Arguments) -> dict[str, Any]:
        self._kept.drop(partition_of(arguments))
        self._consumer.seek(
            TopicPartition(arguments["topic"], arguments["partition"], arguments["offset"])
        )
        return {}

    def position(self, arguments: Arguments) -> dict[str, Any]:
        (found,) = checked(self._consumer.position([partition_of(arguments)]))
        return {"offset": found.offset}

    def pause(self, arguments: Arguments) -> dict[str, Any]:
        self._consumer.pause(partitions_of(arguments))
        return {}

    def resume(self, arguments: Arguments) -> dict[str, Any]:
        self._consumer.resume(partitions_of(arguments))
        return {}

    def commit(self, arguments: Arguments) -> dict[str, Any]:
        offsets = {"offsets": offsets_of(arguments)} if "offsets" in arguments else {}
        checked(self._consumer.commit(asynchronous=False, **offsets))
        return {}

    def committed(self, arguments: Arguments) -> dict[str, Any]:
        found = self._consumer.committed(partitions_of(arguments))
        return {"offsets": committed_as_json(found)}

    def offsets_for_times(self, arguments: Arguments) -> dict[str, Any]:
        found = self._consumer.offsets_for_times(times_of(arguments))
        return {"offsets": times_as_json(found)}

    def ends(self, arguments: Arguments) -> dict[str, Any]:
        found = [
            self._consumer.get_watermark_offsets(partition)
            for partition in partitions_of(arguments)
        ]
        return {"ends": [{"earliest": first, "latest": end} for first, end in found]}

    def partitions(self, topic: str) -> list[int]:
        return numbers_of(self._consumer.list_topics(topic), topic)

    def metadata_of(self, group: str) -> Any:
        """The metadata of a group, which only its consumers have."""
        if group == self._group:
            return self._consumer.consumer_group_metadata()
        other = Consumer(consumer_settings(self._bootstrap, {"group": group}))
        try:
            return other.consumer_group_metadata()
        finally:
            other.close()

    def close_consumer(self, _: Arguments) -> dict[str, Any]:
        self.close()
        return {}

    def close(self) -> None:
        if self._consumer is not None:
            consumer, self._consumer = self._consumer, None
            self._group, self._kept = None, Kept()
            consumer.close()


class Administrating:
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._opened: Any = None

    @property
    def _admin(self) -> Any:
        if self._opened is None:
            self._opened = AdminClient(common_settings(self._bootstrap))
        return self._opened

    def create_topic(self, arguments: Arguments) -> dict[str, Any]:
        topic = NewTopic(
            arguments["topic"],
            num_partitions=arguments.get("partitions", -1),
            replication_factor=arguments.get("replicas", -1),
            config=arguments.get("configs", {}),
        )
        the_result(self._admin.create_topics([topic]))
        return {}

    def delete_topic(self, arguments: Arguments) -> dict[str, Any]:
        the_result(self._admin.delete_topics([arguments["topic"]]))
        return {}

    def create_partitions(self, arguments: Arguments) -> dict[str, Any]:
        change = NewPartitions(arguments["topic"], arguments["total"])
        the_result(self._admin.create_partitions([change]))
        return {}

    def list_topics(self, _: Arguments) -> dict[str, Any]:
        return {"topics": sorted(self._admin.list_topics().topics)}

    def describe_topic(self, arguments: Arguments) -> dict[str, Any]:
        topics = TopicCollection([arguments["topic"]])
        found = the_result(self._admin.describe_topics(topics))
        return {
            "partitions": [
                {
                    "partition": partition.id,
                    "leader": partition.leader.id,
                    "replicas": [node.id for node in partition.replicas],
                    "isr": [node.id for node in partition.isr],
                }
                for partition in sorted(found.partitions, key=lambda partition: partition.id)
            ]
        }

    def describe_configs(self, arguments: Arguments) -> dict[str, Any]:
        resource = ConfigResource(ResourceType.TOPIC, arguments["topic"])
        found = the_result(self._admin.describe_configs([resource]))
        return {"configs": {name: config.value for name, config in found.items()}}

    def alter_configs(self, arguments: Arguments) -> dict[str, Any]:
        changes = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in arguments.get("set", {}).items()
        ]
        changes += [
            ConfigEntry(name, None, incremental_operation=AlterConfigOpType.DELETE)
            for name in arguments.get("remove", ())
        ]
        resource = ConfigResource(
            ResourceType.TOPIC, arguments["topic"], incremental_configs=changes
        )
        the_result(self._admin.incremental_alter_configs([resource]))
        return {}

    def delete_records(self, arguments: Arguments) -> dict[str, Any]:
        before = TopicPartition(arguments["topic"], arguments["partition"], arguments["before"])
        found = the_result(self._admin.delete_records([before]))
        return {"earliest": found.low_watermark}

    def list_groups(self, _: Arguments) -> dict[str, Any]:
        found = self._admin.list_consumer_groups().result()
        for failure in found.errors:
            raise failure
        return {"groups": sorted(group.group_id for group in found.valid)}

    def describe_group(self, arguments: Arguments) -> dict[str, Any]:
        group = the_result(self._admin.describe_consumer_groups([arguments["group"]]))
        return {
            "state": STATES.get(group.state, group.state.name),
            "members": [
                {
                    "client_id": member.client_id,
                    "partitions": partitions_as_json(member.assignment.topic_partitions),
                }
                for member in group.members
            ],
        }

    def delete_group(self, arguments: Arguments) -> dict[str, Any]:
        the_result(self._admin.delete_consumer_groups([arguments["group"]]))
        return {}

    def group_offsets(self, arguments: Arguments) -> dict[str, Any]:
        group = ConsumerGroupTopicPartitions(arguments["group"])
        found = the_result(self._admin.list_consumer_group_offsets([group]))
        return {
            "offsets": [
                {
                    "topic": partition.topic,
                    "partition": partition.partition,
                    "offset": partition.offset,
                }
                for partition in sorted(checked(found.topic_partitions))
            ]
        }

    def describe_cluster(self, _: Arguments) -> dict[str, Any]:
        found = self._admin.describe_cluster().result()
        return {
            "cluster_id": found.cluster_id,
            "controller": None if found.controller is None else found.controller.id,
            "brokers": sorted(node.id for node in found.nodes),
        }


def the_result(futures: Any) -> Any:
    """The result for the one thing that was asked about."""
    (future,) = futures.values()
    return future.result()


def main() -> None:
    (bootstrap,) = sys.argv[1:]
    producing, consuming = Producing(bootstrap), Consuming(bootstrap)
    administrating = Administrating(bootstrap)

    def hello(_: Arguments) -> dict[str, Any]:
        return {"client": "confluent-kafka", "version": confluent_kafka.__version__, "can": CAN}

    def send_offsets(arguments: Arguments) -> dict[str, Any]:
        return producing.send_offsets(arguments, consuming.metadata_of(arguments["group"]))

    def partitions(arguments: Arguments) -> dict[str, Any]:
        topic = arguments["topic"]
        return {"partitions": producing.partitions(topic) or consuming.partitions(topic)}

    def close() -> None:
        producing.close()
        consuming.close()

    names = {
        producing: (
            *("producer", "send", "begin", "commit_transaction", "abort_transaction"),
            "close_producer",
        ),
        consuming: (
            *("consumer", "subscribe", "assign", "poll", "assignment", "seek"),
            *("position", "pause", "resume", "commit", "committed", "offsets_for_times", "ends"),
            "close_consumer",
        ),
        administrating: ADMINISTRATION,
    }
    requests: dict[str, Callable[[Arguments], Any]] = {
        name: getattr(part, name) for part, of_part in names.items() for name in of_part
    }
    requests |= {"hello": hello, "send_offsets": send_offsets, "partitions": partitions}
    serve(requests, error_as_json, close)


if __name__ == "__main__":
    main()
