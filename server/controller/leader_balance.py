"""Which leaderships go back to the preferred replicas. Pure.

The rule is Apache Kafka 3.9's (`KafkaController.checkAndTriggerAutoLeaderRebalance`): a broker gets
them back if it does not lead more than some share of the partitions whose first replica it is; and
nothing happens as long as any partition is being reassigned.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kavka.server.cluster.control_messages import TopicPartition
from kavka.server.controller.state import ClusterState
from kavka.wire.steps import Steps

PARTITIONS_PER_STEP: Final = 500
"""Partitions looked at between two yields to the event loop; each takes up to 5 us."""


class BalanceSettings(NamedTuple):
    """`leader.imbalance.*`."""

    interval_s: float
    percentage: int


def to_give_back(cluster: ClusterState, percentage: int) -> Steps[list[TopicPartition]]:
    """The partitions for which the preferred replica should be elected, and can be."""
    preferred: dict[int, int] = {}
    led_elsewhere: dict[int, list[TopicPartition]] = {}
    for number, tp in enumerate(list(cluster.all_partitions()), 1):
        if number % PARTITIONS_PER_STEP == 0:
            yield None
        partition = cluster.partition(tp)
        if partition is None or cluster.topics[tp.topic].deleting:
            continue
        if partition.adding or partition.removing or partition.finishing is not None:
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
    if partition is None or partition.state is None:
        return False  # deleted meanwhile
    is_in_sync = broker_id in partition.state.isr and broker_id not in partition.away
    return is_in_sync and broker_id in cluster.eligible_replicas(partition)
