"""Asks the controller for other ISRs, for the partitions that this broker leads (KIP-497).

One request is in flight at a time, with all proposals of that moment. A partition has at most one
proposal, which stays in force, in its maximal ISR, until the controller has decided on it: so a
request that has failed is sent again, whoever is the controller by then.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias
from uuid import UUID

from kavka.seams import Tasks
from kavka.server.cluster.control_messages import TopicPartition
from kavka.server.replica.partition_state import ProposeIsr
from kavka.server.replica.replica import Replica
from kavka.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    import asyncio

logger = logging.getLogger(__name__)

RETRY_S: Final = 0.05
"""When a request is sent again that has failed as a whole."""

PROPOSALS_PER_REQUEST_MAX: Final = 1000

INELIGIBLE: Final = (ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED)
"""A replica in the proposed ISR is not alive: the ISR stays as it was."""

OVERTAKEN: Final = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.INVALID_REQUEST,
)
"""The controller knows something newer, which this broker will hear by LeaderAndIsr. Until then the
maximal ISR stays as it is."""


class AlteredIsr(NamedTuple):
    """The controller's answer for one partition."""

    error_code: ErrorCode
    leader_epoch: int = -1
    isr: tuple[int, ...] = ()
    partition_epoch: int = -1


_Pending: TypeAlias = tuple[Replica, ProposeIsr]


class Proposal(NamedTuple):
    """What the controller is asked for."""

    topic_id: UUID
    wanted: ProposeIsr


class ControllerPort(Protocol):
    """The controller, wherever it is."""

    async def alter_partitions(
        self, proposals: Mapping[TopicPartition, Proposal]
    ) -> Mapping[TopicPartition, AlteredIsr]:
        """Ask for ISRs. ApiError or ConnectionError: nothing is known of any of them."""
        ...


class IsrChanges:
    """The proposals of this broker that the controller has not decided on."""

    def __init__(self, controller: ControllerPort, tasks: Tasks) -> None:
        self._controller = controller
        self._tasks = tasks
        self._pending: dict[TopicPartition, _Pending] = {}
        self._sender: asyncio.Task[None] | None = None
        self._is_closed = False

    def propose(self, replica: Replica, proposal: ProposeIsr) -> None:
        """Ask for another ISR; the replica learns of the decision."""
        if self._is_closed:
            return
        self._pending[TopicPartition(*replica.key)] = replica, proposal
        if self._sender is None:
            self._sender = self._tasks.spawn(self._send_all(), name="proposals of ISRs")

    def close(self) -> None:
        """Ask for nothing any more."""
        self._is_closed = True
        self._pending.clear()

    async def _send_all(self) -> None:
        try:
            while sent := self._next_request():
                if not await self._send(sent):
                    await self._tasks.sleep(RETRY_S)
        finally:
            self._sender = None

    async def _send(self, sent: Mapping[TopicPartition, _Pending]) -> bool:
        """Ask for ISRs; whether all of these have been decided on."""
        try:
            answers = await self._controller.alter_partitions(
                {tp: Proposal(replica.topic_id, wanted) for tp, (replica, wanted) in sent.items()}
            )
        except (ApiError, ConnectionError) as failure:
            logger.debug("the controller has not decided on ISRs: %s", failure)
            return False
        for tp, answer in answers.items():
            if tp in sent and self._decide(tp, *sent[tp], answer):
                if self._pending.get(tp) == sent[tp]:  # else there is a newer one
                    del self._pending[tp]
        return all(self._pending.get(tp) != one for tp, one in sent.items())

    def _next_request(self) -> dict[TopicPartition, _Pending]:
        """What to ask for; proposals that a LeaderAndIsr has ended are forgotten."""
        sent: dict[TopicPartition, _Pending] = {}
        for tp, (replica, wanted) in list(self._pending.items()):
            partition = replica.partition
            if (
                not replica.is_served
                or partition.leader_epoch != wanted.leader_epoch
                or partition.proposed_isr != wanted.isr
            ):
                del self._pending[tp]
            elif len(sent) < PROPOSALS_PER_REQUEST_MAX:
                sent[tp] = replica, wanted
        return sent

    def _decide(
        self, tp: TopicPartition, replica: Replica, wanted: ProposeIsr, answer: AlteredIsr
    ) -> bool:
        """Apply an answer; whether it is a decision."""
        code = answer.error_code
        if code is ErrorCode.NONE:
            logger.info("%s: the ISR is %s in epoch %d", tp, answer.isr, answer.partition_epoch)
            replica.isr_decided(answer.leader_epoch, answer.isr, answer.partition_epoch)
        elif code in INELIGIBLE:
            # at each fetch of a follower that is going to stop
            logger.debug("%s: the ISR %s was refused: %s", tp, wanted.isr, code.name)
            replica.isr_refused(wanted)
        else:
            return code in OVERTAKEN
        return True
