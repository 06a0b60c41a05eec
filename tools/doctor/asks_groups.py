"""Watches groups for a while, and asks for their offsets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kavka.tools.admin.requests import (
    ConsumerGroupDescribeRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
)
from kavka.tools.doctor.cluster import Cluster
from kavka.tools.doctor.groups import EMPTY, Group, Sample, TopicPartition
from kavka.tools.doctor.requests import (
    OffsetFetchRequest,
    RequestedGroup,
)
from kavka.wire.apis import consumer_group_describe, describe_groups, list_groups, offset_fetch

EVERY_S: Final = 0.25
CONSUMER: Final = "consumer"
CLASSIC: Final = ("", "classic")
DEAD: Final = "Dead"


class _Listed(NamedTuple):
    group: Group
    coordinator: int
    is_classic: bool


async def watch(cluster: Cluster, watch_s: float) -> Sequence[Group]:
    """All groups that brokers coordinate, classic and consumer ones, seen again and again while
    `watch_s` pass if one has members. Unanswered."""
    listed = await _list(cluster)
    clock, tasks = cluster.seams.clock, cluster.seams.tasks
    until_s = clock.monotonic_s() + watch_s
    is_busy = await _sample(cluster, listed)
    while is_busy and clock.monotonic_s() < until_s:
        await tasks.sleep(EVERY_S)
        await _sample(cluster, listed)
    names = {topic.topic_id: topic.name or "" for topic in cluster.metadata.topics}
    for listing in listed:
        listing.group.committed = await _committed(cluster, listing, names)
    return [listing.group for listing in listed]


async def _list(cluster: Cluster) -> list[_Listed]:
    answers = await cluster.ask_all(list_groups.API, ListGroupsRequest())
    return [
        _Listed(
            Group(group.group_id, group.protocol_type), broker, group.group_type.lower() in CLASSIC
        )
        for broker, answer in answers.items()
        for group in answer.groups
        if group.group_type.lower() in (*CLASSIC, CONSUMER)
    ]


async def _sample(cluster: Cluster, listed: Sequence[_Listed]) -> bool:
    """See each once more; whether one has members."""
    is_busy = False
    for broker in sorted({listing.coordinator for listing in listed}):
        mine = [listing for listing in listed if listing.coordinator == broker]
        by_id = {listing.group.group_id: listing.group for listing in mine}
        for found, sample in [
            *await _classic(cluster, broker, mine),
            *await _consumers(cluster, broker, mine),
        ]:
            group = by_id[found.group_id]
            group.samples.append(sample)
            group.clients = [member.client_id for member in found.members]
            is_busy = is_busy or sample.state not in (EMPTY, DEAD)
    return is_busy


async def _classic(
    cluster: Cluster, broker: int, listed: Sequence[_Listed]
) -> Sequence[tuple[Any, Sample]]:
    ids = [listing.group.group_id for listing in listed if listing.is_classic]
    if not ids:
        return ()
    answer = await cluster.ask(broker, describe_groups.API, DescribeGroupsRequest(ids))
    return [
        (group, Sample(group.group_state, frozenset(member.member_id for member in group.members)))
        for group in answer.groups
        if not group.error_code
    ]


async def _consumers(
    cluster: Cluster, broker: int, listed: Sequence[_Listed]
) -> Sequence[tuple[Any, Sample]]:
    ids = [listing.group.group_id for listing in listed if not listing.is_classic]
    if not ids:
        return ()
    request = ConsumerGroupDescribeRequest(ids)
    answer = await cluster.ask(broker, consumer_group_describe.API, request)
    return [
        (
            group,
            Sample(
                group.group_state,
                frozenset(member.member_id for member in group.members),
                group.group_epoch,
            ),
        )
        for group in answer.groups
        if not group.error_code
    ]


async def _committed(
    cluster: Cluster, listed: _Listed, names: Mapping[Any, str]
) -> Mapping[TopicPartition, int]:
    group_id = listed.group.group_id
    request = OffsetFetchRequest([RequestedGroup(group_id)], group_id)
    answer = await cluster.ask(listed.coordinator, offset_fetch.API, request)
    return {
        (name, partition.partition_index): partition.committed_offset
        for name, partitions in _topics(answer, names)
        for partition in partitions
        if not partition.error_code and partition.committed_offset >= 0
    }


def _topics(answer: Any, names: Mapping[Any, str]) -> Iterator[tuple[str, Any]]:
    """Names and partitions, whatever the version of the answer."""
    for topic in [
        *(answer.topics or ()),
        *(topic for group in answer.groups or () for topic in group.topics),
    ]:
        name = getattr(topic, "name", None) or names.get(getattr(topic, "topic_id", None), "")
        if name:
            yield name, topic.partitions
