"""The driver of aiokafka (see ../README.md)."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment
from aiokafka.errors import BrokerResponseError, for_code
from brokers import for_aiokafka
from serve import Arguments, from_base64, given, headers_as_json, headers_of, serve_async, to_base64

ADMINISTRATION = (
    *("create_topic", "delete_topic", "create_partitions", "list_topics", "describe_topic"),
    *("describe_configs", "delete_records", "list_groups", "describe_group", "group_offsets"),
    "describe_cluster",
)

CAN = [
    *("produce", "acks", "gzip", "snappy", "lz4", "zstd", "headers", "null_headers", "timestamps"),
    *("append_time", "timeout", "empty_bytes", "keyed", "auto_create", "retries", "recreated"),
    "new_partitions",
    *("idempotence", "transactions", "fencing", "send_offsets"),
    *("consume", "group", "pattern", "range", "roundrobin", "sticky", "static_members"),
    *("isolation", "seek", "pause", "reset", "reset_none", "small_fetches"),
    *("offsets_for_times", "ends"),
    *ADMINISTRATION,
]

PRODUCER_SETTINGS = {
    "acks": "acks",
    "codec": "compression_type",
    "idempotent": "enable_idempotence",
    "transactional_id": "transactional_id",
    "transaction_timeout_ms": "transaction_timeout_ms",
    "linger_ms": "linger_ms",
    "batch_bytes": "max_batch_size",
    "max_request_bytes": "max_request_size",
    "timeout_ms": "request_timeout_ms",
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
}

TIMESTAMP_TYPES = {0: "create", 1: "append"}
CLOSE_S = 5


def partition_of(arguments: Arguments) -> TopicPartition:
    return TopicPartition(arguments["topic"], arguments["partition"])


def partitions_of(arguments: Arguments) -> list[TopicPartition]:
    return [partition_of(partition) for partition in arguments["partitions"]]


def partitions_as_json(partitions: Any) -> list[dict[str, Any]]:
    return [
        {"topic": partition.topic, "partition": partition.partition}
        for partition in sorted(partitions)
    ]


def error_as_json(failure: BaseException) -> dict[str, Any]:
    if isinstance(failure, BrokerResponseError):
        return {"code": failure.errno, "message": str(failure)}
    return {"name": type(failure).__name__, "message": str(failure)}


def check(code: int, text: str) -> None:
    """The admin client returns most responses as they are, with their errors."""
    if code:
        raise for_code(code)(text)


async def started(client: Any) -> Any:
    """The producer or the consumer; one that did not start is stopped, as its tasks may run."""
    try:
        await client.start()
    except BaseException:
        await client.stop()
        raise
    return client


class Producing:
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._producer: Any = None

    async def producer(self, arguments: Arguments) -> dict[str, Any]:
        await self.close(CLOSE_S)
        settings = given(arguments, PRODUCER_SETTINGS)
        if settings.get("acks") in ("0", "1"):
            settings["acks"] = int(settings["acks"])
        if settings.get("compression_type") == "none":
            settings["compression_type"] = None
        self._producer = await started(
            AIOKafkaProducer(bootstrap_servers=self._bootstrap, **for_aiokafka(), **settings)
        )
        return {}

    async def send(self, arguments: Arguments) -> dict[str, Any]:
        records = arguments["records"]
        sent = [await self._sent(arguments["topic"], record) for record in records]
        await self._producer.flush()
        return {"placed": [await placed(*pair) for pair in zip(records, sent, strict=True)]}

    async def _sent(self, topic: str, record: Arguments) -> Any:
        try:
            return await self._producer.send(
                topic,
                value=from_base64(record.get("value")),
                key=from_base64(record.get("key")),
                partition=record.get("partition"),
                timestamp_ms=record.get("timestamp"),
                headers=headers_of(record) or None,
            )
        except Exception as failure:  # of this record only
            return failure

    async def begin(self, _: Arguments) -> dict[str, Any]:
        await self._producer.begin_transaction()
        return {}

    async def commit_transaction(self, _: Arguments) -> dict[str, Any]:
        await self._producer.commit_transaction()
        return {}

    async def abort_transaction(self, _: Arguments) -> dict[str, Any]:
        await self._producer.abort_transaction()
        return {}

    async def send_offsets(self, arguments: Arguments) -> dict[str, Any]:
        offsets = {partition_of(commit): commit["offset"] for commit in arguments["offsets"]}
        await self._producer.send_offsets_to_transaction(offsets, arguments["group"])
        return {}

    async def partitions(self, topic: str) -> Any:
        return None if self._producer is None else await self._producer.partitions_for(topic)

    async def close_producer(self, _: Arguments) -> dict[str, Any]:
        await self.close(None)
        return {}

    async def close(self, timeout_s: float | None) -> None:
        if self._producer is None:
            return
        stopping = asyncio.ensure_future(self._producer.stop())
        self._producer = None
        done, _ = await asyncio.wait({stopping}, timeout=timeout_s)
        for task in done:
            task.result()


async def placed(record: Arguments, future: Any) -> dict[str, Any]:
    if isinstance(future, Exception):
        return {"error": error_as_json(future)}
    try:
        place = await future
    except Exception as failure:  # of this record only
        return {"error": error_as_json(failure)}
    if place is None:  # with acks 0 the library tells nothing
        return {"partition": record.get("partition", -1), "offset": -1}
    return {"partition": place.partition, "offset": place.offset, "timestamp": place.timestamp}


class Consuming:
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._consumer: Any = None
        self._kept: list[Any] = []

    async def consumer(self, arguments: Arguments) -> dict[str, Any]:
        await self.close()
        settings = {"auto_offset_reset": "earliest", **given(arguments, CONSUMER_SETTINGS)}
        if "assignor" in arguments:
            settings["partition_assignment_strategy"] = (ASSIGNORS[arguments["assignor"]],)
        self._consumer = await started(
            AIOKafkaConsumer(
                bootstrap_servers=self._bootstrap,
                enable_auto_commit=False,
                **for_aiokafka(),
                **settings,
            )
        )
        return {}

    async def subscribe(self, arguments: Arguments) -> dict[str, Any]:
        if "pattern" in arguments:
            pattern = f"^{arguments['pattern']}$"
            self._consumer.subscribe(pattern=pattern)
        else:
            self._consumer.subscribe(arguments["topics"])
        return {}

    async def assign(self, arguments: Arguments) -> dict[str, Any]:
        self._kept = []
        self._consumer.assign(partitions_of(arguments))
        for start in arguments["partitions"]:
            partition, offset = partition_of(start), start["offset"]
            if offset == "earliest":
                await self._consumer.seek_to_beginning(partition)
            elif offset == "latest":
                await self._consumer.seek_to_end(partition)
            else:
                self._consumer.seek(partition, offset)
        return {}

    async def poll(self, arguments: Arguments) -> dict[str, Any]:
        count, until = arguments["records"], time.monotonic() + arguments["timeout_ms"] / 1000
        records, self._kept = self._kept[:count], self._kept[count:]
        while len(records) < count and (left_s := until - time.monotonic()) > 0:
            records += await self._next(left_s * 1000, count - len(records))
        return {"records": [record_as_json(record) for record in records]}

    async def _next(self, timeout_ms: float, count: int | None = None) -> list[Any]:
        found = await self._consumer.getmany(timeout_ms=timeout_ms, max_records=count)
        return [record for records in found.values() for record in records]

    async def assignment(self, arguments: Arguments) -> dict[str, Any]:
        until = time.monotonic() + arguments["timeout_ms"] / 1000
        while (left_s := until - time.monotonic()) > 0:
            self._kept += await self._next(left_s * 1000)
        return {"partitions": partitions_as_json(self._consumer.assignment())}

    async def seek(self, arguments: Arguments) -> dict[str, Any]:
        partition = partition_of(arguments)
        self._kept = [record for record in self._kept if place_of(record) != partition]
        self._consumer.seek(partition, arguments["offset"])
        return {}

    async def position(self, arguments: Arguments) -> dict[str, Any]:
        return {"offset": await self._consumer.position(partition_of(arguments))}

    async def pause(self, arguments: Arguments) -> dict[str, Any]:
        self._consumer.pause(*partitions_of(arguments))
        return {}

    async def resume(self, arguments: Arguments) -> dict[str, Any]:
        self._consumer.resume(*partitions_of(arguments))
        return {}

    async def commit(self, arguments: Arguments) -> dict[str, Any]:
        if "offsets" not in arguments:
            await self._consumer.commit()
            return {}
        await self._consumer.commit(
            {
                partition_of(commit): (commit["offset"], commit.get("metadata", ""))
                for commit in arguments["offsets"]
            }
        )
        return {}

    async def committed(self, arguments: Arguments) -> dict[str, Any]:
        found = [
            await self._consumer.committed(partition) for partition in partitions_of(arguments)
        ]
        return {"offsets": [{"offset": offset} for offset in found]}

    async def offsets_for_times(self, arguments: Arguments) -> dict[str, Any]:
        timestamps = {
            partition_of(partition): partition["timestamp"] for partition in arguments["partitions"]
        }
        found = await self._consumer.offsets_for_times(timestamps)
        return {
            "offsets": [
                {"offset": None, "timestamp": None}
                if found[partition] is None
                else {"offset": found[partition].offset, "timestamp": found[partition].timestamp}
                for partition in partitions_of(arguments)
            ]
        }

    async def ends(self, arguments: Arguments) -> dict[str, Any]:
        partitions = partitions_of(arguments)
        earliest = await self._consumer.beginning_offsets(partitions)
        latest = await self._consumer.end_offsets(partitions)
        return {
            "ends": [
                {"earliest": earliest[partition], "latest": latest[partition]}
                for partition in partitions
            ]
        }

    def partitions(self, topic: str) -> Any:
        return self._consumer.partitions_for_topic(topic)

    async def close_consumer(self, _: Arguments) -> dict[str, Any]:
        await self.close()
        return {}

    async def close(self) -> None:
        if self._consumer is not None:
            consumer, self._consumer, self._kept = self._consumer, None, []
            await consumer.stop()


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

    async def _admin(self) -> Any:
        if self._opened is None:
            self._opened = AIOKafkaAdminClient(bootstrap_servers=self._bootstrap, **for_aiokafka())
            await self._opened.start()
        return self._opened

    async def create_topic(self, arguments: Arguments) -> dict[str, Any]:
        partitions, replicas = arguments.get("partitions", -1), arguments.get("replicas", -1)
        topic = NewTopic(
            arguments["topic"],
            partitions,
            replicas,
            # NewTopic wants assignments, be they empty, exactly if a number is -1
            replica_assignments={} if -1 in (partitions, replicas) else None,
            topic_configs=arguments.get("configs", {}),
        )
        response = await (await self._admin()).create_topics([topic])
        for found in response.to_object()["topic_errors"]:
            check(found["error_code"], found["error_message"] or "")
        return {}

    async def delete_topic(self, arguments: Arguments) -> dict[str, Any]:
        response = await (await self._admin()).delete_topics([arguments["topic"]])
        for found in response.to_object()["topic_error_codes"]:
            check(found["error_code"], found["topic"])
        return {}

    async def create_partitions(self, arguments: Arguments) -> dict[str, Any]:
        total = NewPartitions(arguments["total"])
        await (await self._admin()).create_partitions({arguments["topic"]: total})
        return {}

    async def list_topics(self, _: Arguments) -> dict[str, Any]:
        found = await (await self._admin()).describe_topics()
        return {"topics": sorted(topic["topic"] for topic in found if not topic["is_internal"])}

    async def describe_topic(self, arguments: Arguments) -> dict[str, Any]:
        (topic,) = await (await self._admin()).describe_topics([arguments["topic"]])
        check(topic["error_code"], arguments["topic"])
        found = sorted(topic["partitions"], key=lambda partition: partition["partition"])
        names = ("partition", "leader", "replicas", "isr")
        return {"partitions": [{name: partition[name] for name in names} for partition in found]}

    async def describe_configs(self, arguments: Arguments) -> dict[str, Any]:
        resource = ConfigResource(ConfigResourceType.TOPIC, arguments["topic"])
        (response,) = await (await self._admin()).describe_configs([resource])
        (found,) = response.to_object()["resources"]
        check(found["error_code"], found["error_message"] or "")
        return {
            "configs": {
                config["config_names"]: config["config_value"] for config in found["config_entries"]
            }
        }

    async def delete_records(self, arguments: Arguments) -> dict[str, Any]:
        partition = partition_of(arguments)
        before = {partition: RecordsToDelete(arguments["before"])}
        found = await (await self._admin()).delete_records(before)
        return {"earliest": found[partition]}

    async def list_groups(self, _: Arguments) -> dict[str, Any]:
        found = await (await self._admin()).list_consumer_groups()
        return {"groups": sorted(group for group, *_ in found)}

    async def describe_group(self, arguments: Arguments) -> dict[str, Any]:
        (response,) = await (await self._admin()).describe_consumer_groups([arguments["group"]])
        (group,) = response.to_object()["groups"]
        check(group["error_code"], arguments["group"])
        return {
            "state": group["state"],
            "members": [
                {
                    "client_id": member["client_id"],
                    "partitions": assigned(member["member_assignment"]),
                }
                for member in group["members"]
            ],
        }

    async def group_offsets(self, arguments: Arguments) -> dict[str, Any]:
        found = await (await self._admin()).list_consumer_group_offsets(arguments["group"])
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

    async def describe_cluster(self, _: Arguments) -> dict[str, Any]:
        found = await (await self._admin()).describe_cluster()
        return {
            "cluster_id": found["cluster_id"],
            "controller": found["controller_id"],
            "brokers": sorted(broker["node_id"] for broker in found["brokers"]),
        }

    async def close(self) -> None:
        if self._opened is not None:
            await self._opened.close()


def assigned(assignment: bytes) -> list[dict[str, Any]]:
    if not assignment:  # of a member that waits for a rebalance to end
        return []
    return partitions_as_json(ConsumerProtocolMemberAssignment.decode(assignment).partitions())


async def main() -> None:
    (bootstrap,) = sys.argv[1:]
    producing, consuming = Producing(bootstrap), Consuming(bootstrap)
    administrating = Administrating(bootstrap)

    async def hello(_: Arguments) -> dict[str, Any]:
        return {"client": "aiokafka", "version": aiokafka.__version__, "can": CAN}

    async def partitions(arguments: Arguments) -> dict[str, Any]:
        topic = arguments["topic"]
        found = await producing.partitions(topic)
        return {"partitions": sorted(found or consuming.partitions(topic) or ())}

    async def close() -> None:
        await producing.close(CLOSE_S)
        await consuming.close()
        await administrating.close()

    names = {
        producing: (
            *("producer", "send", "begin", "commit_transaction", "abort_transaction"),
            *("send_offsets", "close_producer"),
        ),
        consuming: (
            *("consumer", "subscribe", "assign", "poll", "assignment", "seek"),
            *("position", "pause", "resume", "commit", "committed", "offsets_for_times", "ends"),
            "close_consumer",
        ),
        administrating: ADMINISTRATION,
    }
    requests: dict[str, Callable[[Arguments], Awaitable[Any]]] = {
        name: getattr(part, name) for part, of_part in names.items() for name in of_part
    }
    requests |= {"hello": hello, "partitions": partitions}
    await serve_async(requests, error_as_json, close)


if __name__ == "__main__":
    asyncio.run(main())
