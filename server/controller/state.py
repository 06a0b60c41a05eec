"""The controller's view of the cluster: brokers, topics, partitions. Data and queries only.

Only `PartitionMachine` changes it, so every change comes from an event.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from kavka.server.cluster.control_messages import NO_LEADER, TopicPartition
from kavka.zktree.paths import BrokerInfo, StoredPartitionState, TopicAssignment

NOT_STORED: Final = -1
"""Version, and zxid, of a partition state that is not in the coordination tree yet."""


@dataclass(frozen=True, slots=True)
class LiveBroker:
    """A registered broker. `epoch` is the zxid of its registration (KIP-380)."""

    broker_id: int
    epoch: int
    info: BrokerInfo


class Assignment(NamedTuple):
    """The replicas of a partition, preferred first. While it is reassigned (KIP-455) these are the
    target and then those that are removed at the end."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def is_moving(self) -> bool:
        """Whether a reassignment is under way."""
        return bool(self.adding or self.removing)

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas after the reassignment."""
        return without(self.replicas, self.removing)

    @property
    def origin(self) -> tuple[int, ...]:
        """The replicas before it, though perhaps not in the same order."""
        return without(self.replicas, self.adding)

    def reassigned(self, target: Sequence[int]) -> Assignment:
        """The assignment with which a reassignment to `target` begins."""
        replicas = tuple(dict.fromkeys((*target, *self.origin)))
        return Assignment(replicas, without(replicas, self.origin), without(replicas, target))


@dataclass(slots=True)
class Partition:
    """One partition: its assignment and its state."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    finishing: Assignment | None = None
    """What the topic's node says, while the end of a reassignment is being written; the three
    fields above have it already."""
    announced_assignment: Assignment | None = None
    """What brokers have heard of the replicas, if these have changed and no state has been written
    for it since: the next one, in a new leader epoch, tells them. Another one that was decided on
    before, and is written first, does not: its ISR is of the earlier replicas. None: they have
    heard of all."""
    dropped: tuple[int, ...] = ()
    """Brokers whose replicas a reassignment has removed, and that have yet to delete them."""
    state: StoredPartitionState | None = None
    """As last written; None for a partition that never had a leader."""
    version: int = NOT_STORED
    """Version of the node with `state`: the partition epoch."""
    mzxid: int = NOT_STORED
    """zxid of the transaction that wrote `state`."""
    away: tuple[int, ...] = ()
    """In-sync replicas whose brokers failed or restarted since the last state that this controller
    wrote. `mzxid` does not show this if another broker wrote the state after the restart."""
    decided_state: StoredPartitionState | None = None
    """The state that is being written because of `away`."""
    announced: int = NOT_STORED
    """The partition epoch in the metadata cache of the controller's own broker."""
    offline: tuple[int, ...] = ()
    """Replicas on live brokers whose log directory failed."""
    deleted: tuple[int, ...] = ()
    """Replicas that their brokers have deleted, in a topic that is being deleted."""

    @property
    def assignment(self) -> Assignment:
        """The replicas, and how they change."""
        return Assignment(self.replicas, self.adding, self.removing)

    @property
    def is_reassigned(self) -> bool:
        """Whether brokers have yet to hear of a change of the replicas."""
        return self.announced_assignment is not None

    @property
    def known_assignment(self) -> Assignment:
        """The assignment that brokers may hear of, with the state in force."""
        return self.announced_assignment or self.assignment

    @property
    def is_deleted(self) -> bool:
        """Whether all replicas are deleted."""
        return all(broker_id in self.deleted for broker_id in self.holders)

    @property
    def holders(self) -> tuple[int, ...]:
        """Brokers that have, or may have, a replica; also those that have yet to delete it."""
        return self.replicas + self.dropped


@dataclass(slots=True)
class Topic:
    """One topic and its partitions by number."""

    name: str
    topic_id: uuid.UUID
    partitions: dict[int, Partition] = field(default_factory=dict)
    version: int = NOT_STORED
    """Version of the topic's node, whose assignments the partitions have."""
    undescribed: dict[int, None] = field(default_factory=dict)
    """New partitions that brokers have yet to hear of. Clients are shown those together."""
    planned: list[Mapping[int, Assignment]] = field(default_factory=list)
    """Of each request that is changing assignments in the node: what it writes, by partition. No
    reassignment ends before the controller has seen that, and the ISRs keep a replica of it."""
    marked: bool = False
    """An earlier controller may have begun its deletion, which goes on when the marks are read:
    brokers must not create replicas again that they have deleted."""
    deleting: bool = False
    undeleted: dict[int, None] = field(default_factory=dict)
    """Of a topic being deleted: partitions that still have a replica on some broker."""
    removing: bool = False
    """All replicas are deleted; the topic's nodes are being removed."""

    def all_partitions(self) -> list[TopicPartition]:
        """Its partitions."""
        return [TopicPartition(self.name, index) for index in self.partitions]

    def keeps_planned_replica(self, index: int, isr: Collection[int]) -> bool:
        """Whether a partition with this ISR still has an in-sync replica when the assignments that
        requests are writing are in force."""
        plans = [plan[index].replicas for plan in self.planned if index in plan]
        return not any(map(set(isr).isdisjoint, plans))


@dataclass(slots=True)
class ClusterState:
    """The cluster as the controller of one epoch sees it."""

    controller_id: int
    epoch: int
    brokers: dict[int, LiveBroker] = field(default_factory=dict)
    topics: dict[str, Topic] = field(default_factory=dict)
    leaving: dict[int, int] = field(default_factory=dict)
    """Epochs of the brokers that are going to stop: they lead only what no other broker can, and
    join no ISR."""

    def partition(self, tp: TopicPartition) -> Partition | None:
        """The partition, or None if it (or its topic) does not exist."""
        topic = self.topics.get(tp.topic)
        return None if topic is None else topic.partitions.get(tp.partition)

    def all_partitions(self) -> Iterator[TopicPartition]:
        """Every partition, topic by topic."""
        for topic in self.topics.values():
            yield from topic.all_partitions()

    def live_replicas(self, partition: Partition) -> list[int]:
        """Replicas that can serve, in the order of the assignment."""
        return [
            broker_id
            for broker_id in partition.replicas
            if broker_id in self.brokers and broker_id not in partition.offline
        ]

    def eligible_replicas(self, partition: Partition) -> list[int]:
        """The live replicas, without brokers that are going to stop as long as another one of the
        ISR, or of a new partition, is live."""
        live = self.live_replicas(partition)
        staying = [broker_id for broker_id in live if broker_id not in self.leaving]
        isr = partition.replicas if partition.state is None else partition.state.isr
        return staying if any(broker_id in isr for broker_id in staying) else live

    def away(self, partition: Partition, live: Iterable[int]) -> list[int]:
        """Those of the live replicas that were away since they joined the ISR."""
        return [
            replica
            for replica in live
            if self.brokers[replica].epoch > partition.mzxid or replica in partition.away
        ]

    def led_by(self, broker_id: int) -> Iterator[TopicPartition]:
        """The partitions that a broker leads, except those with no other replica."""
        for tp in self.all_partitions():
            partition = self.partition(tp)
            assert partition is not None
            is_leader = partition.state is not None and partition.state.leader == broker_id
            if is_leader and len(partition.replicas) > 1:
                yield tp

    def is_ready(self, name: str, partitions: int = 1) -> bool:
        """Whether this broker's metadata has a leader for every partition of a topic, and the
        topic has at least `partitions` of them."""
        topic = self.topics.get(name)
        return (
            topic is not None
            and len(topic.partitions) >= partitions
            and all(
                partition.state is not None
                and partition.state.leader != NO_LEADER
                and partition.announced == partition.version
                for partition in topic.partitions.values()
            )
        )

    def is_led_by(self, leaders: Mapping[TopicPartition, int]) -> bool:
        """Whether this broker's metadata has these leaders."""
        for tp, leader in leaders.items():
            partition = self.partition(tp)
            if partition is None or partition.state is None:
                return False
            if partition.state.leader != leader or partition.announced != partition.version:
                return False
        return True

    def changed_partitions(self, name: str, assignment: TopicAssignment) -> TopicAssignment:
        """The part of a topic's assignment that differs from what the controller has."""
        topic = self.topics.get(name)
        if topic is None:
            return assignment
        return replace(
            assignment,
            replicas={
                index: replicas
                for index, replicas in assignment.replicas.items()
                if not self._knows(topic, index, assignment)
            },
        )

    @staticmethod
    def _knows(topic: Topic, index: int, assignment: TopicAssignment) -> bool:
        partition = topic.partitions.get(index)
        if partition is None:
            return False
        return assignment_of(assignment, index) in (partition.finishing, partition.assignment)

    def check_invariants(self) -> None:
        """Assert what must hold at any moment; for tests."""
        for topic in self.topics.values():
            assert topic.deleting or not (topic.removing or topic.undeleted)
            assert not (topic.removing and topic.undeleted)
            for index, partition in topic.partitions.items():
                tp = (topic.name, index, partition)
                assert partition.replicas, tp
                assert len(set(partition.replicas)) == len(partition.replicas), tp
                assert {*partition.adding, *partition.removing} <= {*partition.replicas}, tp
                assert {*partition.dropped}.isdisjoint(partition.replicas), tp
                assert partition.announced <= partition.version, tp
                if topic.deleting and not topic.removing:
                    assert partition.is_deleted == (index not in topic.undeleted), tp
                assert (partition.state is None) == (partition.version == NOT_STORED), tp
                if partition.state is not None:
                    state = partition.state
                    assert state.isr, tp
                    assert state.leader in (NO_LEADER, *state.isr), tp
                    assert state.leader_epoch >= 0, tp


def assignment_of(topic: TopicAssignment, index: int) -> Assignment:
    """A partition's assignment in a topic's."""
    adding, removing = topic.adding.get(index, ()), topic.removing.get(index, ())
    return Assignment(topic.replicas[index], adding, removing)


def with_assignments(topic: TopicAssignment, changed: Mapping[int, Assignment]) -> TopicAssignment:
    """A topic's assignment with those of some partitions replaced."""
    replicas, adding, removing = dict(topic.replicas), dict(topic.adding), dict(topic.removing)
    for index, assignment in changed.items():
        replicas[index] = assignment.replicas
        adding.pop(index, None)
        removing.pop(index, None)
        if assignment.adding:
            adding[index] = assignment.adding
        if assignment.removing:
            removing[index] = assignment.removing
    return replace(topic, replicas=replicas, adding=adding, removing=removing)


def without(brokers: Sequence[int], gone: Collection[int]) -> tuple[int, ...]:
    """`brokers` without those of `gone`, in the same order."""
    return tuple(broker_id for broker_id in brokers if broker_id not in gone)
