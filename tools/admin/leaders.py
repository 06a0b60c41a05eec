"""Which brokers lead partitions, and where partitions are named by a file of JSON."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kavka.tools.admin.cluster_client import ClusterClient
from kavka.tools.admin.errors import Failed
from kavka.tools.admin.json_values import first_value, is_number
from kavka.wire.errors import ErrorCode

TopicPartition = tuple[str, int]
"""Topic and partition."""


class Leaders(NamedTuple):
    """Partitions by the broker that leads them; and why others have none."""

    led: Mapping[int, Sequence[TopicPartition]]
    refused: Mapping[TopicPartition, int]


async def leaders(cluster: ClusterClient, topic_partitions: Iterable[TopicPartition]) -> Leaders:
    """Those of these partitions. Failed."""
    requested = list(topic_partitions)
    topics = await cluster.topics_named(topic for topic, _ in requested)
    led: defaultdict[int, list[TopicPartition]] = defaultdict(list)
    refused: dict[TopicPartition, int] = {}
    for topic_partition in requested:
        topic = topics.get(topic_partition[0])
        partitions = (
            {partition.partition_index: partition for partition in topic.partitions}
            if topic
            else {}
        )
        found = partitions.get(topic_partition[1])
        if topic is not None and topic.error_code:
            refused[topic_partition] = topic.error_code
        elif found is None:
            refused[topic_partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif found.leader_id < 0:
            refused[topic_partition] = ErrorCode.LEADER_NOT_AVAILABLE
        else:
            led[found.leader_id].append(topic_partition)
    return Leaders(led, refused)


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """The partitions of each topic."""
    topics: defaultdict[str, list[int]] = defaultdict(list)
    for topic, partition in partitions:
        topics[topic].append(partition)
    return topics


def read_document(path: str) -> dict[str, Any]:
    """The JSON object in a file. Failed."""
    try:
        with open(path, encoding="utf-8") as file:
            found = first_value(file.read())
    except OSError as error:
        raise Failed(f"{path} can't be read: {error.strerror}") from error
    except ValueError as error:
        raise Failed(f"{path} is not valid JSON: {error}") from error
    if not isinstance(found, dict):
        raise Failed(f"{path}: an object is expected, as {{'partitions': [...]}}")
    return found


def partitions_of(path: str, document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The entries of its field `partitions`, each with topic and partition. Failed."""
    if "partitions" not in document:
        raise Failed(f'{path} is missing the field "partitions"')
    entries = document["partitions"]
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise Failed(f'{path}: "partitions" is a list of objects')
    for entry in entries:
        if not isinstance(entry.get("topic"), str) or not is_number(entry.get("partition"), 32):
            raise Failed(f'{path}: {entry} has no "topic" as text and "partition" as number')
    return entries


def refuse_doubles(path: str, partitions: Sequence[TopicPartition]) -> None:
    """Failed if one is named twice."""
    doubles = {
        topic_partition for topic_partition in partitions if partitions.count(topic_partition) > 1
    }
    if doubles:
        names = ", ".join(sorted(f"{topic}-{partition}" for topic, partition in doubles))
        raise Failed(f"{path} contains duplicate partitions: {names}")
