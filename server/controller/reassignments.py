"""Partition reassignment (KIP-455): checks of requests, and the ongoing ones. Pure.

A lone broker has nowhere to move a partition to, so the only request that succeeds is one that
changes nothing. The order of the checks is Apache Kafka 4.3's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kavka.server.cluster.control_messages import TopicPartition
from kavka.server.controller.state import ClusterState, Partition
from kavka.server.controller.topic_validation import check_replicas
from kavka.wire.errors import ApiError, ErrorCode


class OngoingReassignment(NamedTuple):
    """A partition that is being reassigned."""

    tp: TopicPartition
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


def reassign(cluster: ClusterState, tp: TopicPartition, target: Sequence[int] | None) -> None:
    """Reassign a partition to the replicas `target`; None cancels a reassignment.

    Returns if there is nothing to do; ApiError otherwise.
    """
    partition = _partition(cluster, tp)
    moving = bool(partition.adding or partition.removing)
    if target is None:
        if not moving:
            raise ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    else:
        check_replicas(target, cluster.brokers, None)
        if not moving and tuple(target) == partition.replicas:
            return
    message = "Moving partitions between brokers is not supported."
    raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def _partition(cluster: ClusterState, tp: TopicPartition) -> Partition:
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
    cluster: ClusterState, asked: Iterable[TopicPartition] | None
) -> Iterator[OngoingReassignment]:
    """The ongoing reassignments of the partitions `asked` for; None for all."""
    for tp in cluster.all_partitions() if asked is None else asked:
        partition = cluster.partition(tp)
        if partition is not None and (partition.adding or partition.removing):
            yield OngoingReassignment(tp, partition.replicas, partition.adding, partition.removing)
