"""Groups by confluent-kafka's AdminClient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from admin.cells import cells
from admin.confluent import CLIENT, named, plain, result
from admin.held import HELD, IDLE, MISSING, NEW, SPARE
from admin.place import Place

Returned = Any
does = CLIENT.does


@cells
def listed(admin: AdminClient, place: Place, /, **options: Any) -> Returned:
    found = result(admin.list_consumer_groups(**options))
    own = [group for group in plain(found.valid) if group["group_id"].startswith(place.prefix)]
    errors = [named(error) for error in found.errors]
    return {"valid": sorted(own, key=str), "errors": errors}


def described(label: str) -> Callable[[AdminClient, Place], Returned]:
    return lambda admin, place: plain(
        result(
            admin.describe_consumer_groups([place.topic(label)], include_authorized_operations=True)
        )
    )


def partitions_of(place: Place, found: Any) -> Returned:
    return [
        (
            partition.topic,
            partition.partition,
            partition.offset,
            partition.metadata,
            partition.error and partition.error.name(),
        )
        for partition in found.topic_partitions
    ]


@cells
def offsets(admin: AdminClient, place: Place, label: str) -> Returned:
    request = ConsumerGroupTopicPartitions(place.topic(label))
    return sorted(partitions_of(place, result(admin.list_consumer_group_offsets([request]))))


@cells
def altered(admin: AdminClient, place: Place, label: str) -> Returned:
    partitions = [TopicPartition(place.topic("data"), index, 2) for index in range(2)]
    request = ConsumerGroupTopicPartitions(place.topic(label), partitions)
    return partitions_of(place, result(admin.alter_consumer_group_offsets([request])))


def deleted(label: str) -> Callable[[AdminClient, Place], Returned]:
    return lambda admin, place: plain(result(admin.delete_consumer_groups([place.topic(label)])))


does("list groups")(listed())
does("list groups in some states")(listed(states={ConsumerGroupState.STABLE}))
does("list groups of a type")(listed(types={ConsumerGroupType.CLASSIC}))
does("describe a group")(described(HELD))
does("describe a group of the newer protocol")(described(NEW))
does("describe an empty group")(described(IDLE))
does("describe a missing group")(described(MISSING))
does("a group's offsets")(offsets(HELD))
does("a missing group's offsets")(offsets(MISSING))
does("set an empty group's offsets")(altered(IDLE))
does("set offsets of a group in use")(altered(HELD))
does("delete a group in use")(deleted(HELD))
does("delete a group")(deleted(SPARE))
does("delete a missing group")(deleted(MISSING))
