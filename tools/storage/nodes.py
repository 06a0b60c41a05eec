"""Which znodes are exported and imported, and whether they fit the target.

These are the persistent ones: topics with ids, assignments, leaders and leader epochs, configs,
quotas and users, ACLs, delegation tokens, the cluster id, the controller epoch, the last producer
id block, and requests pending for the controller. Not exported are ephemeral nodes (broker
registrations, the controller) and change notifications, whose receivers have stopped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from kavka.tools.storage.errors import Refused
from kavka.zktree import paths
from kavka.zktree.paths import TopicAssignment

Nodes: TypeAlias = Mapping[str, bytes | None]
"""Data by path."""

ROOTS: Final = (
    "/admin",
    "/brokers",
    "/cluster",
    "/config",
    "/consumers",
    "/controller_epoch",
    "/delegation_token",
    "/feature",
    "/isr_change_notification",
    "/kafka-acl",
    "/kafka-acl-changes",
    "/kafka-acl-extended",
    "/kafka-acl-extended-changes",
    "/latest_producer_id_block",
    "/log_dir_event_notification",
)
"""Those of Apache Kafka 3.9 except `/controller`, which is ephemeral, and `/migration`, which
belongs to the migration to KRaft. Other nodes in the same ZooKeeper are not Kafka's."""

EMPTIED: Final = (
    paths.BROKER_IDS,
    paths.CONFIG_CHANGES,
    "/delegation_token/token_changes",
    "/isr_change_notification",
    "/kafka-acl-changes",
    "/kafka-acl-extended-changes",
    "/log_dir_event_notification",
)
"""Exported without their children."""


class ClusterMetadata(NamedTuple):
    """What is exported and imported."""

    nodes: Nodes
    """Parents come before their children."""
    broker_sequence: int
    """How many broker ids were generated: the version of the node `paths.BROKER_SEQUENCE`, as in
    Apache Kafka."""


def is_exported(path: str) -> bool:
    """Whether the node at `path` is exported, unless it is ephemeral."""
    if any(path.startswith(f"{parent}/") for parent in EMPTIED):
        return False
    return any(path == root or path.startswith(f"{root}/") for root in ROOTS)


def topics(nodes: Nodes) -> Iterator[tuple[str, TopicAssignment]]:
    """The topics by name. Refused when one can't be read."""
    for path, data in nodes.items():
        name = paths.topic_at(path)
        if name is not None:
            try:
                yield name, paths.decode_topic(data)
            except (ValueError, KeyError, TypeError) as error:
                raise Refused(f"the topic at {path} can't be read: {error}") from error


def topic_configs(nodes: Nodes) -> Iterator[tuple[str, Mapping[str, str]]]:
    """The settings of topics that have some. Refused when they can't be read."""
    for path, data in nodes.items():
        kind, name = paths.config_at(path) or ("", "")
        if kind == paths.TOPIC_CONFIGS:
            try:
                yield name, paths.decode_config(data)
            except (ValueError, AttributeError) as error:
                raise Refused(f"the settings at {path} can't be read: {error}") from error


def cluster_id(nodes: Nodes) -> str:
    """The cluster's id. Refused when there is none."""
    data = nodes.get(paths.CLUSTER_ID)
    if data is None:
        raise Refused("it has no cluster id, so there is no cluster to move")
    try:
        return paths.decode_cluster_id(data)
    except (ValueError, KeyError) as error:
        raise Refused(f"the cluster id at {paths.CLUSTER_ID} can't be read: {error}") from error


class DirectoriesState(NamedTuple):
    """The owner of the log directories, and the logs in them."""

    cluster_id: str | None
    """None, as `broker_id` is, when they have no owner yet."""
    broker_id: int | None
    logs: Mapping[tuple[str, int], UUID | None]
    """The partitions, with the topic ids that are written in them."""


def check(metadata: ClusterMetadata, state: DirectoriesState) -> list[str]:
    """Warnings. Refused unless the nodes belong to the one broker that owns the directories."""
    cluster = cluster_id(metadata.nodes)
    _check_nodes(metadata.nodes)
    if state.cluster_id not in (None, cluster):
        raise Refused(
            f"the log directories belong to cluster {state.cluster_id}, the metadata to {cluster}"
        )
    ids: dict[str, UUID | None] = {}
    expected: dict[tuple[str, int], None] = {}
    brokers: dict[int, str] = {} if state.broker_id is None else {state.broker_id: ""}
    for name, assignment in topics(metadata.nodes):
        ids[name] = assignment.topic_id
        for index, replicas in assignment.replicas.items():
            expected[name, index] = None
            brokers |= {broker: name for broker in replicas if broker not in brokers}
    if len(brokers) > 1:
        raise Refused(_many_brokers(brokers, state.broker_id))
    for (name, index), found in state.logs.items():
        if found is not None and ids.get(name) not in (None, found):
            raise Refused(
                f"the log of {name}-{index} is of the topic id {paths.uuid_text(found)}, "
                "the metadata has another topic of this name"
            )
    return _warnings(expected, state)


def _check_nodes(nodes: Nodes) -> None:
    """Refused for nodes that no broker could start with: the file may have been edited."""
    for path, data in nodes.items():
        if not is_exported(path):
            raise Refused(f"{path} can't be imported: only Kafka's persistent nodes are")
        try:
            if path == paths.CONTROLLER_EPOCH:
                paths.decode_controller_epoch(data)
            elif paths.partition_state_at(path) is not None:
                paths.decode_partition_state(data)
        except (ValueError, KeyError, TypeError) as error:
            raise Refused(f"the node {path} can't be read: {error!r}") from error


def _many_brokers(brokers: Mapping[int, str], own: int | None) -> str:
    others = [f"{broker} (topic {name})" for broker, name in brokers.items() if broker != own]
    whose = "" if own is None else f"; the log directories are those of broker {own}"
    return (
        f"there are replicas on broker {', '.join(others)}{whose}. Only the metadata of a cluster "
        "of one broker can be exported: move all replicas to one (kafka-reassign-partitions) first"
    )


def _warnings(expected: Mapping[tuple[str, int], None], state: DirectoriesState) -> list[str]:
    said = [
        f"{name}-{index} has no log here and will begin empty"
        for name, index in expected
        if (name, index) not in state.logs
    ]
    said += [
        f"the log of {name}-{index} belongs to no topic of the metadata; it is left alone"
        for name, index in state.logs
        if (name, index) not in expected
    ]
    return said


def summary(metadata: ClusterMetadata) -> str:
    """A one-line summary for the operator."""
    found = list(topics(metadata.nodes))
    partitions = sum(len(assignment.replicas) for _, assignment in found)
    return (
        f"cluster {cluster_id(metadata.nodes)}: {len(found)} topics with {partitions} partitions, "
        f"{len(metadata.nodes)} nodes"
    )
