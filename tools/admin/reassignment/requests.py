"""What a cluster is asked for a reassignment: where replicas are, and to move them."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kavka.tools.admin.cluster_client import ClusterClient
from kavka.tools.admin.errors import Failed
from kavka.tools.admin.java_order import hash_order, partition_order
from kavka.tools.admin.leaders import TopicPartition
from kavka.tools.admin.reassignment.plans import (
    Assignment,
    Directories,
    Replica,
    name_of,
)
from kavka.tools.admin.requests import (
    ChangedConfig,
    ChangedResource,
    DescribeLogDirsRequest,
    IncrementalAlterConfigsRequest,
    RequestedLogs,
)
from kavka.tools.admin.topic_descriptions import (
    ListPartitionReassignmentsRequest,
    RequestedReassignments,
)
from kavka.wire.apis import (
    alter_partition_reassignments,
    alter_replica_log_dirs,
    describe_log_dirs,
    incremental_alter_configs,
    list_partition_reassignments,
)
from kavka.wire.apis.metadata import PartitionResponse, TopicResponse
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

TIMEOUT_MS: Final = 60_000
KEEPS_FACTOR_SINCE: Final = 1
"""From this version on AlterPartitionReassignments can forbid another replication factor."""

TOPIC: Final = 2
BROKER: Final = 4
SET: Final = 0
DELETE: Final = 1

Changes = Mapping[str, str | None]
"""Configs to set; to remove where the value is None."""


class Reassignment(NamedTuple):
    """One that goes on. `replicas` has all, those to come and those to go included."""

    replicas: Sequence[int]
    adding: Sequence[int]
    removing: Sequence[int]


class LogDirs(NamedTuple):
    """Where a replica is, and where it is being moved to; None if nowhere."""

    current: str | None = None
    future: str | None = None


@message
class NewReplicas:
    """`replicas`: None cancels the reassignment."""

    partition_index: int
    replicas: Sequence[int] | None


@message
class MovedTopic:
    name: str
    partitions: Sequence[NewReplicas]


@message
class AlterPartitionReassignmentsRequest:
    topics: Sequence[MovedTopic]
    allow_replication_factor_change: bool = True
    timeout_ms: int = TIMEOUT_MS


@message
class MovedLogs:
    name: str
    partitions: Sequence[int]


@message
class Target:
    path: str
    topics: Sequence[MovedLogs]


@message
class AlterReplicaLogDirsRequest:
    dirs: Sequence[Target]


async def describe_topics(
    cluster: ClusterClient, names: Iterable[str]
) -> dict[str, list[PartitionResponse]]:
    """The partitions of topics, by number. Failed if one is missing."""
    requested = hash_order(names)
    found = await find_topics(cluster, requested)
    for name in requested:
        if name not in found:
            raise Failed(f"Topic {name} not found.")
    return {name: found[name] for name in requested}


async def find_topics(
    cluster: ClusterClient, names: Iterable[str]
) -> dict[str, list[PartitionResponse]]:
    """The partitions of those topics that exist, by number."""
    requested = set(names)
    return {
        name: _partitions(topic)
        for topic in await cluster.topics()
        if (name := topic.name) in requested
    }


async def describe_partitions(
    cluster: ClusterClient, topic_partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, PartitionResponse]:
    """Partitions. Failed if one is missing."""
    requested = partition_order(topic_partitions)
    topics = await describe_topics(cluster, (topic for topic, _ in requested))
    found = {
        (topic, partition.partition_index): partition
        for topic, partitions in topics.items()
        for partition in partitions
    }
    missing = [topic_partition for topic_partition in requested if topic_partition not in found]
    if missing:
        raise Failed(f"Unable to find partition: {', '.join(map(name_of, missing))}")
    return {topic_partition: found[topic_partition] for topic_partition in requested}


async def reassignments(
    cluster: ClusterClient, partitions: Iterable[TopicPartition] | None = None
) -> dict[TopicPartition, Reassignment]:
    """Those that go on; of all partitions if None are named. Failed."""
    requested = None
    if partitions is not None:
        requested = [RequestedReassignments(*item) for item in _by_topic(partitions).items()]
    response = await cluster.ask_controller(
        list_partition_reassignments.API,
        ListPartitionReassignmentsRequest(requested),
        lambda it: [it.error_code],
    )
    _check(response)
    return {
        (topic.name, partition.partition_index): Reassignment(
            partition.replicas, partition.adding_replicas, partition.removing_replicas
        )
        for topic in response.topics
        for partition in topic.partitions
    }


async def reassign(
    cluster: ClusterClient,
    targets: Mapping[TopicPartition, Sequence[int] | None],
    *,
    may_change_factor: bool = True,
) -> dict[TopicPartition, str]:
    """Begin reassignments, and cancel those for which None is wanted; why some were refused.
    Failed."""
    api = alter_partition_reassignments.API
    if not may_change_factor and not await cluster.serves(api, KEEPS_FACTOR_SINCE):
        raise Failed(
            "The broker does not support the AllowReplicationFactorChange option for the "
            "AlterPartitionReassignments API. Consider re-sending the request without the option "
            "or updating the server version"
        )
    topics = defaultdict[str, list[NewReplicas]](list)
    for (topic, partition), replicas in targets.items():
        topics[topic].append(NewReplicas(partition, replicas))
    request = AlterPartitionReassignmentsRequest(
        [MovedTopic(*item) for item in topics.items()], may_change_factor
    )
    response = await cluster.ask_controller(api, request, lambda it: [it.error_code])
    _check(response)
    return {
        (topic.name, partition.partition_index): _why(partition)
        for topic in response.responses
        for partition in topic.partitions
        if partition.error_code
    }


async def log_dirs(cluster: ClusterClient, replicas: Iterable[Replica]) -> dict[Replica, LogDirs]:
    """Where replicas are. Failed if a broker of them is not live."""
    of_brokers = defaultdict[int, list[Replica]](list)
    for replica in replicas:
        of_brokers[replica.broker].append(replica)
    found = await asyncio.gather(
        *(_log_dirs_of(cluster, broker, some) for broker, some in of_brokers.items())
    )
    return {replica: dirs for some in found for replica, dirs in some.items()}


async def current_log_dirs(
    cluster: ClusterClient, partitions: Mapping[TopicPartition, PartitionResponse]
) -> Directories:
    """Where the replicas of partitions are that are on live brokers. Failed."""
    live = {broker.node_id for broker in cluster.brokers}
    replicas = [
        Replica(broker, *topic_partition)
        for topic_partition, partition in partitions.items()
        for broker in partition.replica_nodes
        if broker in live
    ]
    found = await log_dirs(cluster, replicas)
    return {replica: dirs.current for replica, dirs in found.items() if dirs.current is not None}


async def move(cluster: ClusterClient, targets: Directories) -> list[Replica]:
    """Have replicas move to log directories; those that do, or are there. The others are not yet on
    their broker. Failed if one can't."""
    of_brokers = defaultdict[int, dict[Replica, str]](dict)
    for replica, path in targets.items():
        of_brokers[replica.broker][replica] = path
    answers = await asyncio.gather(
        *(_move_on(cluster, broker, some) for broker, some in of_brokers.items())
    )
    codes = {replica: code for some in answers for replica, code in some.items()}
    for replica in sorted(codes):
        if codes[replica] not in (ErrorCode.NONE, ErrorCode.REPLICA_NOT_AVAILABLE):
            raise Failed(f"Failed to alter dir for {replica}: {codes[replica].name}")
    return sorted(replica for replica, code in codes.items() if code == ErrorCode.NONE)


async def change_topics(cluster: ClusterClient, changes: Mapping[str, Changes]) -> None:
    """Change configs of topics. Failed."""
    resources = [_resource(TOPIC, name, changes[name]) for name in hash_order(changes)]
    if resources:
        request = IncrementalAlterConfigsRequest(resources)
        _check_all(await cluster.ask(incremental_alter_configs.API, request))


async def change_brokers(cluster: ClusterClient, brokers: Sequence[int], changes: Changes) -> None:
    """Change configs of brokers, each asked itself. All but those that
    are not live, for which it fails: Failed."""
    answers = await asyncio.gather(
        *(
            cluster.ask_broker(
                broker,
                incremental_alter_configs.API,
                IncrementalAlterConfigsRequest([_resource(BROKER, str(broker), changes)]),
            )
            for broker in brokers
        ),
        return_exceptions=True,
    )
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
        _check_all(answer)


def assignment_of(partitions: Mapping[TopicPartition, PartitionResponse]) -> Assignment:
    """The brokers that partitions are on."""
    return {
        topic_partition: partition.replica_nodes
        for topic_partition, partition in partitions.items()
    }


def _partitions(topic: TopicResponse) -> list[PartitionResponse]:
    return sorted(topic.partitions, key=lambda partition: partition.partition_index)


def _by_topic(partitions: Iterable[TopicPartition]) -> Mapping[str, Sequence[int]]:
    topics = defaultdict[str, list[int]](list)
    for topic, partition in partitions:
        topics[topic].append(partition)
    return topics


async def _log_dirs_of(
    cluster: ClusterClient, broker: int, replicas: Iterable[Replica]
) -> dict[Replica, LogDirs]:
    found = dict.fromkeys(replicas, LogDirs())
    topics = _by_topic((replica.topic, replica.partition) for replica in found)
    request = DescribeLogDirsRequest([RequestedLogs(*item) for item in topics.items()])
    response = await cluster.ask_broker(broker, describe_log_dirs.API, request)
    if response.error_code:
        raise Failed(f"broker {broker} answers {ErrorCode(response.error_code).name}")
    for directory in response.results:
        for topic in directory.topics:
            for partition in topic.partitions:
                replica = Replica(broker, topic.name, partition.partition_index)
                if replica not in found:
                    continue
                if partition.is_future_key:
                    found[replica] = found[replica]._replace(future=directory.log_dir)
                else:
                    found[replica] = found[replica]._replace(current=directory.log_dir)
    return found


async def _move_on(
    cluster: ClusterClient, broker: int, targets: Directories
) -> dict[Replica, ErrorCode]:
    paths = defaultdict[str, list[TopicPartition]](list)
    for replica, path in targets.items():
        paths[path].append((replica.topic, replica.partition))
    dirs = [
        Target(path, [MovedLogs(*item) for item in _by_topic(partitions).items()])
        for path, partitions in paths.items()
    ]
    response = await cluster.ask_broker(
        broker, alter_replica_log_dirs.API, AlterReplicaLogDirsRequest(dirs)
    )
    return {
        Replica(broker, topic.topic_name, partition.partition_index): ErrorCode(
            partition.error_code
        )
        for topic in response.results
        for partition in topic.partitions
    }


def _resource(kind: int, name: str, changes: Changes) -> ChangedResource:
    configs = [
        ChangedConfig(key, DELETE if value is None else SET, value)
        for key, value in changes.items()
    ]
    return ChangedResource(kind, name, configs)


def _check_all(response: Any) -> None:
    for result in response.responses:
        _check(result)


def _check(answer: Any) -> None:
    if answer.error_code:
        raise Failed(_why(answer))


def _why(answer: Any) -> str:
    return answer.error_message or ErrorCode(answer.error_code).name
