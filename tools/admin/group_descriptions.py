"""Consumer groups with their members, of the consumer and of the classic protocol."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kavka.tools.admin.cluster_client import ClusterClient
from kavka.tools.admin.coordinators import Outcome, ask_coordinators
from kavka.tools.admin.errors import Failed
from kavka.tools.admin.java_errors import Refused
from kavka.tools.admin.java_order import hash_order
from kavka.tools.admin.leaders import TopicPartition
from kavka.tools.admin.requests import ConsumerGroupDescribeRequest, DescribeGroupsRequest
from kavka.wire.apis import consumer_group_describe, describe_groups
from kavka.wire.apis.find_coordinator import Coordinator
from kavka.wire.errors import ErrorCode
from kavka.wire.fields import Malformed, Reader

CONSUMER_PROTOCOLS: Final = ("", "consumer")
"""Types of the classic protocol that consumers have; the empty one if they only commit."""

_OTHER_PROTOCOL: Final = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION)


class Member(NamedTuple):
    """`target` and `epoch` are known in groups of the consumer protocol only."""

    member_id: str
    instance_id: str
    client_id: str
    host: str
    owned: Sequence[TopicPartition]
    target: Sequence[TopicPartition] = ()
    epoch: int | None = None
    is_upgraded: bool | None = None


class Group(NamedTuple):
    """`epoch` and `target_epoch` are None in a group of the classic protocol."""

    group_id: str
    state: str
    assignor: str
    coordinator: Coordinator
    members: Sequence[Member]
    epoch: int | None = None
    target_epoch: int | None = None


async def describe(
    cluster: ClusterClient, group_ids: Iterable[str], within_s: float
) -> dict[str, Group | Failed]:
    """Groups in Java's order, or why one can't be described. Failed."""
    requested = list(dict.fromkeys(group_ids))
    found: dict[str, Group | Failed] = {}
    if requested and await cluster.serves(consumer_group_describe.API):
        outcomes = await ask_coordinators(
            cluster,
            requested,
            consumer_group_describe.API,
            ConsumerGroupDescribeRequest,
            _results,
            within_s=within_s,
        )
        for group_id, outcome in outcomes.items():
            if outcome.code not in _OTHER_PROTOCOL:
                found[group_id] = _described(outcome, _consumer_group)
    left = [group_id for group_id in requested if group_id not in found]
    if left:
        outcomes = await ask_coordinators(
            cluster,
            left,
            describe_groups.API,
            DescribeGroupsRequest,
            _results,
            within_s=within_s,
        )
        for group_id, outcome in outcomes.items():
            found[group_id] = _described(outcome, _classic_group)
    return {group_id: found[group_id] for group_id in hash_order(requested)}


async def describe_all(
    cluster: ClusterClient, group_ids: Iterable[str], within_s: float
) -> Mapping[str, Group]:
    """The same of groups that must all be there. Failed."""
    found: dict[str, Group] = {}
    for group_id, group in (await describe(cluster, group_ids, within_s)).items():
        if isinstance(group, Refused):
            raise Failed(group.described)
        if isinstance(group, Failed):
            raise group
        found[group_id] = group
    return found


def _results(response: Any) -> Iterator[tuple[str, int, str | None, Any]]:
    for group in response.groups:
        yield group.group_id, group.error_code, group.error_message, group


def _described(outcome: Outcome, read: Any) -> Group | Failed:
    if outcome.code:
        return Refused(outcome.code, outcome.message)
    group: Group | Failed = read(outcome.coordinator, outcome.result)
    return group


def _consumer_group(coordinator: Coordinator, found: Any) -> Group:
    members = [
        Member(
            member.member_id,
            member.instance_id or "",
            member.client_id,
            member.client_host,
            _partitions(member.assignment),
            _partitions(member.target_assignment),
            member.member_epoch,
            {
                consumer_group_describe.CLASSIC_MEMBER: False,
                consumer_group_describe.CONSUMER_MEMBER: True,
            }.get(member.member_type),
        )
        for member in found.members
    ]
    return Group(
        found.group_id,
        found.group_state,
        found.assignor_name,
        coordinator,
        members,
        found.group_epoch,
        found.assignment_epoch,
    )


def _partitions(assignment: Any) -> list[TopicPartition]:
    return [
        (topic.topic_name, partition)
        for topic in assignment.topic_partitions
        for partition in topic.partitions
    ]


def _classic_group(coordinator: Coordinator, found: Any) -> Group | Failed:
    if found.protocol_type not in CONSUMER_PROTOCOLS:
        return Failed(
            "java.lang.IllegalArgumentException: "
            f"GroupId {found.group_id} is not a consumer group ({found.protocol_type})."
        )
    members = [
        Member(
            member.member_id,
            member.group_instance_id or "",
            member.client_id,
            member.client_host,
            _embedded(found.group_id, bytes(member.member_assignment)),
        )
        for member in found.members
    ]
    return Group(found.group_id, found.group_state, found.protocol_data, coordinator, members)


def _embedded(group_id: str, data: bytes) -> list[TopicPartition]:
    """Apache Kafka's ConsumerProtocolAssignment; versions differ in what follows. Failed."""
    if not data:
        return []
    reader = Reader(data)
    try:
        reader.int16()
        return [
            (topic, reader.int32())
            for _ in range(reader.int32())
            for topic in [reader.key_string()]
            for _ in range(reader.int32())
        ]
    except Malformed as malformed:
        raise Failed(f"a member of {group_id} has no consumer's assignment: {malformed}") from None
