"""Builds the requests to brokers from the controller's state. Pure."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Final, TypeVar

from kavka.server.cluster.control_messages import (
    EPOCH_DURING_DELETE,
    LEADER_DURING_DELETE,
    NO_LEADER,
    LeaderAndIsr,
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrTopicState,
    StopReplica,
    StopReplicaPartitionState,
    StopReplicaTopicState,
    TopicPartition,
    UpdateMetadata,
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataTopicState,
)
from kavka.server.controller.state import ClusterState, Topic
from kavka.zktree.paths import StoredPartitionState

_NO_STATE: Final = StoredPartitionState(NO_LEADER, leader_epoch=-1, isr=(), controller_epoch=-1)
"""Of a partition none of whose replicas has been alive yet."""

P = TypeVar("P")
T = TypeVar("T")


def leader_and_isr(
    cluster: ClusterState,
    broker_id: int,
    partitions: Iterable[TopicPartition],
    *,
    new: Mapping[TopicPartition, Container[int]],
    listener: str,
) -> LeaderAndIsr:
    """A LeaderAndIsr for partitions that have a state and a replica on the broker.

    `new`: the brokers of a partition whose replicas are new. `listener`: the inter-broker listener.
    """
    leaders: dict[int, None] = {}

    def partition_state(topic: Topic, index: int) -> LeaderAndIsrPartitionState:
        partition = topic.partitions[index]
        state = partition.state
        assert state is not None
        leaders[state.leader] = None
        replicas, adding, removing = partition.known_assignment
        return LeaderAndIsrPartitionState(
            partition_index=index,
            controller_epoch=state.controller_epoch,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=state.isr,
            partition_epoch=partition.version,
            replicas=replicas,
            adding_replicas=adding,
            removing_replicas=removing,
            is_new=broker_id in new.get(TopicPartition(topic.name, index), ()),
            leader_recovery_state=state.leader_recovery_state,
        )

    topics = _by_topic(cluster, partitions, partition_state, LeaderAndIsrTopicState)
    return LeaderAndIsr(
        controller_id=cluster.controller_id,
        controller_epoch=cluster.epoch,
        broker_epoch=cluster.brokers[broker_id].epoch,
        topic_states=topics,
        live_leaders=tuple(_live_leaders(cluster, leaders, listener)),
    )


def _live_leaders(
    cluster: ClusterState, leaders: Iterable[int], listener: str
) -> Iterable[LeaderAndIsrLiveLeader]:
    for leader in leaders:
        broker = cluster.brokers.get(leader)
        for end in broker.info.endpoints if broker is not None else ():
            if end.listener == listener:
                yield LeaderAndIsrLiveLeader(leader, end.host, end.port)


def update_metadata(
    cluster: ClusterState,
    broker_id: int,
    partitions: Iterable[TopicPartition],
    *,
    is_part: bool = False,
) -> UpdateMetadata:
    """An UpdateMetadata; it removes partitions of topics being deleted, and those that have no
    state yet have no leader."""

    def partition_state(topic: Topic, index: int) -> UpdateMetadataPartitionState:
        partition = topic.partitions[index]
        state, replicas = partition.state or _NO_STATE, partition.known_assignment.replicas
        return UpdateMetadataPartitionState(
            partition_index=index,
            controller_epoch=state.controller_epoch,
            leader=LEADER_DURING_DELETE if topic.deleting else state.leader,
            leader_epoch=state.leader_epoch,
            isr=state.isr,
            zk_version=partition.version,
            replicas=replicas,
            offline_replicas=tuple(
                broker_id
                for broker_id in replicas
                if broker_id not in cluster.brokers or broker_id in partition.offline
            ),
        )

    return UpdateMetadata(
        controller_id=cluster.controller_id,
        controller_epoch=cluster.epoch,
        broker_epoch=cluster.brokers[broker_id].epoch,
        topic_states=_by_topic(cluster, partitions, partition_state, UpdateMetadataTopicState),
        live_brokers=tuple(
            UpdateMetadataBroker(
                broker.broker_id,
                tuple(
                    UpdateMetadataEndpoint(end.port, end.host, end.listener, end.security_protocol)
                    for end in broker.info.endpoints
                ),
                broker.info.rack,
            )
            for broker in cluster.brokers.values()
        ),
        is_part=is_part,
    )


def stop_replica(
    cluster: ClusterState, broker_id: int, partitions: Iterable[TopicPartition]
) -> StopReplica:
    """A StopReplica that deletes the broker's replicas: of topics being deleted, or of partitions
    whose reassignment has removed them."""

    def partition_state(topic: Topic, index: int) -> StopReplicaPartitionState:
        state = topic.partitions[index].state
        epoch = EPOCH_DURING_DELETE
        if not topic.deleting and state is not None:
            epoch = state.leader_epoch
        return StopReplicaPartitionState(index, epoch, delete_partition=True)

    def topic_state(
        name: str, topic_id: uuid.UUID, states: tuple[StopReplicaPartitionState, ...]
    ) -> StopReplicaTopicState:
        return StopReplicaTopicState(name, states, topic_id)

    return StopReplica(
        controller_id=cluster.controller_id,
        controller_epoch=cluster.epoch,
        broker_epoch=cluster.brokers[broker_id].epoch,
        topic_states=_by_topic(cluster, partitions, partition_state, topic_state),
    )


def _by_topic(
    cluster: ClusterState,
    partitions: Iterable[TopicPartition],
    partition_state: Callable[[Topic, int], P],
    topic_state: Callable[[str, uuid.UUID, tuple[P, ...]], T],
) -> tuple[T, ...]:
    """Partition states, grouped into topic states in the order in which topics come up."""
    states: dict[str, list[P]] = {}
    for name, index in partitions:
        states.setdefault(name, []).append(partition_state(cluster.topics[name], index))
    return tuple(
        topic_state(name, cluster.topics[name].topic_id, tuple(found))
        for name, found in states.items()
    )
