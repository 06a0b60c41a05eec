"""Asks the controller to change the ISRs of partitions that this broker leads (AlterPartition,
KIP-497).

One request is in flight at a time, with all proposals that are pending when it is sent. A partition
has at most one proposal. Until the controller has decided on it, the replicas in it count as in
sync (the maximal ISR). So a request that has failed is sent again, to the controller of that time.
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
"""Delay before a request that has failed as a whole is sent again."""

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
"""The controller knows something newer, which LeaderAndIsr will bring to this broker. Until then
the maximal ISR stays as it is."""


class AlteredIsr(NamedTuple):
    """The controller's response for one partition."""

    error_code: ErrorCode
    leader_epoch: int = -1
    isr: tuple[int, ...] = ()
    partition_epoch: int = -1


_Pending: TypeAlias = tuple[Replica, ProposeIsr]


class Proposal(NamedTuple):
    """The ISR that the controller is asked for, in one partition of the topic `topic_id`."""

    topic_id: UUID
    proposed: ProposeIsr


class ControllerPort(Protocol):
    """The controller, wherever it is."""

    async def alter_partitions(
        self, proposals: Mapping[TopicPartition, Proposal]
    ) -> Mapping[TopicPartition, AlteredIsr]:
        """Ask for ISRs. ApiError or ConnectionError: it is not known what became of any of them."""
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
        """Ask for another ISR. The decision is passed to the replica (`isr_decided`,
        `isr_refused`)."""
        if self._is_closed:
            return
        self._pending[TopicPartition(*replica.key)] = replica, proposal
        if self._sender is None:
            self._sender = self._tasks.spawn(self._send_all(), name="proposals of ISRs")

    def close(self) -> None:
        """Drop all proposals; later ones are ignored."""
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
            responses = await self._controller.alter_partitions(
                {
                    tp: Proposal(replica.topic_id, proposal)
                    for tp, (replica, proposal) in sent.items()
                }
            )
        except (ApiError, ConnectionError) as failure:
            logger.debug("the controller has not decided on ISRs: %s", failure)
            return False
        for tp, response in responses.items():
            if tp in sent and self._decide(tp, *sent[tp], response):
                if self._pending.get(tp) == sent[tp]:  # else there is a newer one
                    del self._pending[tp]
        return all(self._pending.get(tp) != pending for tp, pending in sent.items())

    def _next_request(self) -> dict[TopicPartition, _Pending]:
        """The proposals to send. Those that a LeaderAndIsr has made obsolete are dropped."""
        sent: dict[TopicPartition, _Pending] = {}
        for tp, (replica, proposal) in list(self._pending.items()):
            partition = replica.partition
            if (
                not replica.is_served
                or partition.leader_epoch != proposal.leader_epoch
                or partition.proposed_isr != proposal.isr
            ):
                del self._pending[tp]
            elif len(sent) < PROPOSALS_PER_REQUEST_MAX:
                sent[tp] = replica, proposal
        return sent

    def _decide(
        self, tp: TopicPartition, replica: Replica, proposal: ProposeIsr, response: AlteredIsr
    ) -> bool:
        """Apply the controller's response. Whether the proposal is done with; if not, it is sent
        again."""
        code = response.error_code
        if code is ErrorCode.NONE:
            isr, partition_epoch = response.isr, response.partition_epoch
            logger.info("%s: the ISR is %s in partition epoch %d", tp, isr, partition_epoch)
            replica.isr_decided(response.leader_epoch, isr, partition_epoch)
        elif code in INELIGIBLE:
            # at each fetch of a follower that is going to stop
            logger.debug("%s: the ISR %s was refused: %s", tp, proposal.isr, code.name)
            replica.isr_refused(proposal)
        else:
            return code in OVERTAKEN
        return True
