"""Groups by kafka-python's KafkaAdminClient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafka import KafkaAdminClient as Admin
from kafka import TopicPartition
from kafka.admin import OffsetSpec, OffsetTimestamp
from kafka.admin._groups import MemberToRemove
from kafka.structs import OffsetAndMetadata

from admin.cells import cells
from admin.held import HELD, IDLE, INSTANCE, MISSING, NEW, SPARE
from admin.kafka_python import CLIENT
from admin.place import Place
from kavka.compat_tests.raw.codec.batches import BASE_TIMESTAMP_MS

Returned = Any
does = CLIENT.does


def partitions(place: Place) -> list[TopicPartition]:
    return [TopicPartition(place.topic("data"), index) for index in range(2)]


def shown(value: Any) -> Any:
    """With texts instead of values that are not plain."""
    if isinstance(value, dict):
        return {str(key): shown(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [shown(item) for item in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)


@cells
def listed(admin: Admin, place: Place, /, **options: Any) -> Returned:
    own = [group for group in shown(admin.list_groups(**options)) if place.prefix in str(group)]
    return sorted(own, key=str)


def described(label: str) -> Callable[[Admin, Place], Returned]:
    return lambda admin, place: shown(admin.describe_groups([place.topic(label)]))


def offsets(label: str) -> Callable[[Admin, Place], Returned]:
    return lambda admin, place: shown(admin.list_group_offsets(place.topic(label)))


@cells
def altered(admin: Admin, place: Place, label: str) -> Returned:
    to_commit = {partition: OffsetAndMetadata(2, "set", -1) for partition in partitions(place)}
    result = admin.alter_group_offsets(place.topic(label), to_commit)
    return shown(result), offsets(label)(admin, place)


@cells
def reset(admin: Admin, place: Place, label: str, to: Any) -> Returned:
    targets = dict.fromkeys(partitions(place), to)
    return shown(admin.reset_group_offsets(place.topic(label), targets))


@cells
def forgotten(admin: Admin, place: Place, label: str) -> Returned:
    return shown(admin.delete_group_offsets(place.topic(label), partitions(place)))


@cells
def removed(admin: Admin, place: Place, instance: str) -> Returned:
    member = MemberToRemove(group_instance_id=instance)
    return shown(admin.remove_group_members(place.topic(HELD), [member]))


def deleted(label: str) -> Callable[[Admin, Place], Returned]:
    return lambda admin, place: shown(admin.delete_groups([place.topic(label)]))


does("list groups")(listed())
does("list groups in some states")(listed(states_filter=["Stable"]))
does("list groups of a type")(listed(types_filter=["classic"]))
does("describe a group")(described(HELD))
does("describe a group of the newer protocol")(described(NEW))
does("describe an empty group")(described(IDLE))
does("describe a missing group")(described(MISSING))
does("a group's offsets")(offsets(HELD))
does("offsets of several groups")(
    lambda admin, place: shown(
        admin.list_group_offsets([place.topic(label) for label in (HELD, IDLE, NEW)])
    )
)
does("a missing group's offsets")(offsets(MISSING))
does("set an empty group's offsets")(altered(IDLE))
does("set offsets of a group in use")(altered(HELD))
does("reset offsets to the beginning")(reset(IDLE, OffsetSpec.EARLIEST))
does("reset offsets to the end")(reset(IDLE, OffsetSpec.LATEST))
does("reset offsets to a time")(reset(IDLE, OffsetTimestamp(BASE_TIMESTAMP_MS + 5)))
does("reset offsets of a group in use")(reset(HELD, OffsetSpec.EARLIEST))
does("delete a group's offsets")(forgotten(IDLE))
does("delete offsets that a group reads on from")(forgotten(HELD))
does("delete a missing group's offsets")(forgotten(MISSING))
does("delete a group in use")(deleted(HELD))
does("remove a member")(removed(INSTANCE))
does("remove a missing member")(removed("another"))
does("delete a group")(deleted(SPARE))
does("delete a missing group")(deleted(MISSING))
