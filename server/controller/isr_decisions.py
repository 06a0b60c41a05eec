"""Decides on the ISRs that leaders ask for (AlterPartition, KIP-497, KIP-841). Pure.

The checks and their order are Apache Kafka 3.9's, but for the last: Apache Kafka lets an ISR shrink
to replicas that a further reassignment is dropping, and the partition is left without a leader.
"""

from __future__ import annotations

from collections.abc import Mapping

from kavka.server.cluster.control_messages import TopicPartition
from kavka.server.controller.election import RECOVERING
from kavka.server.controller.events import RequestedIsr, StateWrite, StoredState
from kavka.server.controller.state import ClusterState, Partition
from kavka.wire.errors import ApiError, ErrorCode


def decide_isrs(
    cluster: ClusterState, requests: Mapping[TopicPartition, RequestedIsr]
) -> tuple[list[StateWrite], dict[TopicPartition, StoredState | ApiError]]:
    """What is to be written; and the results for the other partitions: see `decide_isr`."""
    writes: list[StateWrite] = []
    results: dict[TopicPartition, StoredState | ApiError] = {}
    for tp, request in requests.items():
        try:
            decided = decide_isr(cluster, tp, request)
        except ApiError as error:
            results[tp] = error.with_traceback(None)  # its frames would make a reference cycle
            continue
        if isinstance(decided, StateWrite):
            writes.append(decided)
        else:
            results[tp] = decided
    return writes, results


def decide_isr(
    cluster: ClusterState, tp: TopicPartition, request: RequestedIsr
) -> StateWrite | StoredState:
    """The state to write; or the present one, if it has that ISR already, because the leader may
    repeat a request whose response was lost. ApiError."""
    partition = _partition(cluster, tp, request)
    state = partition.state
    assert state is not None
    if request.leader_epoch > state.leader_epoch or request.partition_epoch > partition.version:
        raise ApiError(ErrorCode.NOT_CONTROLLER, "There is a newer controller.")
    if request.leader != state.leader or request.leader_epoch < state.leader_epoch:
        raise ApiError(ErrorCode.FENCED_LEADER_EPOCH)
    if request.isr == state.isr and request.leader_recovery_state == state.leader_recovery_state:
        return StoredState(state, partition.version, partition.mzxid)
    if request.partition_epoch != partition.version:
        raise ApiError(ErrorCode.INVALID_UPDATE_VERSION)
    is_recovering = request.leader_recovery_state == RECOVERING
    if is_recovering and (len(request.isr) > 1 or state.leader_recovery_state != RECOVERING):
        raise ApiError(ErrorCode.INVALID_REQUEST)
    live = cluster.live_replicas(partition)
    joining = set(request.isr).difference(state.isr)
    if (
        not request.isr
        or not all(broker_id in live for broker_id in request.isr)
        or not joining.isdisjoint(cluster.leaving)
    ):
        raise ApiError(ErrorCode.INELIGIBLE_REPLICA)
    if not cluster.topics[tp.topic].keeps_planned_replica(tp.partition, request.isr):
        # the leader repeats it, unless it has lost its leadership to another replica by then
        message = "The partition is being reassigned to none of these replicas."
        raise ApiError(ErrorCode.OPERATION_NOT_ATTEMPTED, message)
    after = state._replace(
        isr=request.isr,
        leader_recovery_state=request.leader_recovery_state,
        controller_epoch=cluster.epoch,
    )
    return StateWrite(tp, after, partition.version)


def _partition(cluster: ClusterState, tp: TopicPartition, request: RequestedIsr) -> Partition:
    topic, partition = cluster.topics.get(tp.topic), cluster.partition(tp)
    if topic is not None and topic.topic_id != request.topic_id:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)  # it was deleted and created again
    if topic is None or topic.deleting or partition is None or partition.state is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return partition
