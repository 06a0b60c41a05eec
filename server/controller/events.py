"""The events that the controller's state machine handles, and the commands that it returns."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple, TypeAlias

from kavka.server.cluster.control_messages import (
    LeaderAndIsr,
    LeaderAndIsrResponse,
    StopReplica,
    StopReplicaResponse,
    TopicPartition,
    UpdateMetadata,
)
from kavka.server.controller.state import Assignment, LiveBroker
from kavka.wire.errors import ApiError, ErrorCode
from kavka.zktree.paths import StoredPartitionState

CHUNK_PARTITIONS: Final = 128
"""Partitions in one event or request; this keeps an iteration of the event loop under 5 ms."""


Request: TypeAlias = LeaderAndIsr | UpdateMetadata | StopReplica


class StoredState(NamedTuple):
    """A partition's state as it is in the coordination tree."""

    state: StoredPartitionState
    version: int
    mzxid: int


class FoundPartition(NamedTuple):
    """A partition as it is in the coordination tree."""

    tp: TopicPartition
    assignment: Assignment
    stored: StoredState | None


class BrokersChanged(NamedTuple):
    """These brokers are registered now."""

    brokers: Mapping[int, LiveBroker]


class TopicsFound(NamedTuple):
    """New topics, with their ids; a `PartitionsFound` follows."""

    topics: Mapping[str, uuid.UUID]
    marked: Collection[str] = ()
    """Those whose deletion an earlier controller may have begun; a `TopicsMarked` follows."""


class PartitionsExpected(NamedTuple):
    """`PartitionsFound` of these partitions follow, chunk by chunk."""

    topics: Mapping[str, Collection[int]]


class PartitionsFound(NamedTuple):
    """Partitions of known topics, new or read again after a conflict. At most a chunk."""

    partitions: tuple[FoundPartition, ...]


class TopicRead(NamedTuple):
    """All partitions that a topic's node has in this version have been found."""

    name: str
    version: int


class TopicsRemoved(NamedTuple):
    """The nodes of these topics were removed."""

    names: tuple[str, ...]


class TopicsMarked(NamedTuple):
    """These topics are to be deleted."""

    names: tuple[str, ...]


class RequestedIsr(NamedTuple):
    """An ISR that a partition's leader asks for (AlterPartition, KIP-497)."""

    leader: int
    topic_id: uuid.UUID
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    leader_recovery_state: int = 0


class ReevaluatePartitions(NamedTuple):
    """Decide on partitions again after brokers have changed. At most a chunk."""

    partitions: tuple[TopicPartition, ...]
    started: tuple[int, ...]
    """Brokers that have registered; they have no state yet, so all of it is sent to them."""
    dead: tuple[int, ...]
    bounced: tuple[int, ...] = ()
    """Those of `started` that were registered before, in another session."""
    continued: str = ""
    """A topic that has partitions in the next chunk, too."""


class BrokerLeaving(NamedTuple):
    """A broker is going to stop, in this epoch (controlled shutdown)."""

    broker_id: int
    epoch: int


class LogDirsFailed(NamedTuple):
    """Log directories of these brokers failed; the brokers know which partitions are affected."""

    brokers: tuple[int, ...]


class ResendLeaderAndIsr(NamedTuple):
    """Ask brokers whether these partitions' replicas are still online. At most a chunk."""

    partitions: tuple[TopicPartition, ...]
    brokers: tuple[int, ...]


class DeleteReplicas(NamedTuple):
    """Delete the replicas of these partitions, of topics to be deleted. At most a chunk."""

    partitions: tuple[TopicPartition, ...]


class Elect(NamedTuple):
    """An ElectLeaders request for these partitions, perhaps unclean. At most a chunk."""

    partitions: tuple[TopicPartition, ...]
    unclean: bool


class StatesWritten(NamedTuple):
    """The result of `WriteStates`: what is in the tree now."""

    stored: Mapping[TopicPartition, StoredState]


class IsrsWritten(NamedTuple):
    """The ISRs of these partitions were changed, as their leaders had asked; leaders and leader
    epochs are the same."""

    stored: Mapping[TopicPartition, StoredState]


class ReassignmentsStored(NamedTuple):
    """The result of `FinishReassignments`: the topic's node has the ends of these partitions'
    reassignments."""

    name: str
    partitions: tuple[int, ...]


class LeaderAndIsrResponseReceived(NamedTuple):
    broker_id: int
    request: LeaderAndIsr
    response: LeaderAndIsrResponse


class UpdateMetadataResponseReceived(NamedTuple):
    broker_id: int
    request: UpdateMetadata
    error_code: ErrorCode


class StopReplicaResponseReceived(NamedTuple):
    broker_id: int
    request: StopReplica
    response: StopReplicaResponse


Event: TypeAlias = (
    BrokerLeaving
    | BrokersChanged
    | TopicsFound
    | PartitionsExpected
    | PartitionsFound
    | TopicRead
    | TopicsRemoved
    | TopicsMarked
    | ReevaluatePartitions
    | LogDirsFailed
    | ResendLeaderAndIsr
    | DeleteReplicas
    | Elect
    | StatesWritten
    | IsrsWritten
    | ReassignmentsStored
    | LeaderAndIsrResponseReceived
    | UpdateMetadataResponseReceived
    | StopReplicaResponseReceived
)


class StateWrite(NamedTuple):
    """A state to write; `version` is the one to replace, `NOT_STORED` for the first."""

    tp: TopicPartition
    state: StoredPartitionState
    version: int


class WriteStates(NamedTuple):
    """Write these, each only if its node still has the expected version."""

    writes: tuple[StateWrite, ...]


class Send(NamedTuple):
    """Send a request to a broker, after the earlier ones."""

    broker_id: int
    request: Request


class Enqueue(NamedTuple):
    """Put an event at the end of the queue."""

    event: Event


class FinishReassignments(NamedTuple):
    """Replace assignments in a topic's node, each (before, after) by partition, unless another
    reassignment has begun since."""

    name: str
    changes: Mapping[int, tuple[Assignment, Assignment]]


class RemoveTopic(NamedTuple):
    """Remove a topic's nodes, as all its replicas are deleted."""

    name: str


class DeleteMarks(NamedTuple):
    """Remove the deletion marks of topics that do not exist."""

    names: tuple[str, ...]


class ElectionResults(NamedTuple):
    """The results of an `Elect`: by partition, the new leader or an error."""

    results: Mapping[TopicPartition, int | ApiError]


class Warn(NamedTuple):
    """Log a warning."""

    text: str


Command: TypeAlias = (
    WriteStates
    | Send
    | Enqueue
    | FinishReassignments
    | RemoveTopic
    | DeleteMarks
    | ElectionResults
    | Warn
)


def summary(event: Event) -> str:
    """A short text for an event, for the history: whole events are big."""
    first = event[0]
    if isinstance(first, tuple | dict):
        return f"{type(event).__name__}: {len(first)}, {next(iter(first), None)!s:.80}"
    return f"{type(event).__name__}: {first!s:.80}"
