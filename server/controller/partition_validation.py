"""Validation of CreatePartitions. Pure, as `topic_validation`.

The order of the checks is Apache Kafka 4.3's; the errors that only ZooKeeper mode can have
(a topic that is being deleted or reassigned) are 3.9's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kavka.seams import Random
from kavka.server.controller.replica_assignment import Existing, assign_replicas
from kavka.server.controller.topic_validation import check_replicas, too_few_brokers
from kavka.wire.errors import ApiError, ErrorCode
from kavka.zktree.paths import TopicAssignment


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """A topic, its new partition count, and the replicas of the new ones (None: assign them)."""

    name: str
    count: int
    assignments: Sequence[tuple[int, ...]] | None = None


def plan_partitions(
    requested: NewPartitions,
    current: TopicAssignment,
    *,
    racks: Mapping[int, str | None],
    random: Random,
) -> dict[int, tuple[int, ...]]:
    """The replicas of each partition to add; ApiError for an invalid request.

    `racks`: rack by live broker.
    """
    there = len(current.replicas)
    if any(current.adding.values()) or any(current.removing.values()):
        message = f"A partition reassignment is in progress for the topic '{requested.name}'."
        raise ApiError(ErrorCode.REASSIGNMENT_IN_PROGRESS, message)
    if requested.count == there:
        message = f"Topic already has {there} partition(s)."
        raise ApiError(ErrorCode.INVALID_PARTITIONS, message)
    if requested.count < there:
        message = (
            f"The topic {requested.name} currently has {there} partition(s); {requested.count} "
            "would not be an increase."
        )
        raise ApiError(ErrorCode.INVALID_PARTITIONS, message)
    added, first = requested.count - there, current.replicas[0]
    if requested.assignments is None:
        if len(first) > len(racks):
            message = too_few_brokers(len(first), len(racks))
            raise ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, message)
        existing = Existing(there, first[0])
        return assign_replicas(racks, added, len(first), random, existing)
    if len(requested.assignments) != added:
        message = (
            f"Attempted to add {added} additional partition(s), but only "
            f"{len(requested.assignments)} assignment(s) were specified."
        )
        raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    for replicas in requested.assignments:
        check_replicas(replicas, racks, len(first))
    return dict(enumerate(requested.assignments, start=there))
