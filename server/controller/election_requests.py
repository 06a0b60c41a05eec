"""Decides on the elections that clients ask for (ElectLeaders, KIP-183, KIP-460). Pure."""

from __future__ import annotations

from kavka.server.cluster.control_messages import TopicPartition
from kavka.server.controller.election import preferred_state, unclean_state
from kavka.server.controller.events import StateWrite
from kavka.server.controller.state import ClusterState, without
from kavka.wire.errors import ApiError, ErrorCode


def decide_election(cluster: ClusterState, tp: TopicPartition, *, unclean: bool) -> StateWrite:
    """The state to write, with another leader: the preferred replica, or, if `unclean`, any live
    replica of a partition without a leader. ApiError."""
    topic, partition = cluster.topics.get(tp.topic), cluster.partition(tp)
    if topic is None:
        message = f"No such topic as {tp.topic}"
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
    if partition is None:
        message = f"No such partition as {tp}"
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
    if topic.deleting:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is being deleted")
    live = cluster.eligible_replicas(partition)
    if unclean:
        state = unclean_state(partition.state, live=live, controller_epoch=cluster.epoch)
        if not topic.keeps_planned_replica(tp.partition, state.isr):
            message = f"{tp} is being reassigned to none of the replicas that could lead."
            raise ApiError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, message)
    else:
        state = preferred_state(
            partition.state,
            replicas=partition.replicas,
            live=without(live, partition.away),
            controller_epoch=cluster.epoch,
        )
    return StateWrite(tp, state, partition.version)
