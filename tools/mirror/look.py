"""What both clusters have of the topics that are copied; the target is made to have them all.

Topics come and go meanwhile. One that the source has no more is left out. What a broker refuses for
one topic is told with the look, and is no matter of the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kavka.tools.admin.cluster_client import ClusterClient, check_answer
from kavka.tools.admin.errors import Failed
from kavka.tools.admin.java_errors import Refused
from kavka.tools.admin.leaders import TopicPartition
from kavka.tools.admin.partition_offsets import COMMITTED, offsets_at
from kavka.tools.admin.requests import (
    ChangedConfig,
    ChangedResource,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    RequestedResource,
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
    metadata,
)
from kavka.wire.apis.create_topics import CreateTopicsRequest, NewConfig, NewTopic
from kavka.wire.errors import ErrorCode

WITHIN_S: Final = 10.0
"""How long leaders and coordinators have to be there."""

TOPIC: Final = RESOURCES["topics"]
GONE: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

Refusals = dict[str, str]
"""What was refused, by topic, in a sentence."""


class Look(NamedTuple):
    """Of one moment."""

    source: Mapping[str, Topic]
    target: Mapping[str, Topic]
    """The same topics."""

    starts: Mapping[TopicPartition, int]
    """Of the source's partitions, as far as the target has them."""

    ends: Mapping[TopicPartition, int]
    """The offsets behind what committed readers may see there now."""

    target_starts: Mapping[TopicPartition, int]
    unknown: Mapping[str, Iterable[str]]
    """Configs of topics that the target's brokers do not know."""

    refused: Mapping[str, str] = {}
    """Why a topic is not as in the source; it is left out if the target has none."""

    source_is_empty: bool = False
    """Whether the source names no topic at all, not even one that is not wanted."""


async def look(source: ClusterClient, target: ClusterClient, choice: Choice, factor: int) -> Look:
    """Make the target have the topics of the source. Refused, Failed."""
    refusals: Refusals = {}
    topics, starts, ends, is_empty = await _source(source, choice, refusals)
    first = plan(topics, await _topics(target, "target", choice, refusals))
    refusals |= await create(target, first.new, factor)
    refusals |= await _grow(target, first.more)
    there = await _awaited(target, choice, topics, refusals)
    topics = {name: topic for name, topic in topics.items() if name in there}
    then = plan(topics, there)
    refusals |= (failed := await _alter(target, then.configs))
    changes = {name: change for name, change in then.configs.items() if name not in failed}
    after = {
        name: changes[name].made_to(there[name]) if name in changes else there[name]
        for name in topics
    }
    partitions = [
        (name, at)
        for name, topic in topics.items()
        for at in range(min(topic.partitions, after[name].partitions))
    ]
    return Look(
        topics,
        after,
        {topic_partition: starts[topic_partition] for topic_partition in partitions},
        {topic_partition: ends[topic_partition] for topic_partition in partitions},
        await offsets_at(target, partitions, list_offsets.EARLIEST, WITHIN_S),
        then.unknown,
        refusals,
        is_empty,
    )


async def _source(
    source: ClusterClient, choice: Choice, refusals: Refusals
) -> tuple[dict[str, Topic], dict[TopicPartition, int], dict[TopicPartition, int], bool]:
    """The topics, where they begin, and where they end; asked again if one of them goes. True if it
    has named no topic at all."""
    why: Refused | None = None
    async for _ in source.attempts(WITHIN_S):
        named = await source.topics()
        topics = await _described(source, named, "source", choice, refusals)
        partitions = [
            (name, at) for name, topic in topics.items() for at in range(topic.partitions)
        ]
        try:
            return (
                topics,
                await offsets_at(source, partitions, list_offsets.EARLIEST, WITHIN_S),
                await offsets_at(source, partitions, list_offsets.LATEST, WITHIN_S, COMMITTED),
                not named,
            )
        except Refused as refused:
            if refused.code != GONE:
                raise
            why = refused
    raise Failed(f"the source's topics change all the time: {why}")


async def _topics(
    cluster: ClusterClient, side: str, choice: Choice, refusals: Refusals
) -> dict[str, Topic]:
    """Those that it has, but for those of which it does not tell the configs."""
    return await _described(cluster, await cluster.topics(), side, choice, refusals)


async def _described(
    cluster: ClusterClient,
    named: Sequence[metadata.TopicResponse],
    side: str,
    choice: Choice,
    refusals: Refusals,
) -> dict[str, Topic]:
    found = {
        topic.name or "": topic
        for topic in named
        if choice.takes(topic.name or "", is_internal=topic.is_internal) and not topic.error_code
    }
    if not found:
        return {}
    request = DescribeConfigsRequest([RequestedResource(TOPIC.number, name) for name in found])
    response = await cluster.ask(describe_configs.API, request)
    topics = {}
    for result in response.results:
        name, topic = result.resource_name, found[result.resource_name]
        if result.error_code == GONE:
            continue
        failure = f"the {side} does not tell the configs of topic {name}"
        if reason := _refusal(failure, result.error_code, result.error_message):
            refusals[name] = reason
            continue
        topics[name] = Topic(
            name,
            _id(topic),
            len(topic.partitions),
            {config.name: config.value or "" for config in result.configs},
            frozenset(
                config.name for config in result.configs if config.config_source == TOPIC.source
            ),
        )
    return topics


async def topic_ids(cluster: ClusterClient, names: Iterable[str]) -> dict[str, str]:
    """Of those of these topics that are there. Failed."""
    found = await cluster.topics_named(names)
    return {name: _id(topic) for name, topic in found.items() if not topic.error_code}


def _id(topic: metadata.TopicResponse) -> str:
    return id_text(topic.topic_id) if topic.topic_id else ""


async def _awaited(
    target: ClusterClient, choice: Choice, topics: Mapping[str, Topic], refusals: Refusals
) -> dict[str, Topic]:
    """The target's topics, once a broker tells of all that was created."""
    late: list[str] = []
    async for _ in target.attempts(WITHIN_S):
        there = await _topics(target, "target", choice, refusals)
        late = [
            name
            for name, topic in topics.items()
            if name not in refusals
            and (name not in there or there[name].partitions < topic.partitions)
        ]
        if not late:
            return there
    raise Failed(f"the target does not show its new topic within {WITHIN_S:g} s: {late[0]}")


async def create(
    target: ClusterClient, new: Mapping[str, int], factor: int, configs: Mapping[str, str] = {}
) -> Refusals:
    """Topics, with so many partitions each, unless they are there. Failed."""
    if not new:
        return {}
    given = [NewConfig(*item) for item in configs.items()]
    topics = [NewTopic(name, count, factor, (), given) for name, count in new.items()]
    response = await target.ask_controller(
        create_topics.API,
        CreateTopicsRequest(topics, round(WITHIN_S * 1000)),
        lambda it: [topic.error_code for topic in it.topics],
    )
    return _refusals(
        (f"the target does not create topic {topic.name}", topic.name, topic)
        for topic in response.topics
        if topic.error_code != ErrorCode.TOPIC_ALREADY_EXISTS
    )


async def _grow(target: ClusterClient, more: Mapping[str, int]) -> Refusals:
    if not more:
        return {}
    topics = [MorePartitions(name, count, None) for name, count in more.items()]
    response = await target.ask_controller(
        create_partitions.API,
        CreatePartitionsRequest(topics),
        lambda it: [result.error_code for result in it.results],
    )
    return _refusals(
        (f"the target gives topic {result.name} no more partitions", result.name, result)
        for result in response.results
    )


async def _alter(target: ClusterClient, changes: Mapping[str, ConfigChanges]) -> Refusals:
    if not changes:
        return {}
    resources = [
        ChangedResource(
            TOPIC.number,
            name,
            [ChangedConfig(key, SET, value) for key, value in change.added.items()]
            + [ChangedConfig(key, DELETE, "") for key in change.deleted],
        )
        for name, change in changes.items()
    ]
    request = IncrementalAlterConfigsRequest(resources)
    response = await target.ask(incremental_alter_configs.API, request)
    return _refusals(
        (
            f"the target does not take the configs of topic {result.resource_name}",
            result.resource_name,
            result,
        )
        for result in response.responses
    )


def _refusals(results: Iterable[tuple[str, str, Any]]) -> Refusals:
    """Of results that have an error code: what each says if it is one, and its topic. Failed."""
    found = {
        name: _refusal(failure, result.error_code, result.error_message)
        for failure, name, result in results
    }
    return {name: why for name, why in found.items() if why}


def _refusal(failure: str, error_code: int, error_message: str | None) -> str:
    """Why, in a sentence; "" if it is done. Failed if the broker may do it later."""
    try:
        check_answer(error_code, error_message)
    except Failed as failed:
        known = error_code in ErrorCode.__members__.values()
        if known and ErrorCode(error_code).retriable:
            raise Failed(f"{failure}: {failed}") from failed
        return f"{failure}: {failed}"
    return ""
