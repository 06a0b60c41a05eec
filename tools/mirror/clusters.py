"""What the mirror asks of both clusters beside records: topics, configs, offsets, groups."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

from kavka.tools.admin import stops
from kavka.tools.admin.cluster_client import ClusterClient, check_answer
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
from kavka.tools.admin.partition_offsets import COMMITTED, Place, offsets_at
from kavka.tools.admin.requests import (
    AskedResource,
    ChangedConfig,
    ChangedResource,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
)
from kavka.tools.admin.resource_configs import DELETE, RESOURCES, SET
from kavka.tools.admin.topic_descriptions import id_text
from kavka.tools.admin.topics import CreatePartitionsRequest, MorePartitions
from kavka.tools.mirror.topic_plan import Choice, ConfigChanges, Topic, plan
from kavka.wire.apis import (
    create_partitions,
    create_topics,
    describe_configs,
    incremental_alter_configs,
    list_offsets,
    offset_for_leader_epoch,
)
from kavka.wire.apis.create_topics import CreateTopicsRequest, NewConfig, NewTopic
from kavka.wire.errors import ErrorCode

WITHIN_S: Final = 10.0
"""How long leaders and coordinators have to be there."""

DEFAULT: Final = -1
OTHER_TYPES: Final = ("share", "streams")
"""Of groups that are no consumer groups, but process records as well."""

CLIENT_ID: Final = "kavka-mirror"
TOPIC: Final = RESOURCES["topics"]
T = TypeVar("T")


class Look(NamedTuple):
    """What both clusters have of the topics that are copied; the target has all of them by now."""

    source: Mapping[str, Topic]
    target: Mapping[str, Topic]
    starts: Mapping[Place, int]
    """Of the source's partitions."""

    ends: Mapping[Place, int]
    """The offsets behind what committed readers may see there now."""

    target_starts: Mapping[Place, int]
    unknown: Mapping[str, Iterable[str]]
    """Configs of topics that the target's brokers do not know."""


class Groups(NamedTuple):
    """What the source has of the groups that are wanted."""

    offsets: Mapping[str, tuple[Mapping[Place, Committed], Mapping[Place, Committed]]]
    """Of each consumer group, in both clusters."""

    others: Mapping[str, str]
    """The types of share and streams groups, whose offsets are not translated."""


class Clusters:
    """The two, connected to anew for each question: brokers may have died since the last."""

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
        return self._run(lambda source, target: _look(source, target, choice, self._factor))

    def make_ledger(self, name: str, configs: Mapping[str, str]) -> None:
        """Create the topic unless it is there. Failed."""

        async def make(_: ClusterClient, target: ClusterClient) -> None:
            await _create(target, {name: 1}, self._factor, configs)

        self._run(make)

    def epoch_ends(self, epochs: Mapping[Place, int]) -> dict[Place, int]:
        """Where these leader epochs end in the source; see `tools.admin.epoch_ends`. Empty if its
        brokers do not say that. Failed."""

        async def ask(source: ClusterClient, _: ClusterClient) -> dict[Place, int]:
            if not await source.serves(offset_for_leader_epoch.API):
                return {}
            return await epoch_ends(source, epochs, WITHIN_S)

        return self._run(ask)

    def groups(self, takes: Callable[[str], bool]) -> Groups:
        """Those of the source whose names it takes. Failed."""
        return self._run(lambda source, target: _groups(source, target, takes))

    def commit(self, offsets: Mapping[str, Mapping[Place, Committed]]) -> dict[str, str]:
        """Give groups of the target their offsets: why some were refused. Failed."""

        async def commit(_: ClusterClient, target: ClusterClient) -> dict[str, str]:
            refused = {}
            for group, wanted in offsets.items():
                try:
                    await commit_offsets(target, group, wanted, WITHIN_S)
                except Refused as failure:
                    refused[group] = failure.code.name
            return refused

        return self._run(commit)

    def _run(self, ask: Callable[[ClusterClient, ClusterClient], Awaitable[T]]) -> T:
        async def run() -> T:
            async with reached(self._source) as source, reached(self._target) as target:
                return await ask(source, target)

        try:
            return stops.run(run())
        except Refused as refused:
            raise Failed(refused.message) from refused


def _way(side: str, properties: Mapping[str, str]) -> Way:
    config = {"client.id": CLIENT_ID, **properties}
    try:
        return way_of(config["bootstrap.servers"], side, config)
    except Failed as failed:
        raise Failed(f"--{side}-config: {failed}") from failed


async def _look(source: ClusterClient, target: ClusterClient, choice: Choice, factor: int) -> Look:
    wanted = await _topics(source, choice)
    first = plan(wanted, await _topics(target, choice))
    await _create(target, first.new, factor)
    if first.more:
        more = [MorePartitions(name, count, None) for name, count in first.more.items()]
        response = await target.ask_controller(
            create_partitions.API,
            CreatePartitionsRequest(more),
            lambda it: [one.error_code for one in it.results],
        )
        for result in response.results:
            check_answer(result.error_code, result.error_message)
    there = await _awaited(target, choice, wanted)
    then = plan(wanted, there)
    await _alter(target, then.configs)
    places = [(name, at) for name, topic in wanted.items() for at in range(topic.partitions)]
    earliest, latest = list_offsets.EARLIEST, list_offsets.LATEST
    return Look(
        wanted,
        {name: there[name] for name in wanted},
        await offsets_at(source, places, earliest, WITHIN_S),
        await offsets_at(source, places, latest, WITHIN_S, COMMITTED),
        await offsets_at(target, places, earliest, WITHIN_S),
        then.unknown,
    )


async def _topics(cluster: ClusterClient, choice: Choice) -> dict[str, Topic]:
    found = [
        topic
        for topic in await cluster.topics()
        if choice.takes(topic.name or "", is_internal=topic.is_internal) and not topic.error_code
    ]
    names = [topic.name or "" for topic in found]
    if not names:
        return {}
    request = DescribeConfigsRequest([AskedResource(TOPIC.number, name) for name in names])
    response = await cluster.ask(describe_configs.API, request)
    configs = {one.resource_name: one for one in response.results}
    for one in configs.values():
        check_answer(one.error_code, one.error_message)
    return {
        topic.name or "": Topic(
            topic.name or "",
            id_text(topic.topic_id) if topic.topic_id else "",
            len(topic.partitions),
            {one.name: one.value or "" for one in configs[topic.name].configs},
            frozenset(
                one.name for one in configs[topic.name].configs if one.config_source == TOPIC.source
            ),
        )
        for topic in found
    }


async def _awaited(
    target: ClusterClient, choice: Choice, wanted: Mapping[str, Topic]
) -> dict[str, Topic]:
    """The target's topics, once a broker tells of all that was created."""
    late: list[str] = []
    async for _ in target.attempts(WITHIN_S):
        there = await _topics(target, choice)
        late = [
            name
            for name, topic in wanted.items()
            if name not in there or there[name].partitions < topic.partitions
        ]
        if not late:
            return there
    raise Failed(f"the target does not show its new topic within {WITHIN_S:g} s: {late[0]}")


async def _create(
    target: ClusterClient, new: Mapping[str, int], factor: int, configs: Mapping[str, str] = {}
) -> None:
    if not new:
        return
    given = [NewConfig(*one) for one in configs.items()]
    topics = [NewTopic(name, count, factor, (), given) for name, count in new.items()]
    response = await target.ask_controller(
        create_topics.API,
        CreateTopicsRequest(topics, round(WITHIN_S * 1000)),
        lambda it: [one.error_code for one in it.topics],
    )
    for result in response.topics:
        if result.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
            check_answer(result.error_code, result.error_message)


async def _alter(target: ClusterClient, changes: Mapping[str, ConfigChanges]) -> None:
    if not changes:
        return
    resources = [
        ChangedResource(
            TOPIC.number,
            name,
            [ChangedConfig(key, SET, value) for key, value in one.added.items()]
            + [ChangedConfig(key, DELETE, "") for key in one.deleted],
        )
        for name, one in changes.items()
    ]
    request = IncrementalAlterConfigsRequest(resources)
    response = await target.ask(incremental_alter_configs.API, request)
    for result in response.responses:
        check_answer(result.error_code, result.error_message)


async def _groups(
    source: ClusterClient, target: ClusterClient, takes: Callable[[str], bool]
) -> Groups:
    groups = [one for one in await listed_groups(source, WITHIN_S) if takes(one.group_id)]
    found = {}
    for group in groups:
        if group.protocol_type in CONSUMER_PROTOCOLS:
            here = await _committed(source, group.group_id)
            there = await _committed(target, group.group_id) if here else {}
            found[group.group_id] = here, there
    types = {group.group_id: group.group_type.lower() for group in groups}
    return Groups(found, {name: one for name, one in types.items() if one in OTHER_TYPES})


async def _committed(cluster: ClusterClient, group: str) -> Mapping[Place, Committed]:
    """Nothing of a group that is not there (any more)."""
    try:
        return await committed_offsets(cluster, group, WITHIN_S)
    except Refused as refused:
        if refused.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return {}
