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
    wanted: NewPartitions,
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
        message = f"A partition reassignment is in progress for the topic '{wanted.name}'."
        raise ApiError(ErrorCode.REASSIGNMENT_IN_PROGRESS, message)
    if wanted.count == there:
        message = f"Topic already has {there} partition(s)."
        raise ApiError(ErrorCode.INVALID_PARTITIONS, message)
    if wanted.count < there:
        message = (
            f"The topic {wanted.name} currently has {there} partition(s); {wanted.count} would "
            "not be an increase."
        )
        raise ApiError(ErrorCode.INVALID_PARTITIONS, message)
    added, first = wanted.count - there, current.replicas[0]
    if wanted.assignments is None:
        if len(first) > len(racks):
            message = too_few_brokers(len(first), len(racks))
            raise ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, message)
        existing = Existing(there, first[0])
        return assign_replicas(racks, added, len(first), random, existing)
    if len(wanted.assignments) != added:
        message = (
            f"Attempted to add {added} additional partition(s), but only "
            f"{len(wanted.assignments)} assignment(s) were specified."
        )
        raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    for replicas in wanted.assignments:
        check_replicas(replicas, racks, len(first))
    return dict(enumerate(wanted.assignments, start=there))
