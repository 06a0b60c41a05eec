"""Who leads a partition. Pure functions of what is known about its replicas.

The rules are Apache Kafka 3.9's, with one simplification for elections that come by themselves.
Kafka's controller sees a broker go and come and handles both; Kavka's decides once, on who was
away. A broker that registered after the partition's state was written has been away since, and so
has one that the controller knew in another session: it holds what was acknowledged, but others may
have gone on without it, so it leaves the ISR unless the whole ISR was away.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from kavka.server.cluster.control_messages import NO_LEADER
from kavka.wire.errors import ApiError, ErrorCode
from kavka.zktree.paths import PartitionState

RECOVERING: Final = 1
"""Leader recovery state of a leader that may lack what was acknowledged (KIP-704)."""


def first_state(live: Sequence[int], controller_epoch: int) -> PartitionState | None:
    """State of a partition that was never led; None while none of its replicas lives."""
    if not live:
        return None
    return PartitionState(live[0], 0, tuple(live), controller_epoch)


def next_state(
    state: PartitionState,
    *,
    live: Sequence[int],
    away_since: Collection[int],
    controller_epoch: int,
) -> PartitionState | None:
    """The state that should follow `state`, or None when it may stay.

    `live`: replicas that can serve, preferred first. `away_since`: those of them that restarted
    since they came into the ISR. Every change raises the leader epoch, also to the same leader.
    """
    candidates = [broker_id for broker_id in state.isr if broker_id in live]
    stayed = [broker_id for broker_id in candidates if broker_id not in away_since]
    if not candidates:
        if state.leader == NO_LEADER:
            return None
        leader, isr = NO_LEADER, state.isr
    else:
        isr = tuple(stayed or candidates)
        keeps = state.leader in isr
        leader = state.leader if keeps else next(replica for replica in live if replica in isr)
        if keeps and isr == state.isr and leader not in away_since:
            return None
    return PartitionState(
        leader, state.leader_epoch + 1, isr, controller_epoch, state.leader_recovery_state
    )


def preferred_state(
    state: PartitionState | None,
    *,
    replicas: Sequence[int],
    live: Collection[int],
    controller_epoch: int,
) -> PartitionState:
    """The state in which the first of `replicas` leads. ApiError when it does, or can't.

    `live`: replicas that can serve.
    """
    leader = replicas[0]
    if state is not None and state.leader == leader:
        raise _not_needed()
    if state is None or leader not in live or leader not in state.isr:
        message = "The preferred leader was not available."
        raise ApiError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, message)
    return state._replace(
        leader=leader, leader_epoch=state.leader_epoch + 1, controller_epoch=controller_epoch
    )


def unclean_state(
    state: PartitionState | None, *, live: Sequence[int], controller_epoch: int
) -> PartitionState:
    """The state in which a live replica leads, if it must be one that is not in sync.

    `live`: replicas that can serve, preferred first. What only others have is lost then. ApiError
    when there is a leader, or none can be.
    """
    if state is not None and state.leader != NO_LEADER:
        raise _not_needed()
    if state is None or not live:
        message = "Eligible topic partition leaders are not available."
        raise ApiError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, message)
    isr = tuple(broker_id for broker_id in state.isr if broker_id in live)
    recovery = state.leader_recovery_state if isr else RECOVERING
    leader = next((broker_id for broker_id in live if broker_id in isr), live[0])
    return PartitionState(
        leader, state.leader_epoch + 1, isr or (leader,), controller_epoch, recovery
    )


def _not_needed() -> ApiError:
    message = "Leader election not needed for topic partition."
    return ApiError(ErrorCode.ELECTION_NOT_NEEDED, message)
