"""`kavka delete-records`: as Apache Kafka's kafka-delete-records, option by option."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from kavka.tools.admin.cluster_client import ClusterClient
from kavka.tools.admin.command import Tool
from kavka.tools.admin.errors import Failed
from kavka.tools.admin.java_errors import Refused
from kavka.tools.admin.java_order import partition_order
from kavka.tools.admin.json_values import is_number
from kavka.tools.admin.leaders import (
    TopicPartition,
    by_topic,
    leaders,
    partitions_of,
    read_document,
    refuse_doubles,
)
from kavka.tools.admin.options import Given, Option
from kavka.tools.admin.printing import PROGRAM_FORMS, print_rows
from kavka.wire.apis import delete_records
from kavka.wire.message import message

TIMEOUT_MS: Final = 30_000
VERSION: Final = 1
COLUMNS: Final = ("topic", "partition", "lowWatermark", "error")
FILE: Final = "offset-json-file"

OPTIONS: Final = (
    Option(
        FILE,
        "A file of JSON with the first offset to keep of each partition, -1 for none: "
        '{"partitions": [{"topic": "foo", "partition": 1, "offset": 1}], "version": 1}.',
        "FILE",
    ),
)


@message
class RequestedPartition:
    partition_index: int
    offset: int


@message
class RequestedTopic:
    name: str
    partitions: Sequence[RequestedPartition]


@message
class DeleteRecordsRequest:
    topics: Sequence[RequestedTopic]
    timeout_ms: int = TIMEOUT_MS


Deleted = tuple[int | None, int]
"""The low watermark, and the error code without one."""


def check(given: Given) -> None:
    """Refuse what is not whole."""
    given.needs("bootstrap-server", FILE)


async def run(cluster: ClusterClient, given: Given) -> int:
    """Delete the records, and print what became of each partition."""
    offsets = _offsets(given.text(FILE) or "")
    is_text = given.text("output") not in PROGRAM_FORMS
    if is_text:
        print("Executing records delete operation")
    found = await leaders(cluster, offsets)
    deleted: dict[TopicPartition, Deleted] = {
        topic_partition: (None, code) for topic_partition, code in found.refused.items()
    }
    for some in await asyncio.gather(
        *(_delete(cluster, broker, partitions, offsets) for broker, partitions in found.led.items())
    ):
        deleted |= some
    if is_text:
        print("Records delete operation completed:")
    _print(
        [
            (*topic_partition, *deleted[topic_partition])
            for topic_partition in partition_order(deleted)
        ],
        given.text("output"),
    )
    return 0


TOOL: Final = Tool(
    "delete-records", "Delete records of partitions up to an offset.", OPTIONS, check, run
)


def _offsets(path: str) -> dict[TopicPartition, int]:
    document = read_document(path)
    version = document.get("version", VERSION)
    if version != VERSION or not is_number(version, 32):
        raise Failed(f"{path}: Not supported version field value {version}")
    entries = partitions_of(path, document)
    for entry in entries:
        if not is_number(entry.get("offset"), 64):
            raise Failed(f'{path}: {entry} has no "offset" that is a number')
    refuse_doubles(path, [(entry["topic"], entry["partition"]) for entry in entries])
    return {(entry["topic"], entry["partition"]): entry["offset"] for entry in entries}


async def _delete(
    cluster: ClusterClient,
    broker: int,
    topic_partitions: Sequence[TopicPartition],
    offsets: Mapping[TopicPartition, int],
) -> dict[TopicPartition, Deleted]:
    topics = [
        RequestedTopic(
            topic,
            [RequestedPartition(partition, offsets[topic, partition]) for partition in partitions],
        )
        for topic, partitions in by_topic(topic_partitions).items()
    ]
    response = await cluster.ask_broker(broker, delete_records.API, DeleteRecordsRequest(topics))
    return {
        (topic.name, partition.partition_index): (
            None if partition.error_code else partition.low_watermark,
            partition.error_code,
        )
        for topic in response.topics
        for partition in topic.partitions
    }


def _print(rows: Sequence[tuple[str, int, int | None, int]], form: str | None) -> None:
    shown = [(*row[:3], Refused(row[3]).described if row[3] else None) for row in rows]
    if form in PROGRAM_FORMS:
        print_rows("partitions", COLUMNS, shown, form)
    else:
        for topic, partition, low_watermark, error in shown:
            said = f"error: {error}" if error else f"low_watermark: {low_watermark}"
            print(f"partition: {topic}-{partition}\t{said}")
