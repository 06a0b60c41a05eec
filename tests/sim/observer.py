"""What must be so inside a cluster all the time, seen from outside of all brokers at once.

None of it is anything that a single broker could know; see the table in docs/simulation.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias
from uuid import UUID

from kavka.server.broker import Broker
from kavka.server.replica.replica import Replica
from kavka.zktree import paths
from kavka.zktree.api import NoNode
from kavka.zktree.paths import StoredPartitionState
from kavka.zktree.tree import Tree
from sim.machine import Machine

Partition: TypeAlias = tuple[UUID, int]


class Here(NamedTuple):
    """A replica on a broker that is up."""

    machine: Machine
    broker: Broker
    replica: Replica


class Seen(NamedTuple):
    """A replica at one moment."""

    leader_epoch: int
    partition_epoch: int
    led_since: int | None
    """None while it follows."""
    high_watermark: int
    has_too_few: bool
    """Whether fewer than min.insync.replicas are in sync."""


class Observer:
    """Of all brokers of a cluster. AssertionError when something is not as it has to be."""

    def __init__(self, machines: Sequence[Machine], tree: Tree) -> None:
        self._machines = machines
        self._tree = tree
        self._leaders: dict[tuple[Partition, int], tuple[int, int]] = {}
        """Who led in each leader epoch, and in which of its lives."""
        self._committed: dict[Partition, int] = {}
        """The highest high watermark of a leader so far."""
        self._seen: dict[tuple[str, int, Partition], Seen] = {}
        """Each replica at the last look, by broker and its life."""
        self._controllers: dict[int, int] = {}
        """Who was the controller of each controller epoch."""

    def check(self) -> None:
        """Look at everything, between two steps."""
        by_partition: dict[Partition, list[Here]] = {}
        for here in self._replicas():
            key = (here.replica.topic_id, here.replica.key[1])
            by_partition.setdefault(key, []).append(here)
        for key, places in by_partition.items():
            for here in places:
                self._check_epochs(key, here)
                if here.replica.partition.is_leader:
                    self._check_leader(key, here, places)
        for machine in self._machines:
            self._check_controller(machine)

    def _replicas(self) -> Iterator[Here]:
        for machine in self._machines:
            machine.check_invariants()
            broker = None if machine.instance is None else machine.instance.broker
            if broker is not None:
                for replica in broker.replicas:
                    if not replica.offline:
                        yield Here(machine, broker, replica)

    def _check_epochs(self, key: Partition, here: Here) -> None:
        """A replica never goes back to an earlier decision of the controller; nor does the high
        watermark in one leadership, or rise while too few replicas are in sync."""
        partition, name = here.replica.partition, here.replica.key
        least = min(partition.min_insync_replicas, len(partition.replicas))
        now = Seen(
            partition.leader_epoch,
            partition.partition_epoch,
            partition.led_since_epoch if partition.is_leader else None,
            partition.high_watermark,
            len(partition.isr) < least,
        )
        place = (here.machine.name, here.machine.lives, key)
        before = self._seen.get(place, now)
        self._seen[place] = now
        assert now[:2] >= before[:2], f"{name}: {place[0]} was at {before}, is at {now}"
        if now.led_since is not None and now.led_since == before.led_since:
            assert now.high_watermark >= before.high_watermark, f"{name}: {before}, then {now}"
            if now.has_too_few and now[:2] == before[:2]:
                assert now.high_watermark == before.high_watermark, (
                    f"{name}: with too few in sync, {before}, then {now}"
                )

    def _check_leader(self, key: Partition, here: Here, places: Sequence[Here]) -> None:
        partition, name = here.replica.partition, here.replica.key
        me, epoch = partition.broker_id, partition.leader_epoch
        found = me, here.machine.lives
        first = self._leaders.setdefault((key, epoch), found)
        assert first == found, f"{name}: {first} and {found} (broker, its life) lead in {epoch}"
        stored = self._current(here)
        if stored is None:
            return
        committed = self._committed.get(key, 0)
        assert here.replica.log.end_offset >= committed, (
            f"{name}: leader {me} of epoch {epoch} ends at {here.replica.log.end_offset}, an "
            f"earlier one had the high watermark {committed}"
        )
        self._committed[key] = max(committed, partition.high_watermark)
        maximal = {*stored.isr, *partition.isr, *(partition.proposed_isr or ())}
        for other in places:
            number, end = other.replica.partition.broker_id, other.replica.log.end_offset
            assert number not in maximal or partition.high_watermark <= end, (
                f"{name}: the high watermark of leader {me} is {partition.high_watermark}, broker "
                f"{number} of its maximal ISR {sorted(maximal)} ends at {end}"
            )

    def _current(self, here: Here) -> StoredPartitionState | None:
        """What ZooKeeper has of a leader's partition; None if there is a later leader, or the topic
        was deleted."""
        topic, index = here.replica.key
        state, assigned = self.stored(topic, index), self._assignment(topic)
        if state is None or assigned is None or assigned.topic_id != here.replica.topic_id:
            return None
        # The ISR may have a replica for a moment that a further reassignment has dropped: as in
        # Apache Kafka the topic's node is written first.
        partition = here.replica.partition
        found = (partition.broker_id, partition.leader_epoch)
        return state if (state.leader, state.leader_epoch) == found else None

    def stored(self, topic: str, index: int) -> StoredPartitionState | None:
        """What ZooKeeper has of a partition."""
        try:
            node = self._tree.get(paths.partition_state(topic, index))
        except NoNode:
            return None
        return paths.decode_partition_state(node.data)

    def _assignment(self, topic: str) -> paths.TopicAssignment | None:
        try:
            return paths.decode_topic(self._tree.get(paths.topic(topic)).data)
        except NoNode:
            return None

    def _check_controller(self, machine: Machine) -> None:
        broker = None if machine.instance is None else machine.instance.broker
        if broker is None or not broker.controller.is_active:
            return
        epoch, me = broker.controller.epoch, broker.broker_id
        found = self._controllers.setdefault(epoch, me)
        assert found == me, f"brokers {found} and {me} are controllers in epoch {epoch}"
