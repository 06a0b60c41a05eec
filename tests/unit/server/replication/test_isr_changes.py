"""Proposals of ISRs: what becomes of each answer, and of none."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from kavka.client.errors import Disconnected
from kavka.server.cluster.control_messages import TopicPartition
from kavka.server.replica.partition_state import LeaderAndIsrState, PartitionState, ProposeIsr
from kavka.server.replication.isr_changes import RETRY_S, AlteredIsr, IsrChanges, Proposal
from kavka.wire.errors import ApiError
from kavka.wire.errors import ErrorCode as Code
from support.virtual import VirtualClock, VirtualTasks, run_until_idle

TP = TopicPartition("t", 0)
TOPIC_ID = uuid.UUID(int=1)
ALL = (1, 2)


class LedReplica:
    """A replica that leads, alone in its ISR, in leader epoch 3 and partition epoch 5."""

    key = ("t", 0)
    topic_id = TOPIC_ID
    is_served = True

    def __init__(self) -> None:
        self.partition = PartitionState(1, high_watermark=0, log_end=0)
        self.partition.lead(LeaderAndIsrState(1, 1, 3, (1,), 5, ALL))

    def propose(self) -> ProposeIsr:
        proposal = self.partition.fetched(2, 0, 0)
        assert proposal is not None
        return proposal

    def isr_decided(self, leader_epoch: int, isr: tuple[int, ...], partition_epoch: int) -> None:
        self.partition.isr_decided(leader_epoch, isr, partition_epoch)

    def isr_refused(self, proposal: ProposeIsr) -> None:
        self.partition.isr_refused(proposal)


@dataclass
class PlayedController:
    """Answers as the test says, one request after the other."""

    answers: list[Exception | AlteredIsr]
    proposals: list[ProposeIsr] = field(default_factory=list)

    async def alter_partitions(
        self, proposals: Mapping[TopicPartition, Proposal]
    ) -> Mapping[TopicPartition, AlteredIsr]:
        assert {tp: proposal.topic_id for tp, proposal in proposals.items()} == {TP: TOPIC_ID}
        self.proposals.append(proposals[TP].proposed)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return {TP: answer}


DECIDED = AlteredIsr(Code.NONE, 3, ALL, 6)


def proposed(*answers: Exception | AlteredIsr) -> tuple[Any, PlayedController, VirtualTasks, Any]:
    """A replica whose follower may join, the controller, and the tasks."""
    tasks = VirtualTasks(VirtualClock())
    controller = PlayedController(list(answers))
    changes = IsrChanges(controller, tasks)
    replica: Any = LedReplica()
    changes.propose(replica, replica.propose())
    return replica, controller, tasks, changes


async def test_a_decision_is_applied() -> None:
    replica, controller, tasks, _ = proposed(DECIDED)
    await run_until_idle()
    assert (replica.partition.isr, replica.partition.partition_epoch) == (ALL, 6)
    assert replica.partition.proposed_isr is None
    await tasks.advance(10_000)
    assert len(controller.proposals) == 1


@pytest.mark.parametrize(
    "failure",
    [
        Disconnected("gone"),
        ApiError(Code.NOT_CONTROLLER),
        AlteredIsr(Code.UNKNOWN_SERVER_ERROR),
        AlteredIsr(Code.NOT_CONTROLLER),
    ],
    ids=str,
)
async def test_without_a_decision_the_same_is_asked_again(failure: Exception | AlteredIsr) -> None:
    """It may have succeeded: a controller recognises it, and no other one may take its place."""
    replica, controller, tasks, _ = proposed(failure, failure, DECIDED)
    await run_until_idle()
    assert replica.partition.maximal_isr == ALL
    await tasks.advance(RETRY_S * 1000 * 2)
    assert controller.proposals == [controller.proposals[0]] * 3
    assert replica.partition.isr == ALL


async def test_a_refused_isr_stays_as_it_was() -> None:
    replica, controller, tasks, changes = proposed(AlteredIsr(Code.INELIGIBLE_REPLICA), DECIDED)
    await run_until_idle()
    assert replica.partition.maximal_isr == (1,)
    changes.propose(replica, replica.propose())
    await tasks.advance(1000)
    assert len(controller.proposals) == 2 and replica.partition.isr == ALL


@pytest.mark.parametrize("code", [Code.FENCED_LEADER_EPOCH, Code.INVALID_UPDATE_VERSION])
async def test_what_is_overtaken_is_left_to_the_next_leader_and_isr(code: Code) -> None:
    replica, controller, tasks, _ = proposed(AlteredIsr(code))
    await tasks.advance(60_000)
    assert len(controller.proposals) == 1
    assert replica.partition.maximal_isr == ALL, "it may have been decided on"


async def test_a_new_leader_epoch_ends_a_proposal() -> None:
    replica, controller, tasks, _ = proposed(Disconnected("gone"))
    await run_until_idle()
    replica.partition.lead(LeaderAndIsrState(1, 1, 4, (1,), 7, ALL))
    await tasks.advance(60_000)
    assert len(controller.proposals) == 1


async def test_after_the_end_nothing_is_asked() -> None:
    replica, controller, tasks, changes = proposed(Disconnected("gone"))
    await run_until_idle()
    changes.close()
    changes.propose(replica, ProposeIsr(3, 5, ALL))
    await tasks.advance(60_000)
    assert len(controller.proposals) == 1
