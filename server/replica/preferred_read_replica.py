"""The preferred read replica of a consumer (KIP-392), as Apache Kafka's RackAwareReplicaSelector
chooses it."""

from __future__ import annotations

from collections.abc import Callable

from kavka.server.replica.partition_state import PartitionState


def find_preferred_read_replica(
    partition: PartitionState, offset: int, rack: str, rack_of: Callable[[int], str | None]
) -> int | None:
    """The follower in the consumer's rack that has got furthest, if it is in sync and its log has
    `offset` or ends there. None: the consumer stays with this broker, as there is no such follower,
    or this is the leader and in that rack itself, or this is not the leader.

    `rack_of`: the rack of a broker that the consumer can reach.
    """
    if not partition.is_leader or rack_of(partition.broker_id) == rack:
        return None
    found = [
        (follower.log_end, follower.caught_up_ms, broker_id)
        for broker_id, follower in partition.followers.items()
        if broker_id in partition.isr
        and follower.log_start <= offset <= follower.log_end
        and rack_of(broker_id) == rack
    ]
    return max(found)[2] if found else None
