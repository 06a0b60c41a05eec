"""`kavka log-dirs`: as Apache Kafka's kafka-log-dirs, option by option."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Set
from typing import Any, Final

from kavka.tools.admin.cluster_client import ClusterClient
from kavka.tools.admin.command import Tool
from kavka.tools.admin.errors import Failed, Misused
from kavka.tools.admin.java_order import hash_order, partition_order
from kavka.tools.admin.options import Given, Option
from kavka.tools.admin.printing import joined, print_csv
from kavka.tools.admin.requests import DescribeLogDirsRequest
from kavka.wire.apis import describe_log_dirs
from kavka.wire.errors import ErrorCode

STORAGE_EXCEPTION: Final = "org.apache.kafka.common.errors.KafkaStorageException"
COLUMNS: Final = (
    "broker",
    "logDir",
    "error",
    "topic",
    "partition",
    "size",
    "offsetLag",
    "isFuture",
)

OPTIONS: Final = (
    Option("describe", "Print the log directories."),
    Option("topic-list", "Topics with commas between; all if left out.", "TOPIC,.."),
    Option("broker-list", "Ids of brokers; all if left out.", "ID,.."),
)


def check(given: Given) -> None:
    """Refuse what is not whole."""
    given.needs("bootstrap-server", "describe")
    _brokers(given)


async def run(cluster: ClusterClient, given: Given) -> int:
    """Print the directories, with the replicas in them, of all brokers or some."""
    live = {broker.node_id for broker in cluster.brokers}
    requested = _brokers(given)
    if missing := requested - live:
        raise Failed(
            "ERROR: The given brokers do not exist from --broker-list: "
            f"{joined(sorted(missing))}. Current existent brokers: {joined(sorted(live))}"
        )
    brokers = sorted(requested or live)
    form = given.text("output")
    if form not in ("json", "csv"):
        print("Querying brokers for log directories information")
    responses = await asyncio.gather(
        *(
            cluster.ask_broker(broker, describe_log_dirs.API, DescribeLogDirsRequest(None))
            for broker in brokers
        )
    )
    topics = {name for name in (given.text("topic-list") or "").split(",") if name}
    found = [
        {"broker": broker, "logDirs": _directories(response, topics)}
        for broker, response in zip(brokers, responses, strict=True)
    ]
    if form == "csv":
        print_csv(COLUMNS, _rows(found))
        return 0
    if form != "json":
        print(f"Received log directory information from brokers {joined(brokers)}")
    print(json.dumps({"brokers": found, "version": 1}, separators=(",", ":"), ensure_ascii=False))
    return 0


TOOL: Final = Tool(
    "log-dirs", "Print the log directories of brokers, as JSON.", OPTIONS, check, run
)


def _brokers(given: Given) -> set[int]:
    text = given.text("broker-list") or ""
    try:
        return {int(part) for part in text.split(",") if part}
    except ValueError:
        raise Misused(f"--broker-list is of ids with commas between, not {text!r}") from None


def _directories(response: Any, topics: Set[str]) -> list[dict[str, Any]]:
    if response.error_code:
        raise Failed(f"the broker answers {ErrorCode(response.error_code).name}")
    by_path = {directory.log_dir: directory for directory in response.results}
    return [_directory(by_path[path], topics) for path in hash_order(by_path)]


def _directory(found: Any, topics: Set[str]) -> dict[str, Any]:
    """The keys are in the order of Java's map."""
    replicas = {
        (topic.name, replica.partition_index): replica
        for topic in found.topics
        for replica in topic.partitions
        if not topics or topic.name in topics
    }
    error = None
    if found.error_code:
        code = ErrorCode(found.error_code)
        error = STORAGE_EXCEPTION if code == ErrorCode.KAFKA_STORAGE_ERROR else code.name
    return {
        "partitions": [
            {
                "partition": f"{topic}-{partition}",
                "size": replicas[topic, partition].partition_size,
                "offsetLag": replicas[topic, partition].offset_lag,
                "isFuture": replicas[topic, partition].is_future_key,
            }
            for topic, partition in partition_order(replicas)
        ],
        "error": error,
        "logDir": found.log_dir,
    }


def _rows(brokers: list[dict[str, Any]]) -> Iterator[list[Any]]:
    for broker in brokers:
        for directory in broker["logDirs"]:
            for replica in directory["partitions"]:
                topic, _, partition = replica["partition"].rpartition("-")
                yield [
                    broker["broker"],
                    directory["logDir"],
                    directory["error"] or "",
                    topic,
                    partition,
                    replica["size"],
                    replica["offsetLag"],
                    str(replica["isFuture"]).lower(),
                ]
