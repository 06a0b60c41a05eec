"""Which leaderships go back to the preferred replicas. Pure.

The rule is Apache Kafka 3.9's (`KafkaController.checkAndTriggerAutoLeaderRebalance`): a broker gets
them back if it does not lead more than some share of the partitions whose first replica it is; and
nothing happens as long as any partition is being reassigned.
"""

from __future__ import annotations

from typing import NamedTuple

from kavka.server.cluster.control_messages import TopicPartition
from kavka.server.controller.state import ClusterState


class BalanceSettings(NamedTuple):
    """`leader.imbalance.*`."""

    interval_s: float
    percentage: int


def to_give_back(cluster: ClusterState, percentage: int) -> list[TopicPartition]:
    """The partitions for which the preferred replica should be elected, and can be."""
    preferred: dict[int, int] = {}
    led_elsewhere: dict[int, list[TopicPartition]] = {}
    for tp in cluster.all_partitions():
        partition = cluster.partition(tp)
        assert partition is not None
        if cluster.topics[tp.topic].deleting:
            continue
        if partition.assignment.is_moving or partition.finishing is not None:
            return []
        broker_id = partition.replicas[0]
        preferred[broker_id] = preferred.get(broker_id, 0) + 1
        if partition.state is not None and partition.state.leader != broker_id:
            led_elsewhere.setdefault(broker_id, []).append(tp)
    return [
        tp
        for broker_id, those in led_elsewhere.items()
        if len(those) * 100 > preferred[broker_id] * percentage
        for tp in those
        if _can_lead(cluster, broker_id, tp)
    ]


def _can_lead(cluster: ClusterState, broker_id: int, tp: TopicPartition) -> bool:
    partition = cluster.partition(tp)
    assert partition is not None and partition.state is not None
    is_in_sync = broker_id in partition.state.isr and broker_id not in partition.away
    return is_in_sync and broker_id in cluster.eligible_replicas(partition)
