"""Which brokers lead partitions, and where partitions are named by a file of JSON."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kavka.tools.admin.cluster_client import ClusterClient
from kavka.tools.admin.errors import Failed
from kavka.tools.admin.json_values import first_value, is_number
from kavka.wire.errors import ErrorCode

Place = tuple[str, int]
"""Topic and partition."""


class Leaders(NamedTuple):
    """Partitions by the broker that leads them; and why others have none."""

    led: Mapping[int, Sequence[Place]]
    refused: Mapping[Place, int]


async def leaders(cluster: ClusterClient, places: Iterable[Place]) -> Leaders:
    """Those of these partitions. Failed."""
    asked = list(places)
    topics = await cluster.topics_named(topic for topic, _ in asked)
    led: defaultdict[int, list[Place]] = defaultdict(list)
    refused: dict[Place, int] = {}
    for place in asked:
        topic = topics.get(place[0])
        partitions = {one.partition_index: one for one in topic.partitions} if topic else {}
        found = partitions.get(place[1])
        if topic is not None and topic.error_code:
            refused[place] = topic.error_code
        elif found is None:
            refused[place] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif found.leader_id < 0:
            refused[place] = ErrorCode.LEADER_NOT_AVAILABLE
        else:
            led[found.leader_id].append(place)
    return Leaders(led, refused)


def by_topic(places: Iterable[Place]) -> dict[str, list[int]]:
    """The partitions of each topic."""
    topics: defaultdict[str, list[int]] = defaultdict(list)
    for topic, partition in places:
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
    if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
        raise Failed(f'{path}: "partitions" is a list of objects')
    for one in entries:
        if not isinstance(one.get("topic"), str) or not is_number(one.get("partition"), 32):
            raise Failed(f'{path}: {one} has no "topic" as text and "partition" as number')
    return entries


def refuse_doubles(path: str, places: Sequence[Place]) -> None:
    """Failed if one is named twice."""
    doubles = {place for place in places if places.count(place) > 1}
    if doubles:
        names = ", ".join(sorted(f"{topic}-{partition}" for topic, partition in doubles))
        raise Failed(f"{path} contains duplicate partitions: {names}")
