"""Throttles of replication while replicas move (KIP-73), and of moves between log directories.

Of a topic, the configs name the replicas that are throttled: those that send (the partition's
present ones, any of which may be the leader), and those that are new. Of a broker, they are how
many bytes a second it sends and receives at most.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from kavka.tools.admin.cluster_client import ClusterClient
from kavka.tools.admin.java_order import hash_order, number_order
from kavka.tools.admin.leaders import TopicPartition
from kavka.tools.admin.printing import joined, plural
from kavka.tools.admin.reassignment.plans import Assignment, Plan
from kavka.tools.admin.reassignment.requests import (
    Changes,
    Reassignment,
    change_brokers,
    change_topics,
)

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
MOVE_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
LEADERS: Final = "leader.replication.throttled.replicas"
FOLLOWERS: Final = "follower.replication.throttled.replicas"


class Move(NamedTuple):
    """Which brokers send a partition, and which get it."""

    sources: Sequence[int]
    targets: Sequence[int]


def moves(
    ongoing: Mapping[TopicPartition, Reassignment], targets: Assignment, current: Assignment
) -> dict[TopicPartition, Move]:
    """Of all partitions that move already, and of those that are about to."""
    found = {}
    for topic_partition, reassignment in ongoing.items():
        sources = [broker for broker in reassignment.replicas if broker not in reassignment.adding]
        found[topic_partition] = Move(sources, reassignment.adding)
    for topic_partition, replicas in targets.items():
        sources = list(
            found[topic_partition].sources if topic_partition in found else current[topic_partition]
        )
        found[topic_partition] = Move(
            sources, [broker for broker in replicas if broker not in sources]
        )
    return found


def topic_changes(moving: Mapping[TopicPartition, Move]) -> dict[str, Changes]:
    """The configs of topics that name the throttled replicas."""
    leaders = defaultdict[str, set[str]](set)
    followers = defaultdict[str, set[str]](set)
    for (topic, partition), move in moving.items():
        leaders[topic].update(f"{partition}:{broker}" for broker in move.sources)
        followers[topic].update(f"{partition}:{broker}" for broker in move.targets)
    return {
        topic: {
            LEADERS: ",".join(sorted(leaders[topic])),
            FOLLOWERS: ",".join(sorted(followers[topic])),
        }
        for topic in leaders
    }


async def limit_replication(
    cluster: ClusterClient, moving: Mapping[TopicPartition, Move], bytes_per_s: int
) -> None:
    """Throttle what moves between brokers. Failed."""
    await change_topics(cluster, topic_changes(moving))
    brokers = sorted({broker for move in moving.values() for side in move for broker in side})
    rate = str(bytes_per_s)
    await change_brokers(cluster, brokers, {LEADER_RATE: rate, FOLLOWER_RATE: rate})
    print(f"The inter-broker throttle limit was set to {bytes_per_s} B/s")


async def limit_moves(cluster: ClusterClient, brokers: Iterable[int], bytes_per_s: int) -> None:
    """Throttle what moves between log directories of brokers. Failed."""
    await change_brokers(cluster, sorted(set(brokers)), {MOVE_RATE: str(bytes_per_s)})
    print(f"The replica-alter-dir throttle limit was set to {bytes_per_s} B/s")


async def clear(cluster: ClusterClient, plan: Plan, *, silent: bool = False) -> None:
    """Remove all these throttles from the live brokers, from those of a plan, and from its topics.
    Failed if one of them is not live, or does not exist."""
    live = sorted(broker.node_id for broker in cluster.brokers)
    brokers = number_order(
        [*live, *(broker_id for _, replicas in plan.partitions for broker_id in replicas)]
    )
    if not silent:
        print(f"Clearing broker-level throttles on broker{plural(brokers)} {joined(brokers)}")
    await change_brokers(cluster, brokers, dict.fromkeys((LEADER_RATE, FOLLOWER_RATE, MOVE_RATE)))
    topics = hash_order(topic for (topic, _), _ in plan.partitions)
    if not silent:
        print(f"Clearing topic-level throttles on topic{plural(topics)} {','.join(topics)}")
    cleared: Changes = dict.fromkeys((LEADERS, FOLLOWERS))
    await change_topics(cluster, {topic: cleared for topic in topics})
