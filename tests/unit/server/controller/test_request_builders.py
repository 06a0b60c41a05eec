"""Requests to brokers, field by field."""

from __future__ import annotations

import uuid

from kavka.server.cluster.control_messages import (
    EPOCH_DURING_DELETE,
    LEADER_DURING_DELETE,
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
from kavka.server.controller import request_builders
from kavka.server.controller.state import ClusterState, LiveBroker, Partition, Topic
from kavka.zktree.paths import BrokerInfo, Endpoint, StoredPartitionState

ID_A, ID_B = uuid.UUID(int=10), uuid.UUID(int=11)
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def cluster() -> ClusterState:
    """Brokers 1 and 2 live, 3 does not; topic b is being deleted."""
    state = ClusterState(controller_id=1, epoch=7)
    for broker_id, rack in ((1, "r1"), (2, None)):
        endpoints = (
            Endpoint("OUT", "SSL", f"out{broker_id}", 9093),
            Endpoint("IN", "PLAINTEXT", f"in{broker_id}", 9092),
        )
        info = BrokerInfo(endpoints, rack)
        state.brokers[broker_id] = LiveBroker(broker_id, 100 + broker_id, info)
    a0 = Partition((1, 2, 3), adding=(3,), removing=(2,))
    a0.state, a0.version, a0.mzxid = StoredPartitionState(1, 4, (1, 2), 6, 1), 9, 500
    a1 = Partition((3, 2), offline=(2,))
    a1.state, a1.version, a1.mzxid = StoredPartitionState(3, 0, (3,), 5), 0, 400
    b0 = Partition((2,))
    b0.state, b0.version, b0.mzxid = StoredPartitionState(2, 1, (2,), 5), 3, 450
    state.topics["a"] = Topic("a", ID_A, {0: a0, 1: a1})
    state.topics["b"] = Topic("b", ID_B, {0: b0}, deleting=True, undeleted={0: None})
    state.check_invariants()
    return state


def test_leader_and_isr() -> None:
    request = request_builders.leader_and_isr(cluster(), 2, [A0, A1], new={A1: (2,)}, listener="IN")
    assert request == LeaderAndIsr(
        controller_id=1,
        controller_epoch=7,
        broker_epoch=102,
        topic_states=(
            LeaderAndIsrTopicState(
                "a",
                ID_A,
                (
                    LeaderAndIsrPartitionState(
                        *(0, 6, 1, 4, (1, 2), 9, (1, 2, 3), (3,), (2,), False, 1)
                    ),
                    LeaderAndIsrPartitionState(*(1, 5, 3, 0, (3,), 0, (3, 2), (), (), True, 0)),
                ),
            ),
        ),
        live_leaders=(LeaderAndIsrLiveLeader(1, "in1", 9092),),
    )


def test_update_metadata() -> None:
    request = request_builders.update_metadata(cluster(), 1, [B0, A0, A1])
    assert request == UpdateMetadata(
        controller_id=1,
        controller_epoch=7,
        broker_epoch=101,
        topic_states=(
            UpdateMetadataTopicState(
                "b",
                ID_B,
                (
                    UpdateMetadataPartitionState(
                        *(0, 5, LEADER_DURING_DELETE, 1, (2,), 3, (2,), ())
                    ),
                ),
            ),
            UpdateMetadataTopicState(
                "a",
                ID_A,
                (
                    UpdateMetadataPartitionState(*(0, 6, 1, 4, (1, 2), 9, (1, 2, 3), (3,))),
                    UpdateMetadataPartitionState(*(1, 5, 3, 0, (3,), 0, (3, 2), (3, 2))),
                ),
            ),
        ),
        live_brokers=(
            UpdateMetadataBroker(
                1,
                (
                    UpdateMetadataEndpoint(9093, "out1", "OUT", "SSL"),
                    UpdateMetadataEndpoint(9092, "in1", "IN", "PLAINTEXT"),
                ),
                "r1",
            ),
            UpdateMetadataBroker(
                2,
                (
                    UpdateMetadataEndpoint(9093, "out2", "OUT", "SSL"),
                    UpdateMetadataEndpoint(9092, "in2", "IN", "PLAINTEXT"),
                ),
                None,
            ),
        ),
    )


def test_stop_replica_of_a_reassigned_partition_has_the_leader_epoch() -> None:
    (topic,) = request_builders.stop_replica(cluster(), 2, [A0]).topic_states
    assert topic.partition_states == (StopReplicaPartitionState(0, 4, delete_partition=True),)


def test_stop_replica() -> None:
    assert request_builders.stop_replica(cluster(), 2, [B0]) == StopReplica(
        controller_id=1,
        controller_epoch=7,
        broker_epoch=102,
        topic_states=(
            StopReplicaTopicState(
                "b",
                (StopReplicaPartitionState(0, EPOCH_DURING_DELETE, delete_partition=True),),
                ID_B,
            ),
        ),
    )
