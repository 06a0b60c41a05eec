"""Leader election: pure functions of the state of a partition's replicas.

The rules are Apache Kafka 3.9's, with one simplification for elections that no client requests.
Kafka's controller handles a broker's failure and its restart as two events; Kavka's decides once,
by which brokers were away. A broker was away if it registered after the partition's state was
written, or if the controller knew it in another session. It has all acknowledged records of that
time, but other replicas may have newer ones, so it leaves the ISR unless the whole ISR was away.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from kavka.server.cluster.control_messages import NO_LEADER
from kavka.wire.errors import ApiError, ErrorCode
from kavka.zktree.paths import StoredPartitionState

RECOVERING: Final = 1
"""Leader recovery state of a leader that may lack acknowledged records (KIP-704)."""


def first_state(live: Sequence[int], controller_epoch: int) -> StoredPartitionState | None:
    """The first state of a partition; None if none of its replicas is live."""
    if not live:
        return None
    return StoredPartitionState(live[0], 0, tuple(live), controller_epoch)


def next_state(
    state: StoredPartitionState,
    *,
    live: Sequence[int],
    away_since: Collection[int],
    is_reassigned: bool = False,
    may_be_unclean: bool = False,
    controller_epoch: int,
) -> StoredPartitionState | None:
    """The state that should replace `state`, or None if no change is needed.

    `live`: online replicas, preferred first. `away_since`: those of them that restarted since they
    joined the ISR. `is_reassigned`: the replicas have changed, which brokers accept in a new leader
    epoch only. `may_be_unclean`: whether a replica outside the ISR may lead if no other can
    (`unclean.leader.election.enable`). Every change increments the leader epoch, even if the leader
    stays the same.
    """
    candidates = [broker_id for broker_id in state.isr if broker_id in live]
    stayed = [broker_id for broker_id in candidates if broker_id not in away_since]
    if not candidates and live and may_be_unclean:
        leader = live[0]
        return StoredPartitionState(
            leader, state.leader_epoch + 1, (leader,), controller_epoch, RECOVERING
        )
    if not candidates:
        if state.leader == NO_LEADER and not is_reassigned:
            return None
        leader, isr = NO_LEADER, state.isr
    else:
        isr = tuple(stayed or candidates)
        keeps = state.leader in isr
        leader = state.leader if keeps else next(replica for replica in live if replica in isr)
        is_same = keeps and isr == state.isr and leader not in away_since
        if is_same and not is_reassigned:
            return None
    return StoredPartitionState(
        leader, state.leader_epoch + 1, isr, controller_epoch, state.leader_recovery_state
    )


def preferred_state(
    state: StoredPartitionState | None,
    *,
    replicas: Sequence[int],
    live: Collection[int],
    controller_epoch: int,
) -> StoredPartitionState:
    """The state with the preferred replica, the first of `replicas`, as leader. ApiError if it is
    the leader already or is not eligible.

    `live`: online replicas.
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
    state: StoredPartitionState | None, *, live: Sequence[int], controller_epoch: int
) -> StoredPartitionState:
    """The state with a live replica as leader, if need be one outside the ISR (unclean).

    `live`: online replicas, preferred first. Records that only other replicas have are lost.
    ApiError if there is a leader already, or no live replica.
    """
    if state is not None and state.leader != NO_LEADER:
        raise _not_needed()
    if state is None or not live:
        message = "Eligible topic partition leaders are not available."
        raise ApiError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, message)
    isr = tuple(broker_id for broker_id in state.isr if broker_id in live)
    recovery = state.leader_recovery_state if isr else RECOVERING
    leader = next((broker_id for broker_id in live if broker_id in isr), live[0])
    return StoredPartitionState(
        leader, state.leader_epoch + 1, isr or (leader,), controller_epoch, recovery
    )


def _not_needed() -> ApiError:
    message = "Leader election not needed for topic partition."
    return ApiError(ErrorCode.ELECTION_NOT_NEEDED, message)
