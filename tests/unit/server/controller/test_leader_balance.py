"""Which leaderships go back to the preferred replicas."""

from __future__ import annotations

import uuid

import pytest

from kavka.server.controller.leader_balance import to_give_back
from kavka.server.controller.state import Assignment, ClusterState, LiveBroker, Partition, Topic
from kavka.wire.steps import run_at_once
from kavka.zktree.paths import BrokerInfo, StoredPartitionState

PARTITIONS = 20
"""All of broker 1."""


def cluster(led_elsewhere: int) -> ClusterState:
    """The first partitions of t are led by broker 2; broker 1 is in sync."""
    partitions = {}
    for index in range(PARTITIONS):
        leader = 2 if index < led_elsewhere else 1
        state = StoredPartitionState(leader, 4, (1, 2), 1)
        partitions[index] = Partition((1, 2), state=state, version=0)
    brokers = {broker_id: LiveBroker(broker_id, 5, BrokerInfo(())) for broker_id in (1, 2)}
    return ClusterState(1, 1, brokers, {"t": Topic("t", uuid.UUID(int=1), partitions)})


def given_back(state: ClusterState, percentage: int = 10) -> list[int]:
    found = run_at_once(to_give_back(state, percentage))
    assert all(tp.topic == "t" for tp in found)
    return [tp.partition for tp in found]


@pytest.mark.parametrize(
    ("led_elsewhere", "percentage", "expected"),
    [(0, 10, []), (2, 10, []), (3, 10, [0, 1, 2]), (1, 0, [0]), (20, 100, []), (20, 99, 20)],
)
def test_more_than_a_share_of_them(
    led_elsewhere: int, percentage: int, expected: list[int] | int
) -> None:
    expected_indexes = list(range(expected)) if isinstance(expected, int) else expected
    assert given_back(cluster(led_elsewhere), percentage) == expected_indexes


def test_only_where_the_preferred_replica_can_lead() -> None:
    state = cluster(5)
    partitions = state.topics["t"].partitions
    first = partitions[0].state
    assert first is not None
    partitions[0].state = first._replace(isr=(2,))
    partitions[1].away = (1,)
    partitions[2].offline = (1,)
    assert given_back(state) == [3, 4]
    state.leaving[1] = 5
    assert given_back(state) == []
    del state.leaving[1], state.brokers[1]
    assert given_back(state) == []


def test_not_during_a_reassignment_nor_of_a_topic_that_is_deleted() -> None:
    state = cluster(5)
    last = state.topics["t"].partitions[PARTITIONS - 1]
    last.adding = (2,)
    assert given_back(state) == []
    last.adding, last.finishing = (), Assignment((1, 2), (2,))
    assert given_back(state) == []
    last.finishing = None
    assert given_back(state) == [0, 1, 2, 3, 4]
    state.topics["t"].deleting = True
    assert given_back(state) == []


def test_each_broker_has_its_own_share() -> None:
    state = cluster(3)
    for index in range(PARTITIONS, 2 * PARTITIONS):
        led_by = StoredPartitionState(1 if index == PARTITIONS else 2, 4, (2, 1), 1)
        state.topics["t"].partitions[index] = Partition((2, 1), state=led_by, version=0)
    assert given_back(state) == [0, 1, 2]
