"""The controller's requests to brokers: LeaderAndIsr, UpdateMetadata and StopReplica.

Fields are those of Apache Kafka's schemas of the newest versions (LeaderAndIsr 7, UpdateMetadata
8, StopReplica 4) in snake case, without the ones that only a KRaft controller sets. Within the
process they are passed as objects, not encoded; `kavka.server.cluster.control_wire` has them as
messages of the wire.
"""

from __future__ import annotations

import uuid
from typing import Final, NamedTuple

from kavka.wire.errors import ErrorCode

NO_LEADER: Final = -1
LEADER_DURING_DELETE: Final = -2
"""As leader in UpdateMetadata: the topic is being deleted, remove the partition."""

EPOCH_DURING_DELETE: Final = -2
"""As leader epoch in StopReplica: the topic is being deleted; ignore the broker's epoch."""

NO_EPOCH: Final = -1
"""As leader epoch in StopReplica: the partition has no state, or the request is of a version
without leader epochs; ignore the broker's epoch."""

NO_TOPIC_ID: Final = uuid.UUID(int=0)


class LeaderAndIsrPartitionState(NamedTuple):
    """A partition's leader and replicas, for a broker that has one of them."""

    partition_index: int
    controller_epoch: int
    """Of the controller that wrote this state."""
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    """Version of the partition's state in the coordination tree."""
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]
    is_new: bool
    """Whether the partition is new, so that a missing replica may be created."""
    leader_recovery_state: int


class LeaderAndIsrTopicState(NamedTuple):
    topic_name: str
    topic_id: uuid.UUID
    partition_states: tuple[LeaderAndIsrPartitionState, ...]


class LeaderAndIsrLiveLeader(NamedTuple):
    """The inter-broker listener of a leader, for its followers."""

    broker_id: int
    host_name: str
    port: int


class LeaderAndIsr(NamedTuple):
    controller_id: int
    controller_epoch: int
    broker_epoch: int
    """Of the receiving broker (KIP-380)."""
    topic_states: tuple[LeaderAndIsrTopicState, ...]
    live_leaders: tuple[LeaderAndIsrLiveLeader, ...]


class TopicPartition(NamedTuple):
    """Names one partition."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class LeaderAndIsrResponse(NamedTuple):
    """`error_code` other than NONE refuses the whole request."""

    error_code: ErrorCode
    partition_errors: dict[TopicPartition, ErrorCode]
    """Errors by partition; the request succeeded for all others."""


class UpdateMetadataPartitionState(NamedTuple):
    partition_index: int
    controller_epoch: int
    leader: int
    """Or `NO_LEADER`, or `LEADER_DURING_DELETE`."""
    leader_epoch: int
    isr: tuple[int, ...]
    zk_version: int
    """The partition epoch."""
    replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...]


class UpdateMetadataTopicState(NamedTuple):
    topic_name: str
    topic_id: uuid.UUID
    partition_states: tuple[UpdateMetadataPartitionState, ...]


def is_deletion(topic: UpdateMetadataTopicState) -> bool:
    """Whether partitions of a topic are being deleted, and so all of it."""
    return any(state.leader == LEADER_DURING_DELETE for state in topic.partition_states)


class UpdateMetadataEndpoint(NamedTuple):
    port: int
    host: str
    listener: str
    security_protocol: str
    """By name; the wire has its number."""


class UpdateMetadataBroker(NamedTuple):
    id: int
    endpoints: tuple[UpdateMetadataEndpoint, ...]
    rack: str | None


class UpdateMetadata(NamedTuple):
    controller_id: int
    controller_epoch: int
    broker_epoch: int
    topic_states: tuple[UpdateMetadataTopicState, ...]
    """Only the changed partitions; others keep their state."""
    live_brokers: tuple[UpdateMetadataBroker, ...]
    """All of them, every time."""
    is_part: bool = False
    """Whether its topics have other partitions, which later requests describe: clients get to know
    of them together."""


class StopReplicaPartitionState(NamedTuple):
    partition_index: int
    leader_epoch: int
    """Or `EPOCH_DURING_DELETE`, or `NO_EPOCH`."""
    delete_partition: bool


class StopReplicaTopicState(NamedTuple):
    topic_name: str
    partition_states: tuple[StopReplicaPartitionState, ...]
    topic_id: uuid.UUID = NO_TOPIC_ID
    """Not on the wire: the controller tells by it whether the response is of a topic that was
    deleted, and created again since."""


class StopReplica(NamedTuple):
    controller_id: int
    controller_epoch: int
    broker_epoch: int
    topic_states: tuple[StopReplicaTopicState, ...]


class StopReplicaResponse(NamedTuple):
    """`error_code` other than NONE refuses the whole request."""

    error_code: ErrorCode
    partition_errors: dict[TopicPartition, ErrorCode]
    """Errors by partition; the request succeeded for all others."""
