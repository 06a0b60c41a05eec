"""Reassignments on a lone broker. Texts are Apache Kafka 4.3.1's."""

from __future__ import annotations

import uuid

import pytest

from kavka.server.cluster.control_messages import TopicPartition
from kavka.server.controller.reassignments import (
    OngoingReassignment,
    ongoing_reassignments,
    reassign,
)
from kavka.server.controller.state import ClusterState, LiveBroker, Partition, Topic
from kavka.wire.errors import ApiError, ErrorCode
from kavka.zktree.paths import BrokerInfo

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def cluster() -> ClusterState:
    """A lone broker, and a partition that a cluster was moving when all others left it."""
    topic = Topic("t", uuid.UUID(int=1), {0: Partition((1,)), 1: Partition((1, 2), adding=(2,))})
    gone = Topic("gone", uuid.UUID(int=2), {0: Partition((1,))}, deleting=True)
    return ClusterState(1, 1, {1: LiveBroker(1, 5, BrokerInfo(()))}, {"t": topic, "gone": gone})


def code(tp: TopicPartition, target: list[int] | None) -> tuple[ErrorCode, str | None]:
    with pytest.raises(ApiError) as refusal:
        reassign(cluster(), tp, target)
    return refusal.value.code, refusal.value.message


def test_a_reassignment_to_the_same_replicas_succeeds() -> None:
    reassign(cluster(), T0, [1])


def test_unknown_partitions() -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code(TopicPartition("no", 0), [9]) == (unknown, "Unable to find a topic named no.")
    assert code(TopicPartition("t", 7), None) == (unknown, "Unable to find partition t:7.")
    assert code(TopicPartition("gone", 0), [1])[0] is unknown


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ([2], "broker 2, but no such broker is registered."),
        ([1, 2], "broker 2, but no such broker is registered."),
        ([-1], "broker -1, but no such broker is registered."),
        ([], "an empty replica list."),
        ([1, 1], "the broker 1 more than once."),
    ],
)
def test_invalid_replicas(target: list[int], message: str) -> None:
    expected = f"The manual partition assignment includes {message}"
    assert code(T0, target) == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, expected)


def test_a_cancellation_without_a_reassignment() -> None:
    assert code(T0, None) == (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None)


def test_reassignments_that_would_move_replicas_are_refused() -> None:
    """As nothing moves them yet, they do not succeed."""
    for target in (None, [1]):
        assert code(T1, target)[0] is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_ongoing_reassignments() -> None:
    moved = OngoingReassignment(T1, (1, 2), (2,), ())
    assert list(ongoing_reassignments(cluster(), None)) == [moved]
    assert list(ongoing_reassignments(cluster(), [T0, T1, TopicPartition("no", 1)])) == [moved]
    assert list(ongoing_reassignments(cluster(), [T0])) == []
