"""What the mirror asks of both clusters beside records: topics, configs, offsets, groups."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from kavka.client.errors import NotLetIn, UnsupportedVersion
from kavka.tools.admin import stops
from kavka.tools.admin.cluster_client import ClusterClient
from kavka.tools.admin.command import Way, reached, way_of
from kavka.tools.admin.epoch_ends import epoch_ends
from kavka.tools.admin.errors import Failed
from kavka.tools.admin.group_descriptions import CONSUMER_PROTOCOLS
from kavka.tools.admin.group_requests import (
    Committed,
    commit_offsets,
    committed_offsets,
    listed_groups,
)
from kavka.tools.admin.java_errors import Refused
from kavka.tools.admin.leaders import TopicPartition
from kavka.tools.admin.partition_offsets import offsets_at
from kavka.tools.mirror.failures import Declined
from kavka.tools.mirror.look import WITHIN_S, Look, create, look, topic_ids
from kavka.tools.mirror.topic_plan import Choice
from kavka.wire.apis import list_offsets, offset_for_leader_epoch
from kavka.wire.errors import ErrorCode

DEFAULT: Final = -1
OTHER_TYPES: Final = ("share", "streams")
"""Of groups that are no consumer groups, but process records as well."""

CLIENT_ID: Final = "kavka-mirror"
T = TypeVar("T")


class Groups(NamedTuple):
    """What the source has of the groups that are wanted."""

    offsets: Mapping[
        str, tuple[Mapping[TopicPartition, Committed], Mapping[TopicPartition, Committed]]
    ]
    """Of each consumer group, in both clusters."""

    others: Mapping[str, str]
    """The types of share and streams groups, whose offsets are not translated."""


class Clusters:
    """The two, connected to anew for each question: brokers may have died since the last. What they
    refuse, and would again, is Declined."""

    def __init__(
        self,
        source: Mapping[str, str],
        target: Mapping[str, str],
        replication_factor: int | None,
    ) -> None:
        """By properties of Java clients. Failed."""
        self._source, self._target = _way("source", source), _way("target", target)
        self._factor = DEFAULT if replication_factor is None else replication_factor

    def ids(self) -> tuple[str, str]:
        """Of the clusters. Failed."""

        async def ask(source: ClusterClient, target: ClusterClient) -> tuple[str, str]:
            return source.cluster_id, target.cluster_id

        return self._run(ask)

    def look(self, choice: Choice) -> Look:
        """Make the target have the topics of the source. Failed."""
        return self._run(lambda source, target: look(source, target, choice, self._factor))

    def source_ids(self, names: Iterable[str]) -> dict[str, str]:
        """Of those of these topics that the source has now. Failed."""

        async def ask() -> dict[str, str]:
            async with reached(self._source) as source:
                return await topic_ids(source, names)

        return _answered(ask())

    def make_ledger(self, name: str, configs: Mapping[str, str]) -> None:
        """Create the topic unless it is there. Failed."""

        async def make(_: ClusterClient, target: ClusterClient) -> None:
            for reason in (await create(target, {name: 1}, self._factor, configs)).values():
                raise Declined(reason)

        self._run(make)

    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Where these leader epochs end in the source; see `tools.admin.epoch_ends`. Empty if its
        brokers do not say that. Failed."""

        async def ask(source: ClusterClient, _: ClusterClient) -> dict[TopicPartition, int]:
            if not await source.serves(offset_for_leader_epoch.API):
                return {}
            return await epoch_ends(source, epochs, WITHIN_S)

        return self._run(ask)

    def used(self, partitions: Iterable[TopicPartition]) -> set[TopicPartition]:
        """Those of these partitions that have something in the target. Failed."""
        requested = list(partitions)

        async def ask(_: ClusterClient, target: ClusterClient) -> set[TopicPartition]:
            starts = await offsets_at(target, requested, list_offsets.EARLIEST, WITHIN_S)
            ends = await offsets_at(target, requested, list_offsets.LATEST, WITHIN_S)
            return {
                topic_partition
                for topic_partition in requested
                if starts[topic_partition] < ends[topic_partition]
            }

        return self._run(ask) if requested else set()

    def groups(self, takes: Callable[[str], bool]) -> Groups:
        """Those of the source whose names it takes. Failed."""
        return self._run(lambda source, target: _groups(source, target, takes))

    def commit(self, offsets: Mapping[str, Mapping[TopicPartition, Committed]]) -> dict[str, str]:
        """Give groups of the target their offsets: why some were refused. Failed."""

        async def commit(_: ClusterClient, target: ClusterClient) -> dict[str, str]:
            refused = {}
            for group, group_offsets in offsets.items():
                try:
                    await commit_offsets(target, group, group_offsets, WITHIN_S)
                except Refused as failure:
                    refused[group] = failure.code.name
            return refused

        return self._run(commit)

    def _run(self, ask: Callable[[ClusterClient, ClusterClient], Awaitable[T]]) -> T:
        async def run() -> T:
            async with reached(self._source) as source, reached(self._target) as target:
                return await ask(source, target)

        return _answered(run())


def _answered(ask: Coroutine[Any, Any, T]) -> T:
    """What it finds. Failed, Declined."""
    try:
        return stops.run(ask)
    except Refused as refused:
        kind = Failed if refused.code.retriable else Declined
        raise kind(refused.message) from refused
    except Failed as failed:
        if isinstance(failed.__cause__, NotLetIn | UnsupportedVersion):
            raise Declined(str(failed)) from failed
        raise


def _way(side: str, properties: Mapping[str, str]) -> Way:
    config = {"client.id": CLIENT_ID, **properties}
    try:
        return way_of(config["bootstrap.servers"], side, config)
    except Failed as failed:
        raise Failed(f"--{side}-config: {failed}") from failed


async def _groups(
    source: ClusterClient, target: ClusterClient, takes: Callable[[str], bool]
) -> Groups:
    groups = [group for group in await listed_groups(source, WITHIN_S) if takes(group.group_id)]
    found = {}
    for group in groups:
        if group.protocol_type in CONSUMER_PROTOCOLS:
            here = await _committed(source, group.group_id)
            there = await _committed(target, group.group_id) if here else {}
            found[group.group_id] = here, there
    types = {group.group_id: group.group_type.lower() for group in groups}
    return Groups(
        found, {name: group_type for name, group_type in types.items() if group_type in OTHER_TYPES}
    )


async def _committed(cluster: ClusterClient, group: str) -> Mapping[TopicPartition, Committed]:
    """Nothing of a group that is not there (any more)."""
    try:
        return await committed_offsets(cluster, group, WITHIN_S)
    except Refused as refused:
        if refused.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return {}
