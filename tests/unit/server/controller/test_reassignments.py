"""What a request to reassign a partition asks for, and what is refused.

Texts are Apache Kafka 4.3.1's; the assignments are those of KIP-455's examples.
"""

from __future__ import annotations

import uuid

import pytest

from kavka.server.cluster.control_messages import TopicPartition
from kavka.server.controller.reassignments import (
    OngoingReassignment,
    ongoing_reassignments,
    reassign,
)
from kavka.server.controller.state import (
    Assignment,
    ClusterState,
    LiveBroker,
    Partition,
    Topic,
    with_assignments,
)
from kavka.wire.errors import ApiError, ErrorCode
from kavka.zktree.paths import BrokerInfo, StoredPartitionState, TopicAssignment

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
MOVING = Assignment((3, 1, 2), (3,), (2,))


def cluster() -> ClusterState:
    """Three brokers, of five; t-1 is moved from 1,2 to 3,1."""
    states = [StoredPartitionState(1, 4, isr, 1) for isr in ((1, 2), (1, 3))]
    partitions = {
        0: Partition((1, 2), state=states[0], version=0),
        1: Partition(*MOVING, state=states[1], version=0),
    }
    gone = Topic("gone", uuid.UUID(int=2), {0: Partition((1,))}, deleting=True)
    brokers = {broker_id: LiveBroker(broker_id, 5, BrokerInfo(())) for broker_id in (1, 2, 3)}
    topics = {"t": Topic("t", uuid.UUID(int=1), partitions), "gone": gone}
    return ClusterState(1, 1, brokers, topics)


def after(tp: TopicPartition, target: list[int] | None, **options: bool) -> Assignment:
    known = cluster()
    partition = known.partition(tp) or Partition((1,))
    return reassign(known, tp, partition.assignment, target, **options)


def error(
    tp: TopicPartition, target: list[int] | None, **options: bool
) -> tuple[ErrorCode, str | None]:
    with pytest.raises(ApiError) as caught:
        after(tp, target, **options)
    return caught.value.code, caught.value.message


@pytest.mark.parametrize(
    ("tp", "target", "expected"),
    [
        (T0, [1, 2], Assignment((1, 2))),
        (T0, [2, 1], Assignment((2, 1))),
        (T0, [3, 2], Assignment((3, 2, 1), (3,), (1,))),
        (T0, [2], Assignment((2, 1), (), (1,))),
        (T0, [1, 2, 3], Assignment((1, 2, 3), (3,))),
        (T1, None, Assignment((1, 2))),
        (T1, [3, 1], MOVING),
        (T1, [2, 3], Assignment((2, 3, 1), (3,), (1,))),
        (T1, [2, 1], Assignment((2, 1))),
    ],
)
def test_replicas_that_are_added_and_removed(
    tp: TopicPartition, target: list[int] | None, expected: Assignment
) -> None:
    assert after(tp, target) == expected


def test_unknown_partitions() -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    no_topic = "Unable to find a topic named no."
    assert error(TopicPartition("no", 0), [9]) == (unknown, no_topic)
    assert error(TopicPartition("t", 7), None) == (unknown, "Unable to find partition t:7.")
    assert error(TopicPartition("gone", 0), [1])[0] is unknown


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ([4], "broker 4, but no such broker is registered."),
        ([1, 4], "broker 4, but no such broker is registered."),
        ([-1], "broker -1, but no such broker is registered."),
        ([], "an empty replica list."),
        ([1, 1], "the broker 1 more than once."),
    ],
)
def test_invalid_replicas(target: list[int], message: str) -> None:
    expected = f"The manual partition assignment includes {message}"
    assert error(T0, target) == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, expected)


def test_a_replica_of_a_dead_broker_may_stay() -> None:
    known = cluster()
    del known.brokers[2]
    expected = Assignment((3, 2, 1), (3,), (1,))
    assert reassign(known, T0, Assignment((1, 2)), [3, 2]) == expected


def test_a_cancellation_without_a_reassignment() -> None:
    assert error(T0, None) == (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None)


def test_the_number_of_replicas_may_be_protected() -> None:
    """As in KIP-860."""
    expected = "The replication factor is changed from 2 to 1"
    refused = error(T0, [1], may_change_factor=False)
    assert refused == (ErrorCode.INVALID_REPLICATION_FACTOR, expected)
    assert error(T1, [1, 2, 3], may_change_factor=False)[0] == refused[0]
    assert after(T1, [2, 3], may_change_factor=False) == Assignment((2, 3, 1), (3,), (1,))


def test_a_request_that_would_leave_no_replica_in_sync_is_refused() -> None:
    """Their records would be lost. Of another target than before, Apache Kafka allows that."""
    known = cluster()
    moved = known.topics["t"].partitions[1]
    assert moved.state is not None
    moved.state = moved.state._replace(leader=3, isr=(3,))
    for target, message in (
        (None, "Unable to revert partition assignment for t:1 because it would require an unclean"),
        ([1, 2], "Unable to reassign t:1, as none of its in-sync replicas [3] would be left"),
    ):
        with pytest.raises(ApiError) as refused:
            reassign(known, T1, MOVING, target)
        assert refused.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert (refused.value.message or "").startswith(message)


def test_ongoing_reassignments() -> None:
    moved = OngoingReassignment(T1, MOVING)
    assert list(ongoing_reassignments(cluster(), None)) == [moved]
    assert list(ongoing_reassignments(cluster(), [T0, T1, TopicPartition("no", 1)])) == [moved]
    assert list(ongoing_reassignments(cluster(), [T0])) == []


def test_the_node_of_the_topic_lists_only_what_changes() -> None:
    topic = TopicAssignment(uuid.UUID(int=1), {0: (1, 2), 1: (3, 1, 2)}, {1: (3,)}, {1: (2,)})
    changed = {0: Assignment((2, 1), (), (1,)), 1: Assignment((3, 1))}
    expected = TopicAssignment(topic.topic_id, {0: (2, 1), 1: (3, 1)}, {}, {0: (1,)})
    assert with_assignments(topic, changed) == expected


def test_a_broker_may_be_down_if_a_node_in_the_tree_asks_for_it() -> None:
    """As in Apache Kafka 3.9, which checks requests only (`KafkaController.validateReplicas`)."""
    assert error(T0, [7, 1])[0] is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert after(T0, [7, 1], may_be_down=True) == Assignment((7, 1, 2), (7,), (2,))
    for wrong in ([], [7, 7], [-1, 1]):
        assert error(T0, wrong, may_be_down=True)[0] is ErrorCode.INVALID_REPLICA_ASSIGNMENT
