"""What the controller's machine is told, and what it asks for in return."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from kavka.server.cluster.control_messages import (
    LeaderAndIsr,
    LeaderAndIsrResponse,
    StopReplica,
    StopReplicaResponse,
    TopicPartition,
    UpdateMetadata,
)
from kavka.server.controller.state import LiveBroker
from kavka.wire.errors import ApiError, ErrorCode
from kavka.zktree.paths import PartitionState

CHUNK_PARTITIONS: Final = 128
"""Partitions in one event or one request: what keeps a turn of the loop under 5 ms."""


Request: TypeAlias = LeaderAndIsr | UpdateMetadata | StopReplica


class StoredState(NamedTuple):
    """A partition's state as it is in the coordination tree."""

    state: PartitionState
    version: int
    mzxid: int


class FoundPartition(NamedTuple):
    """A partition as it is in the coordination tree."""

    where: TopicPartition
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    stored: StoredState | None


class BrokersChanged(NamedTuple):
    """These brokers are registered now."""

    brokers: Mapping[int, LiveBroker]


class TopicsFound(NamedTuple):
    """Topics that were not known, with their ids; their partitions follow."""

    topics: Mapping[str, uuid.UUID]


class PartitionsFound(NamedTuple):
    """Partitions of known topics, new or read again after a conflict. At most a chunk."""

    partitions: tuple[FoundPartition, ...]


class TopicsGone(NamedTuple):
    """The nodes of these topics are removed."""

    names: tuple[str, ...]


class TopicsMarked(NamedTuple):
    """These topics are to be deleted."""

    names: tuple[str, ...]


class Examine(NamedTuple):
    """Look again at partitions after a change of brokers. At most a chunk."""

    partitions: tuple[TopicPartition, ...]
    fresh: tuple[int, ...]
    """Brokers that came; they know nothing yet and are told in any case."""
    gone: tuple[int, ...]
    bounced: tuple[int, ...] = ()
    """Those of the fresh ones that were there before, in another session."""


class DirectoriesFailed(NamedTuple):
    """Log directories of these brokers have failed; which partitions were there, they know."""

    brokers: tuple[int, ...]


class AskAgain(NamedTuple):
    """Have brokers say of these partitions whether they still have them. At most a chunk."""

    partitions: tuple[TopicPartition, ...]
    brokers: tuple[int, ...]


class DeleteReplicas(NamedTuple):
    """Delete what brokers have of these partitions of topics to be deleted. At most a chunk."""

    partitions: tuple[TopicPartition, ...]


class Elect(NamedTuple):
    """Someone asks for leaders of these partitions, also unclean ones. At most a chunk."""

    partitions: tuple[TopicPartition, ...]
    unclean: bool


class StatesWritten(NamedTuple):
    """The answer to a `WriteStates`: what is in the tree now."""

    stored: Mapping[TopicPartition, StoredState]


class LeaderAndIsrAnswered(NamedTuple):
    broker_id: int
    response: LeaderAndIsrResponse


class UpdateMetadataAnswered(NamedTuple):
    broker_id: int
    request: UpdateMetadata
    error_code: ErrorCode


class StopReplicaAnswered(NamedTuple):
    broker_id: int
    request: StopReplica
    response: StopReplicaResponse


Event: TypeAlias = (
    BrokersChanged
    | TopicsFound
    | PartitionsFound
    | TopicsGone
    | TopicsMarked
    | Examine
    | DirectoriesFailed
    | AskAgain
    | DeleteReplicas
    | Elect
    | StatesWritten
    | LeaderAndIsrAnswered
    | UpdateMetadataAnswered
    | StopReplicaAnswered
)


class StateWrite(NamedTuple):
    """A state to write; `version` is the one to replace, `NOT_STORED` for the first."""

    where: TopicPartition
    state: PartitionState
    version: int


class WriteStates(NamedTuple):
    """Write these, each only if its version still is the expected one."""

    writes: tuple[StateWrite, ...]


class Send(NamedTuple):
    """Send a request to a broker, after those sent to it before."""

    broker_id: int
    request: Request


class Post(NamedTuple):
    """Handle an event after those that wait already."""

    event: Event


class RemoveTopic(NamedTuple):
    """Remove a topic's nodes: no broker has anything of it any more."""

    name: str


class ForgetMarks(NamedTuple):
    """Remove the deletion marks of topics that do not exist."""

    names: tuple[str, ...]


class Elected(NamedTuple):
    """What comes of an `Elect`: the leader that is going to be, or why there will be none."""

    results: Mapping[TopicPartition, int | ApiError]


class Report(NamedTuple):
    """Something that an operator should see."""

    text: str


Command: TypeAlias = WriteStates | Send | Post | RemoveTopic | ForgetMarks | Elected | Report
