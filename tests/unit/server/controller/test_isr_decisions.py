"""Which ISR a leader gets from the controller: Apache Kafka 3.9's checks, in its order."""

from __future__ import annotations

import uuid

import pytest

from kavka.server.cluster.control_messages import TopicPartition
from kavka.server.controller.events import RequestedIsr, StateWrite, StoredState
from kavka.server.controller.isr_decisions import decide_isr
from kavka.server.controller.state import Assignment, ClusterState, LiveBroker, Partition, Topic
from kavka.wire.errors import ApiError
from kavka.wire.errors import ErrorCode as Code
from kavka.zktree.paths import BrokerInfo, StoredPartitionState

TP = TopicPartition("t", 0)
TOPIC_ID = uuid.UUID(int=7)
NOW = StoredPartitionState(leader=1, leader_epoch=5, isr=(1, 2), controller_epoch=3)
VERSION = 9
REQUESTED = RequestedIsr(1, TOPIC_ID, leader_epoch=5, partition_epoch=VERSION, isr=(1, 2, 3))


def cluster(*, live: tuple[int, ...] = (1, 2, 3), offline: tuple[int, ...] = ()) -> ClusterState:
    brokers = {
        broker_id: LiveBroker(broker_id, 10 + broker_id, BrokerInfo((), None)) for broker_id in live
    }
    partition = Partition((1, 2, 3), state=NOW, version=VERSION, mzxid=50, offline=offline)
    topic = Topic("t", TOPIC_ID, {0: partition})
    return ClusterState(1, 4, brokers, {"t": topic})


def error_code(requested: RequestedIsr, known: ClusterState | None = None) -> Code:
    with pytest.raises(ApiError) as caught:
        decide_isr(known or cluster(), TP, requested)
    return caught.value.code


@pytest.mark.parametrize("isr", [(1, 2, 3), (1,), (3, 1)])
def test_another_isr_is_written_in_the_same_leader_epoch(isr: tuple[int, ...]) -> None:
    decided = decide_isr(cluster(), TP, REQUESTED._replace(isr=isr))
    assert decided == StateWrite(TP, NOW._replace(isr=isr, controller_epoch=4), VERSION)


@pytest.mark.parametrize("partition_epoch", [VERSION, VERSION - 1])
def test_a_repeated_request_gets_what_is_in_force(partition_epoch: int) -> None:
    """Its first response may have been lost, and the partition epoch is higher since."""
    again = REQUESTED._replace(isr=NOW.isr, partition_epoch=partition_epoch)
    assert decide_isr(cluster(), TP, again) == StoredState(NOW, VERSION, 50)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"topic_id": uuid.UUID(int=8)}, Code.UNKNOWN_TOPIC_ID),
        ({"leader_epoch": 6}, Code.NOT_CONTROLLER),
        ({"partition_epoch": VERSION + 1}, Code.NOT_CONTROLLER),
        ({"leader_epoch": 4}, Code.FENCED_LEADER_EPOCH),
        ({"leader": 2}, Code.FENCED_LEADER_EPOCH),
        ({"partition_epoch": VERSION - 1}, Code.INVALID_UPDATE_VERSION),
        ({"leader_recovery_state": 1}, Code.INVALID_REQUEST),
        ({"isr": (1, 4)}, Code.INELIGIBLE_REPLICA),
        ({"isr": ()}, Code.INELIGIBLE_REPLICA),
    ],
)
def test_refusals(changes: dict[str, object], code: Code) -> None:
    assert error_code(REQUESTED._replace(**changes)) == code  # type: ignore[arg-type]


def test_the_first_of_several_reasons_counts() -> None:
    """A leader that is behind in everything hears of its epoch."""
    requested = REQUESTED._replace(leader_epoch=4, partition_epoch=1, isr=(1, 4))
    assert error_code(requested) == Code.FENCED_LEADER_EPOCH
    assert (
        error_code(REQUESTED._replace(partition_epoch=1, isr=(1, 4))) == Code.INVALID_UPDATE_VERSION
    )


def test_a_replica_that_is_not_alive_can_t_join() -> None:
    assert error_code(REQUESTED, cluster(live=(1, 2))) == Code.INELIGIBLE_REPLICA
    assert error_code(REQUESTED, cluster(offline=(3,))) == Code.INELIGIBLE_REPLICA


@pytest.mark.parametrize(
    ("replicas", "isr", "may_be"),
    [((2, 3), (1,), False), ((2, 3), (1, 3), True), ((1, 2, 3), (1,), True)],
)
def test_an_isr_without_a_replica_that_a_request_plans(
    replicas: tuple[int, ...], isr: tuple[int, ...], may_be: bool
) -> None:
    """The leader keeps its ISR: it is of a reassignment that ends without its replica."""
    known = cluster()
    known.topics["t"].planned = [{1: Assignment((4,))}, {}, {0: Assignment(replicas)}]
    requested = REQUESTED._replace(isr=isr)
    if may_be:
        assert isinstance(decide_isr(known, TP, requested), StateWrite)
    else:
        assert error_code(requested, known) == Code.OPERATION_NOT_ATTEMPTED


def test_a_topic_that_is_gone_or_going() -> None:
    known = cluster()
    known.topics["t"].deleting = True
    assert error_code(REQUESTED, known) == Code.UNKNOWN_TOPIC_OR_PARTITION
    known = cluster()
    del known.topics["t"]
    assert error_code(REQUESTED, known) == Code.UNKNOWN_TOPIC_OR_PARTITION


def test_a_broker_that_is_going_to_stop_joins_no_isr() -> None:
    """It may stay in one, until the controller takes it out."""
    known = cluster()
    known.leaving[3] = 13
    assert error_code(REQUESTED, known) == Code.INELIGIBLE_REPLICA
    known = cluster()
    known.leaving[2] = 12
    assert isinstance(decide_isr(known, TP, REQUESTED), StateWrite)
