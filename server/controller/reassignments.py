"""Partition reassignment (KIP-455): checks of requests, and the steps of those under way. Pure.

A reassignment begins with the topic's node, which lists old and new replicas. Once all replicas of
the target are in the ISR, the others lose their leadership and leave the ISR in one write of the
partition's state; then they are deleted, and the topic's node gets the target. Apache Kafka 3.9
does the same in one leader epoch more. Checks of requests and their order are Apache Kafka 4.3's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from kavka.server.cluster.control_messages import TopicPartition
from kavka.server.controller.state import Assignment, ClusterState, Partition, without
from kavka.server.controller.topic_validation import check_replicas
from kavka.wire.errors import ApiError, ErrorCode


class OngoingReassignment(NamedTuple):
    """A partition that is being reassigned."""

    tp: TopicPartition
    assignment: Assignment


def reassign(
    cluster: ClusterState,
    tp: TopicPartition,
    before: Assignment,
    target: Sequence[int] | None,
    *,
    may_change_factor: bool = True,
    may_be_down: bool = False,
) -> Assignment:
    """The assignment after a request to reassign a partition to the replicas `target`; None cancels
    a reassignment. `before` if nothing changes. ApiError.

    `before`: as it is in the topic's node. `may_change_factor`: whether the number of replicas may
    differ. `may_be_down`: whether new replicas may be on brokers that are not registered.
    """
    partition = find(cluster, tp)
    if target is None:
        if not before.is_moving:
            raise ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        if partition.state is not None and set(partition.state.isr).isdisjoint(before.origin):
            message = (
                f"Unable to revert partition assignment for {tp.topic}:{tp.partition} because it "
                "would require an unclean leader election."
            )
            raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
        return before.reassigned(before.origin)
    coming = [broker_id for broker_id in target if broker_id >= 0] if may_be_down else []
    check_replicas(target, {*cluster.brokers, *before.origin, *coming}, None)
    if not may_change_factor and len(target) != len(before.target):
        message = f"The replication factor is changed from {len(before.target)} to {len(target)}"
        raise ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, message)
    after = before.reassigned(target)
    if partition.state is not None and set(partition.state.isr).isdisjoint(after.replicas):
        message = (
            f"Unable to reassign {tp.topic}:{tp.partition}, as none of its in-sync replicas "
            f"{list(partition.state.isr)} would be left: cancel its present reassignment, or wait "
            "for its end"
        )
        raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    return after


def find(cluster: ClusterState, tp: TopicPartition) -> Partition:
    """The partition to reassign. ApiError."""
    topic = cluster.topics.get(tp.topic)
    if topic is None or topic.deleting:
        message = f"Unable to find a topic named {tp.topic}."
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
    partition = topic.partitions.get(tp.partition)
    if partition is None:
        message = f"Unable to find partition {tp.topic}:{tp.partition}."
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
    return partition


def ongoing_reassignments(
    cluster: ClusterState, partitions: Iterable[TopicPartition] | None
) -> Iterator[OngoingReassignment]:
    """The ongoing reassignments of these `partitions`; None for all."""
    for tp in cluster.all_partitions() if partitions is None else partitions:
        partition = cluster.partition(tp)
        if partition is not None and (partition.adding or partition.removing):
            yield OngoingReassignment(tp, partition.assignment)


# The steps


def take(partition: Partition, found: Assignment, *, is_new: bool) -> None:
    """Take over the assignment in the topic's node. `is_new`: this controller reads it for the
    first time; an earlier one may not have sent it to the brokers."""
    before = partition.assignment
    if found == partition.finishing:
        return  # the end of the reassignment is being written
    partition.finishing = None
    if found.is_moving if is_new else found != before:
        partition.announced_assignment = partition.known_assignment
    _replace(partition, found)


def is_caught_up(partition: Partition, live: Collection[int], away: Collection[int]) -> bool:
    """Whether a reassignment can end: all replicas of its target are in sync and live, and none has
    been away since."""
    assignment, state = partition.assignment, partition.state
    if not assignment.is_moving or state is None:
        return False
    return all(
        broker_id in state.isr and broker_id in live and broker_id not in away
        for broker_id in assignment.target
    )


def may_end(partition: Partition, live: Collection[int], away: Collection[int]) -> bool:
    """Whether a reassignment whose end is being written may still end: the ISR, or who is live, may
    have changed since that was decided."""
    state = partition.state
    assert state is not None
    target = partition.replicas
    leads = any(broker_id in live and broker_id not in away for broker_id in target)
    return leads and all(broker_id in state.isr for broker_id in target)


def take_back(partition: Partition) -> None:
    """Undo `finish`: the end of the reassignment was not written to the topic's node."""
    assert partition.finishing is not None
    _replace(partition, partition.finishing)
    partition.finishing = None


def finish(partition: Partition) -> None:
    """Make the target the replicas; the topic's node is written later."""
    partition.finishing = partition.assignment
    partition.announced_assignment = partition.known_assignment
    _replace(partition, Assignment(partition.assignment.target))


def end_decision(
    tp: TopicPartition, partition: Partition, new: dict[TopicPartition, tuple[int, ...]]
) -> bool:
    """Whether the state in force is what was decided on. If that tells brokers of other replicas,
    those that are added go to `new`."""
    if partition.state != partition.decided_state:
        return False
    if partition.is_reassigned:
        new[tp], partition.announced_assignment = partition.adding, None
    partition.away, partition.decided_state = (), None
    return True


def _replace(partition: Partition, after: Assignment) -> None:
    gone = without(partition.replicas, after.replicas)
    partition.dropped = without((*partition.dropped, *gone), after.replicas)
    partition.replicas, partition.adding, partition.removing = after
