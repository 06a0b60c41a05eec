"""How far a plan is: its partitions, and its replicas that move between log directories."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kavka.tools.admin.cluster_client import ClusterClient
from kavka.tools.admin.leaders import TopicPartition
from kavka.tools.admin.printing import joined
from kavka.tools.admin.reassignment.plans import Directories, Plan, Replica, name_of
from kavka.tools.admin.reassignment.requests import (
    LogDirs,
    Reassignment,
    find_topics,
    log_dirs,
)


class PartitionState(NamedTuple):
    """Of a partition: none are `current` if it does not exist."""

    current: Sequence[int]
    target: Sequence[int]
    is_moving: bool

    @property
    def name(self) -> str:
        """A word for it."""
        if self.is_moving:
            return "in progress"
        return "completed" if list(self.current) == list(self.target) else "not active"


class MoveState(NamedTuple):
    """Of a replica that the plan has in a certain log directory."""

    current: str | None
    target: str
    future: str | None

    @property
    def name(self) -> str:
        """A word for it."""
        if self.current is None:
            return "missing"
        if self.future is None:
            return "completed" if self.current == self.target else "not active"
        return "in progress" if self.future == self.target else "elsewhere"

    @property
    def is_done(self) -> bool:
        """Whether nothing is moved any more. That is not known of a replica that is missing: its
        log directory may be offline."""
        return self.current is not None and self.future is None


Partitions = Mapping[TopicPartition, PartitionState]
Moves = Mapping[Replica, MoveState]


async def partition_states(
    cluster: ClusterClient, plan: Plan, ongoing: Mapping[TopicPartition, Reassignment]
) -> dict[TopicPartition, PartitionState]:
    """`ongoing`: all reassignments of the cluster. Failed."""
    targets = plan.assignment
    at_rest = [topic_partition for topic_partition in targets if topic_partition not in ongoing]
    topics = await find_topics(cluster, (topic for topic, _ in at_rest)) if at_rest else {}
    replicas = {
        (topic, partition.partition_index): partition.replica_nodes
        for topic, partitions in topics.items()
        for partition in partitions
    }
    return {
        topic_partition: PartitionState(ongoing[topic_partition].replicas, target, is_moving=True)
        if topic_partition in ongoing
        else PartitionState(replicas.get(topic_partition, ()), target, is_moving=False)
        for topic_partition, target in sorted(targets.items())
    }


async def move_states(cluster: ClusterClient, targets: Directories) -> dict[Replica, MoveState]:
    """Failed if a broker of them is not live."""
    found: Mapping[Replica, LogDirs] = await log_dirs(cluster, targets)
    return {
        replica: MoveState(found[replica].current, target, found[replica].future)
        for replica, target in sorted(targets.items())
    }


def partition_lines(states: Partitions) -> Iterator[str]:
    """In Apache Kafka's words."""
    yield "Status of partition reassignment:"
    for topic_partition, state in states.items():
        if state.is_moving:
            yield f"Reassignment of partition {name_of(topic_partition)} is still in progress."
        elif state.name == "completed":
            yield f"Reassignment of partition {name_of(topic_partition)} is completed."
        else:
            yield (
                f"There is no active reassignment of partition {name_of(topic_partition)}, but "
                f"replica set is {joined(state.current)} rather than {joined(state.target)}."
            )


def move_lines(states: Moves) -> Iterator[str]:
    """In Apache Kafka's words."""
    for replica, state in states.items():
        where = f"Partition {replica.topic}-{replica.partition} on broker {replica.broker}"
        if state.name == "missing":
            yield (
                f"Partition {replica.topic}-{replica.partition} is not found in any live log dir "
                f"on broker {replica.broker}. There is likely an offline log directory on the "
                "broker."
            )
        elif state.name == "in progress":
            yield f"Reassignment of replica {replica} is still in progress."
        elif state.name == "elsewhere":
            yield f"{where} is being moved to log dir {state.future} instead of {state.target}."
        elif state.name == "not active":
            yield f"{where} is not being moved from log dir {state.current} to {state.target}."
        else:
            yield f"Reassignment of replica {replica} completed successfully."


def documents(partitions: Partitions, moves: Moves) -> dict[str, Any]:
    """For JSON."""
    return {
        "partitions": [
            {
                "topic": topic,
                "partition": partition,
                "state": state.name,
                "replicas": list(state.current),
                "target": list(state.target),
            }
            for (topic, partition), state in partitions.items()
        ],
        "moves": [
            {
                "topic": replica.topic,
                "partition": replica.partition,
                "broker": replica.broker,
                "state": state.name,
                "logDir": state.current,
                "target": state.target,
                "future": state.future,
            }
            for replica, state in moves.items()
        ],
    }


COLUMNS = ("topic", "partition", "broker", "state", "current", "target")


def rows(partitions: Partitions, moves: Moves) -> Iterator[Sequence[object]]:
    """For CSV: brokers of partitions, and below them log directories of replicas."""
    for (topic, partition), state in partitions.items():
        yield topic, partition, "", state.name, joined(state.current), joined(state.target)
    for replica, move in moves.items():
        key = replica.topic, replica.partition, replica.broker
        yield *key, move.name, move.current or "", move.target
