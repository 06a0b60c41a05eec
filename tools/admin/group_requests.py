"""What tools ask about groups: of every broker, or of the groups' coordinators."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kavka.tools.admin.cluster_client import ClusterClient
from kavka.tools.admin.coordinators import Outcome, ask_coordinators
from kavka.tools.admin.errors import Failed
from kavka.tools.admin.java_errors import Refused
from kavka.tools.admin.java_order import hash_order
from kavka.tools.admin.leaders import TopicPartition
from kavka.tools.admin.requests import ListGroupsRequest
from kavka.wire.apis import delete_groups, list_groups, offset_commit, offset_delete, offset_fetch
from kavka.wire.apis.list_groups import ListedGroup
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

FETCH_BY_NAME: Final = offset_fetch.API.up_to(offset_fetch.TOPIC_IDS_VERSION - 1)
COMMIT_BY_NAME: Final = offset_commit.API.up_to(offset_commit.TOPIC_IDS_VERSION - 1)
"""Offsets may belong to topics that are gone, whose ids nobody knows."""

NO_GENERATION: Final = -1
NO_MEMBER: Final = ""
_NOT_YET: Final = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE)


class Committed(NamedTuple):
    offset: int
    leader_epoch: int | None
    metadata: str = ""


@message
class FetchTopic:
    name: str
    partition_indexes: Sequence[int]


@message
class FetchGroup:
    group_id: str
    topics: Sequence[FetchTopic] | None = None
    member_id: str | None = None
    member_epoch: int = -1


@message
class OffsetFetchRequest:
    """All offsets of one group."""

    group_id: str
    groups: Sequence[FetchGroup]
    topics: Sequence[FetchTopic] | None = None
    require_stable: bool = False


@message
class CommitPartition:
    partition_index: int
    committed_offset: int
    committed_leader_epoch: int = -1
    commit_timestamp: int = -1
    committed_metadata: str = ""


@message
class CommitTopic:
    name: str
    partitions: Sequence[CommitPartition]


@message
class OffsetCommitRequest:
    group_id: str
    topics: Sequence[CommitTopic]
    generation_id_or_member_epoch: int = NO_GENERATION
    member_id: str = NO_MEMBER
    group_instance_id: str | None = None
    retention_time_ms: int = -1


@message
class DeletePartition:
    partition_index: int


@message
class DeleteTopic:
    name: str
    partitions: Sequence[DeletePartition]


@message
class OffsetDeleteRequest:
    group_id: str
    topics: Sequence[DeleteTopic]


@message
class DeleteGroupsRequest:
    groups_names: Sequence[str]


async def listed_groups(
    cluster: ClusterClient,
    within_s: float,
    *,
    states: Sequence[str] = (),
    types: Sequence[str] = (),
    protocols: Container[str] | None = None,
) -> list[ListedGroup]:
    """The groups of all brokers, in Java's order, which depends on how many there are: so those of
    other `protocols` are left out before. A broker before Apache Kafka 3.8 does not say what type
    they have. Failed, Refused."""
    request = ListGroupsRequest(states, types)

    async def ask(broker_id: int) -> Sequence[ListedGroup]:
        code = ErrorCode.NONE
        async for _ in cluster.attempts(within_s):
            response = await cluster.ask_broker(broker_id, list_groups.API, request)
            code = ErrorCode(response.error_code)
            if code == ErrorCode.NONE:
                groups: Sequence[ListedGroup] = response.groups
                return groups
            if code not in _NOT_YET:
                break
        raise Refused(code)

    answers = await asyncio.gather(*(ask(broker.node_id) for broker in cluster.brokers))
    found = {
        group.group_id: group
        for some in answers
        for group in some
        if protocols is None or group.protocol_type in protocols
    }
    for group in found.values():
        group.group_type = group.group_type.capitalize()  # "Classic", as Apache Kafka's tools
    return [found[group_id] for group_id in hash_order(found)]


async def committed_offsets(
    cluster: ClusterClient, group_id: str, within_s: float
) -> dict[TopicPartition, Committed]:
    """A group's offsets. Refused, Failed."""
    request = OffsetFetchRequest(group_id, [FetchGroup(group_id)])

    def results(response: Any) -> Iterable[tuple[str, int, None, Any]]:
        group = response.groups[0] if response.groups else response
        yield group_id, group.error_code, None, group.topics

    outcome = await _ask_one(cluster, group_id, FETCH_BY_NAME, request, results, within_s)
    _check(outcome)
    return {
        (topic.name, partition.partition_index): Committed(
            partition.committed_offset,
            partition.committed_leader_epoch if partition.committed_leader_epoch >= 0 else None,
            partition.metadata or "",
        )
        for topic in outcome.result
        for partition in topic.partitions
        if not partition.error_code and partition.committed_offset >= 0
    }


async def commit_offsets(
    cluster: ClusterClient,
    group_id: str,
    offsets: Mapping[TopicPartition, int | Committed],
    within_s: float,
) -> None:
    """Give a group without members new offsets. Refused, Failed."""
    topics: defaultdict[str, list[CommitPartition]] = defaultdict(list)
    for (topic, partition), committed in offsets.items():
        offset, metadata = (
            (committed, "")
            if isinstance(committed, int)
            else (committed.offset, committed.metadata)
        )
        new = CommitPartition(partition, offset, committed_metadata=metadata)
        topics[topic].append(new)
    request = OffsetCommitRequest(group_id, [CommitTopic(*item) for item in topics.items()])

    def results(response: Any) -> Iterable[tuple[str, int, None, Any]]:
        failed = [
            ((topic.name, partition.partition_index), partition.error_code)
            for topic in response.topics
            for partition in topic.partitions
            if partition.error_code
        ]
        yield group_id, failed[0][1] if failed else ErrorCode.NONE, None, failed

    outcome = await _ask_one(cluster, group_id, COMMIT_BY_NAME, request, results, within_s)
    if outcome.result and outcome.code:
        names = ", ".join(f"{topic}-{number}" for (topic, number), _ in outcome.result)
        raise Refused(
            outcome.code,
            f"Failed altering group offsets for the following partitions: [{names}]",
        )
    _check(outcome)


async def delete_offsets(
    cluster: ClusterClient, group_id: str, partitions: Iterable[TopicPartition], within_s: float
) -> dict[TopicPartition, int]:
    """Forget a group's offsets of some partitions: the error code of each. Refused, Failed."""
    topics: defaultdict[str, list[DeletePartition]] = defaultdict(list)
    for topic, partition in partitions:
        topics[topic].append(DeletePartition(partition))
    request = OffsetDeleteRequest(group_id, [DeleteTopic(*item) for item in topics.items()])

    def results(response: Any) -> Iterable[tuple[str, int, None, Any]]:
        yield group_id, response.error_code, None, response.topics

    outcome = await _ask_one(cluster, group_id, offset_delete.API, request, results, within_s)
    _check(outcome)
    return {
        (topic.name, partition.partition_index): partition.error_code
        for topic in outcome.result
        for partition in topic.partitions
    }


async def delete_all(
    cluster: ClusterClient, group_ids: Iterable[str], within_s: float
) -> dict[str, Refused | None]:
    """Delete groups: why each was not, in Java's order. Failed."""

    def results(response: Any) -> Iterable[tuple[str, int, None, Any]]:
        for result in response.results:
            yield result.group_id, result.error_code, None, result

    found = await ask_coordinators(
        cluster, group_ids, delete_groups.API, DeleteGroupsRequest, results, within_s=within_s
    )
    return {
        group_id: Refused(found[group_id].code, found[group_id].message)
        if found[group_id].code
        else None
        for group_id in hash_order(found)
    }


async def _ask_one(
    cluster: ClusterClient, group_id: str, api: Any, request: Any, results: Any, within_s: float
) -> Outcome:
    found = await ask_coordinators(
        cluster, [group_id], api, lambda _: request, results, within_s=within_s
    )
    if group_id not in found:
        raise Failed(f"the coordinator of {group_id!r} does not answer for it")
    return found[group_id]


def _check(outcome: Outcome) -> None:
    if outcome.code:
        raise Refused(outcome.code, outcome.message)
