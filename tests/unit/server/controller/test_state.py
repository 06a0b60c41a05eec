"""Queries of the controller's state."""

from __future__ import annotations

import uuid

import pytest

from kavka.server.cluster.control_messages import TopicPartition
from kavka.server.controller.state import ClusterState, LiveBroker, Partition, Topic
from kavka.zktree.paths import BrokerInfo, StoredPartitionState, TopicAssignment

TOPIC_ID = uuid.UUID(int=77)
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def partition(leader: int = 1, *, announced: bool = True) -> Partition:
    state = StoredPartitionState(leader, 0, (1,), 1)
    return Partition((1,), state=state, version=3, mzxid=9, announced=3 if announced else 2)


def cluster(*partitions: Partition) -> ClusterState:
    topic = Topic("t", TOPIC_ID, dict(enumerate(partitions)))
    cluster_state = ClusterState(1, 1, {1: LiveBroker(1, 5, BrokerInfo(()))}, {"t": topic})
    cluster_state.check_invariants()
    return cluster_state


def test_a_topic_is_ready_when_the_metadata_have_all_leaders() -> None:
    assert cluster(partition(), partition()).is_ready("t")
    assert not cluster(partition(), partition(announced=False)).is_ready("t")
    assert not cluster(partition(), partition(leader=-1)).is_ready("t")
    assert not cluster(partition(), Partition((1,))).is_ready("t"), "never led"
    assert not cluster(partition()).is_ready("u")


@pytest.mark.parametrize(("partitions", "is_ready"), [(1, True), (2, True), (3, False)])
def test_a_topic_is_ready_with_enough_partitions(partitions: int, is_ready: bool) -> None:
    assert cluster(partition(), partition()).is_ready("t", partitions) is is_ready


def test_leaders_in_the_metadata() -> None:
    cluster_state = cluster(partition(), partition(announced=False))
    assert cluster_state.is_led_by({})
    assert cluster_state.is_led_by({T0: 1})
    assert not cluster_state.is_led_by({T0: 2})
    assert not cluster_state.is_led_by({T0: 1, T1: 1}), "not yet"
    assert not cluster_state.is_led_by({TopicPartition("t", 5): 1})
    assert not cluster(Partition((1,))).is_led_by({T0: 1})


def test_changed_partitions_of_an_assignment() -> None:
    cluster_state = cluster(partition(), partition())
    same = TopicAssignment(TOPIC_ID, {0: (1,), 1: (1,)}, {}, {})
    assert cluster_state.changed_partitions("t", same).replicas == {}
    for changed in (
        TopicAssignment(TOPIC_ID, {0: (1,), 1: (1, 2)}, {}, {}),
        TopicAssignment(TOPIC_ID, {0: (1,), 1: (1,)}, {1: (2,)}, {}),
        TopicAssignment(TOPIC_ID, {0: (1,), 1: (1,)}, {}, {1: (1,)}),
    ):
        assert list(cluster_state.changed_partitions("t", changed).replicas) == [1]
    more = TopicAssignment(TOPIC_ID, {0: (1,), 1: (1,), 2: (1,)}, {}, {})
    assert cluster_state.changed_partitions("t", more).replicas == {2: (1,)}
    assert cluster_state.changed_partitions("unknown", same) == same
