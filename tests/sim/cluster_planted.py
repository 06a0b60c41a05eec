"""Bugs of clusters that are planted into brokers, to see that their simulation finds them.

Each takes away what some promise of replication rests on. Those of one broker: `sim.planted`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

import pytest

from kavka.log.partition_log import PartitionLog
from kavka.seams import Tasks
from kavka.server.broker_lifecycle import BrokerLifecycle
from kavka.server.controller import election, election_requests, leader_balance
from kavka.server.controller.controller import Controller
from kavka.server.controller.state import ClusterState, Partition
from kavka.server.controller.tree_store import TreeStore
from kavka.server.controller.unclean_elections import UncleanElections
from kavka.server.coordinators.journal_port import ReplicaPort
from kavka.server.handlers import fetch
from kavka.server.replica import fetch_reading
from kavka.server.replica.controller_requests import ControllerRequests
from kavka.server.replica.follower_progress import FollowerProgress
from kavka.server.replica.following import Following
from kavka.server.replica.partition_state import LeaderAndIsrState, PartitionState, ProposeIsr
from kavka.wire.steps import Steps
from kavka.zktree.api import Op, OpResult
from kavka.zktree.paths import StoredPartitionState
from sim.planted import Bug, markers_dropped_at_the_start


def _acknowledged_before_replication(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartitionState, "_least_follower_end", lambda partition: partition.log_end)


def _out_of_sync_replica_counts(patch: pytest.MonkeyPatch) -> None:
    def fetched(
        partition: PartitionState, follower: int, offset: int, now_ms: int
    ) -> ProposeIsr | None:
        proposal = original(partition, follower, offset, now_ms)
        if proposal is None and partition.proposed_isr is None and follower not in partition.isr:
            return partition._propose((*partition.isr, follower))
        return proposal

    original = PartitionState.fetched
    patch.setattr(PartitionState, "fetched", fetched)


def _bounced_broker_was_never_away(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ClusterState, "away", lambda cluster, partition, live: [])


def _election_missed_in_a_new_session(patch: pytest.MonkeyPatch) -> None:
    async def rejoin(controller: Controller) -> None:
        pass

    patch.setattr(Controller, "rejoin", rejoin)


def _never_registers_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BrokerLifecycle, "_session_event", lambda lifecycle, event: None)


def _serves_above_its_high_watermark(patch: pytest.MonkeyPatch) -> None:
    def plan_part(*args: Any, **more: Any) -> Any:
        return original(*args, **{**more, "to_end": True})

    original = fetch_reading.plan_part
    patch.setattr(fetch, "plan_part", plan_part)


def _too_few_in_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartitionState, "effective_min_isr", property(lambda partition: 1))


def _leader_epoch_not_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartitionLog, "_begin_epoch", lambda log, epoch, start_offset: None)


def _follower_counts_what_it_had(patch: pytest.MonkeyPatch) -> None:
    def begin_epoch(follower: FollowerProgress, now_ms: int, *, in_sync: bool) -> None:
        end = follower.log_end
        original(follower, now_ms, in_sync=in_sync)
        follower.log_end = max(end, 1 << 40 if in_sync else end)

    original = FollowerProgress.begin_epoch
    patch.setattr(FollowerProgress, "begin_epoch", begin_epoch)


def _truncates_to_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    async def prepare(following: Following, tasks: Tasks) -> None:
        if not following.is_prepared:
            await following._truncate(following._replica.high_watermark, tasks)
        following.is_prepared = True

    patch.setattr(Following, "prepare", prepare)


def _maximal_isr_lost(patch: pytest.MonkeyPatch) -> None:
    def least_follower_end(partition: PartitionState) -> int:
        ends = [
            follower.log_end
            for number, follower in partition._followers.items()
            if number in partition.isr
        ]
        return min(ends, default=partition.log_end)

    patch.setattr(PartitionState, "_least_follower_end", least_follower_end)


def _producers_not_rebuilt(patch: pytest.MonkeyPatch) -> None:
    def truncate(log: PartitionLog, offset: int) -> Steps[None]:
        for _ in original(log, offset):
            yield None
        log.producers.clear()

    original = PartitionLog.truncate_in_steps
    patch.setattr(PartitionLog, "truncate_in_steps", truncate)


def _coordinator_answers_too_early(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        ReplicaPort, "high_watermark", property(lambda port: port._replica.log.end_offset)
    )


def _earlier_decision_taken(patch: pytest.MonkeyPatch) -> None:
    def is_stale(partition: PartitionState, leader_and_isr: LeaderAndIsrState) -> bool:
        known = partition.leader_epoch, partition.partition_epoch
        is_same = (leader_and_isr.leader_epoch, leader_and_isr.partition_epoch) == known
        return is_same or leader_and_isr.leader_epoch < partition.leader_epoch

    patch.setattr(PartitionState, "_is_stale", is_stale)


def _late_answer_taken(patch: pytest.MonkeyPatch) -> None:
    def isr_decided(
        partition: PartitionState, leader_epoch: int, isr: tuple[int, ...], partition_epoch: int
    ) -> bool:
        if partition.is_leader:
            partition.isr, partition.partition_epoch = isr, partition_epoch
            partition.proposed_isr = None
        return partition.is_leader and partition._advance()

    patch.setattr(PartitionState, "isr_decided", isr_decided)


def _controller_not_fenced(patch: pytest.MonkeyPatch) -> None:
    async def fenced_multi(store: TreeStore, ops: Sequence[Op]) -> list[OpResult]:
        return await store._coordination.multi(ops)

    patch.setattr(TreeStore, "_fenced_multi", fenced_multi)


def _earlier_controller_heard(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ControllerRequests, "_is_stale", lambda requests, controller_epoch: False)


def _unclean_elections(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(UncleanElections, "allowed", lambda elections, topic: True)


def _preferred_although_out_of_sync(patch: pytest.MonkeyPatch) -> None:
    def preferred_state(
        state: StoredPartitionState | None,
        *,
        replicas: Sequence[int],
        live: Collection[int],
        controller_epoch: int,
    ) -> StoredPartitionState:
        if state is not None and replicas[0] in live and replicas[0] not in state.isr:
            state = state._replace(isr=(replicas[0], *state.isr))
        return original(state, replicas=replicas, live=live, controller_epoch=controller_epoch)

    original = election.preferred_state
    patch.setattr(election_requests, "preferred_state", preferred_state)
    patch.setattr(leader_balance, "_can_lead", lambda cluster, broker_id, tp: True)


def _divergence_not_seen(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fetch_reading, "_divergence", lambda replica, requested: None)


def _deletion_does_not_wait(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Partition, "is_deleted", property(lambda partition: bool(partition.deleted)))


CLUSTER_BUGS: Final = (
    Bug("records are acknowledged before replication", 2, _acknowledged_before_replication),
    Bug("a replica out of sync counts as in sync", 2, _out_of_sync_replica_counts),
    Bug("no election is seen in a new session", 2, _election_missed_in_a_new_session),
    Bug("a broker never registers again", 2, _never_registers_again),
    Bug("a broker that bounced was never away", 2, _bounced_broker_was_never_away, 35),
    Bug("records above the high watermark are served", 2, _serves_above_its_high_watermark, 35),
    Bug("min.insync.replicas is ignored", 2, _too_few_in_sync, 35),
    Bug("leader epochs are not kept", 2, _leader_epoch_not_kept, 35),
    Bug("a new coordinator drops markers", 1, markers_dropped_at_the_start, 33),
    Bug("a new leader trusts what it does not know", 2, _follower_counts_what_it_had, 159),
    Bug("a follower truncates to its high watermark", 1, _truncates_to_the_high_watermark, 7),
    Bug("the maximal ISR is lost", 5, _maximal_isr_lost, 35),
    Bug("producers are not known after a truncation", 1, _producers_not_rebuilt, 39),
    Bug("a coordinator answers before replication", 1, _coordinator_answers_too_early, 52),
    Bug("an earlier LeaderAndIsr is taken", 1, _earlier_decision_taken, 38),
    Bug("a late answer of AlterPartition is taken", 1, _late_answer_taken, 11),
    Bug("a controller that was replaced still writes", 1, _controller_not_fenced, 2294),
    Bug("a controller that was replaced is heard", 1, _earlier_controller_heard, 21),
    Bug("leaders are elected out of those out of sync", 1, _unclean_elections, 7),
    Bug("a preferred replica leads out of sync", 1, _preferred_although_out_of_sync, 7),
    Bug("a leader does not see where logs diverge", 1, _divergence_not_seen, 13),
    Bug("a deletion does not wait for all replicas", 1, _deletion_does_not_wait, 16),
)
"""The last number is the seed that finds it, or the first that may. A change of the broker gives
seeds another course; `python -m sim --cluster --planted` names one that finds it then."""
