"""Who leads a partition. Pure functions of what is known about its replicas.

The rules are Apache Kafka 3.9's for clean elections, with one simplification. Kafka's controller
sees a broker go and come and handles both; Kavka's compares two numbers. A broker that registered
after the partition's state was written has been away since: it holds what was acknowledged, but
others may have gone on without it, so it leaves the ISR unless the whole ISR was away.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kavka.server.controller.messages import NO_LEADER
from kavka.server.coordination.paths import PartitionState


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

    `live`: replicas that can serve, preferred first. `away_since`: those of them that registered
    after `state` was written. Every change raises the leader epoch, also that to the same leader.
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
