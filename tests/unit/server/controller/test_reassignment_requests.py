"""Requests to reassign partitions, whose topic's node something else changes meanwhile."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from kavka.server.cluster.control_messages import TopicPartition
from kavka.server.controller.reassignment_requests import Reassignment, ReassignmentRequests
from kavka.server.controller.request_outcomes import not_controller
from kavka.server.controller.state import ClusterState, LiveBroker, Partition, Topic
from kavka.server.controller.topic_waiters import TopicWaiters
from kavka.wire.errors import ErrorCode
from kavka.zktree.paths import BrokerInfo, StoredPartitionState, TopicAssignment
from support.virtual import VirtualClock, VirtualTasks

T = uuid.UUID(int=1)
TP = TopicPartition("t", 0)
IDLE = TopicAssignment(T, {0: (1, 2)}, {}, {})
MOVING = TopicAssignment(T, {0: (3, 1, 2)}, {0: (3,)}, {0: (2,)})
Plan = Callable[[TopicAssignment], Awaitable[TopicAssignment]]


class Store:
    """`TreeStore` of one topic, which is found in these states, one for each attempt to write."""

    def __init__(self, topic: Topic, found: Sequence[TopicAssignment]) -> None:
        self.topic = topic
        self.found = list(found)
        self.written: list[TopicAssignment] = []

    async def change_assignment(self, name: str, plan: Plan) -> int:
        for assignment in self.found:
            self.written.append(await plan(assignment))
        self.topic.version += 1  # the controller has read it already
        return self.topic.version


async def written() -> None:
    """No write of a state is in progress."""


def handled_at_once(item: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """The queue of a controller."""
    with pytest.raises(StopIteration):
        item().send(None)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([MOVING, MOVING], None),
        ([IDLE, MOVING], None),
        ([MOVING, IDLE], ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
    ],
)
async def test_the_last_plan_counts(
    found: list[TopicAssignment], expected: ErrorCode | None
) -> None:
    """A reassignment that is cancelled ends, or begins again, while the node is written."""
    state = StoredPartitionState(1, 4, (1, 2), 1)
    moving = Partition((3, 1, 2), (3,), (2,), state=state, version=0)
    topic = Topic("t", T, {0: moving}, version=4)
    brokers = {broker_id: LiveBroker(broker_id, 5, BrokerInfo(())) for broker_id in (1, 2, 3)}
    tasks = VirtualTasks(VirtualClock())
    controller: Any = SimpleNamespace(
        cluster=ClusterState(1, 1, brokers, {"t": topic}),
        ready=TopicWaiters(tasks),
        store=Store(topic, found),
        reevaluate=lambda partitions: None,
        until_states_are_written=written,
        put=handled_at_once,
    )
    requests = ReassignmentRequests(controller, tasks=tasks)
    (result,) = await requests.reassign([Reassignment(TP, None)], timeout_ms=1000)
    assert (None if result is None else result.code) == expected
    after = controller.store.written[-1]
    assert after == (IDLE if found[-1] is IDLE else TopicAssignment(T, {0: (1, 2)}, {}, {}))


async def test_a_term_that_ends_while_the_node_is_written() -> None:
    """The write has succeeded, and nobody will read the node in this term: the answer comes
    nevertheless, without the wait for a change."""
    topic = Topic("t", T, {0: Partition((1, 2))}, version=4)
    brokers = {broker_id: LiveBroker(broker_id, 5, BrokerInfo(())) for broker_id in (1, 2, 3)}
    tasks = VirtualTasks(VirtualClock())
    ready = TopicWaiters(tasks)

    class EndingStore(Store):
        async def change_assignment(self, name: str, plan: Plan) -> int:
            await plan(IDLE)
            ready.close(not_controller())
            return topic.version + 1

    controller: Any = SimpleNamespace(
        cluster=ClusterState(1, 1, brokers, {"t": topic}),
        ready=ready,
        store=EndingStore(topic, []),
        reevaluate=lambda partitions: None,
    )
    requests = ReassignmentRequests(controller, tasks=tasks)
    reassigning = requests.reassign([Reassignment(TP, (3, 2))], timeout_ms=1000)
    (result,) = await asyncio.wait_for(reassigning, 10)
    assert result is not None and result.code == ErrorCode.NOT_CONTROLLER


async def test_an_isr_that_is_being_written_when_its_replicas_are_dropped() -> None:
    """Broker 3 leads, whose replica is not of the partition without the reassignment. An ISR of it
    alone is being written when the reassignment is cancelled: the cancellation is refused, as it
    would be a moment later. Until that is known, no other request hears that it is planned."""
    both, alone = (StoredPartitionState(3, 4, isr, 1) for isr in ((3, 1), (3,)))
    moving = Partition((3, 1, 2), (3,), (2,), state=both, version=0)
    topic = Topic("t", T, {0: moving}, version=4)
    brokers = {broker_id: LiveBroker(broker_id, 5, BrokerInfo(())) for broker_id in (1, 2, 3)}
    tasks = VirtualTasks(VirtualClock())
    planned: list[bool] = []

    async def is_written() -> None:
        planned.append(topic.keeps_planned_replica(0, (3,)))
        planned.append(topic.keeps_planned_replica(0, (3, 1)))
        moving.state = alone

    controller: Any = SimpleNamespace(
        cluster=ClusterState(1, 1, brokers, {"t": topic}),
        ready=TopicWaiters(tasks),
        store=Store(topic, [MOVING]),
        reevaluate=lambda partitions: None,
        until_states_are_written=is_written,
        put=handled_at_once,
    )
    requests = ReassignmentRequests(controller, tasks=tasks)
    (result,) = await requests.reassign([Reassignment(TP, None)], timeout_ms=1000)
    assert result is not None and result.code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert controller.store.written == [MOVING]
    assert planned == [False, True]
    assert topic.keeps_planned_replica(0, (3,)), "nothing is planned any more"
