"""What must be so inside a cluster all the time, seen from outside of all brokers at once.

None of it is anything that a single broker could know; see the table in docs/simulation.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias
from uuid import UUID

from kavka.server.broker import Broker
from kavka.server.cluster.metadata_cache import NO_CONTROLLER, MetadataImage
from kavka.server.replica.partition_state import NO_LEADER
from kavka.server.replica.replica import Replica
from kavka.zktree import paths
from kavka.zktree.api import NoNode, Znode
from kavka.zktree.paths import StoredPartitionState
from kavka.zktree.tree import Tree
from sim.machine import Machine

Partition: TypeAlias = tuple[UUID, int]

# nodes are looked at far more often than they change
_decoded_state = lru_cache(1000)(paths.decode_partition_state)
_decoded_topic = lru_cache(1000)(paths.decode_topic)


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
        self._known: dict[tuple[str, int], int] = {}
        """The earliest epoch of the controller that each broker, in one of its lives, knows."""
        self._images: dict[str, tuple[int, MetadataImage]] = {}
        """What each broker described to clients at the last look, and in which of its lives."""
        self._states: dict[tuple[str, int], Znode] = {}
        """The state of each partition in ZooKeeper at the last look."""
        self._zxid = -1
        """The last change of the tree that was looked at."""
        # the tree is read far more often than it changes
        self._state_at = lru_cache(1000)(self._read_state)
        self._topic_at = lru_cache(1000)(self._read_topic)

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
            self._check_in_sync(key, places)
        for machine in self._machines:
            self._check_controller(machine)
        for machine in self._machines:
            self._check_metadata(machine)
        if self._tree.zxid != self._zxid:
            self._zxid = self._tree.zxid
            self._check_states()

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
        own_id, epoch = partition.broker_id, partition.leader_epoch
        found = own_id, here.machine.lives
        first = self._leaders.setdefault((key, epoch), found)
        assert first == found, f"{name}: {first} and {found} (broker, its life) lead in {epoch}"
        stored = self._current(here)
        if stored is None:
            return
        committed = self._committed.get(key, 0)
        assert here.replica.log.end_offset >= committed, (
            f"{name}: leader {own_id} of epoch {epoch} ends at {here.replica.log.end_offset}, an "
            f"earlier one had the high watermark {committed}"
        )
        self._committed[key] = max(committed, partition.high_watermark)
        maximal = {*stored.isr, *partition.isr, *(partition.proposed_isr or ())}
        for other in places:
            number, end = other.replica.partition.broker_id, other.replica.log.end_offset
            assert number not in maximal or partition.high_watermark <= end, (
                f"{name}: the high watermark of leader {own_id} is {partition.high_watermark}, "
                f"broker {number} of its maximal ISR {sorted(maximal)} ends at {end}"
            )

    def _check_in_sync(self, key: Partition, places: Sequence[Here]) -> None:
        """A replica that is in sync according to ZooKeeper may lead next, so it has all that any
        leader so far had below its high watermark, even while the present one does not know that
        yet."""
        topic, index = places[0].replica.key
        state, assigned = self.stored(topic, index), self._assignment(topic)
        if state is None or assigned is None or assigned.topic_id != key[0]:
            return
        committed = self._committed.get(key, 0)
        for here in places:
            number, end = here.replica.partition.broker_id, here.replica.log.end_offset
            assert number not in state.isr or end >= committed, (
                f"{here.replica.key}: broker {number} of the ISR {state.isr} ends at {end}, a "
                f"leader had the high watermark {committed}"
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
        return self._state_at(self._tree.zxid, topic, index)

    def _read_state(self, _zxid: int, topic: str, index: int) -> StoredPartitionState | None:
        """As of the tree's last change."""
        try:
            return _decoded_state(self._tree.get(paths.partition_state(topic, index)).data)
        except NoNode:
            return None

    def _assignment(self, topic: str) -> paths.TopicAssignment | None:
        """None without a topic, also while it is being deleted: a new controller may have brokers
        create replicas again that are deleted already, before it goes on with the deletion."""
        return self._topic_at(self._tree.zxid, topic)

    def _read_topic(self, _zxid: int, topic: str) -> paths.TopicAssignment | None:
        """As of the tree's last change."""
        if self._tree.exists(paths.topic_deletion(topic)) is not None:
            return None
        try:
            return _decoded_topic(self._tree.get(paths.topic(topic)).data)
        except NoNode:
            return None

    def _check_controller(self, machine: Machine) -> None:
        broker = None if machine.instance is None else machine.instance.broker
        if broker is None or not broker.controller.is_active:
            return
        epoch, own_id = broker.controller.epoch, broker.broker_id
        found = self._controllers.setdefault(epoch, own_id)
        assert found == own_id, f"brokers {found} and {own_id} are controllers in epoch {epoch}"

    def _check_metadata(self, machine: Machine) -> None:
        """What a broker describes to clients never goes back to an earlier state of a partition:
        they would believe in a leader that was replaced."""
        broker = None if machine.instance is None else machine.instance.broker
        if broker is None:
            return
        image = broker.metadata.image
        self._check_known_controller(machine, image.controller_id)
        lives, before = self._images.get(machine.name, (0, image))
        self._images[machine.name] = machine.lives, image
        if before is image or lives != machine.lives:
            return
        for name, topic in image.topics.items():
            known = before.topics.get(name)
            if known is topic or known is None or known.topic_id != topic.topic_id:
                continue
            for partition in topic.partitions:
                earlier = known.partition(partition.partition) or partition
                found = partition.leader_epoch, partition.partition_epoch
                assert found >= (earlier.leader_epoch, earlier.partition_epoch), (
                    f"{machine.name} knew {earlier} of {name}, knows {partition}"
                )

    def _check_known_controller(self, machine: Machine, controller: int) -> None:
        """No broker hears of a controller again that was replaced by the one that it knows. (One
        whose epoch was too short to be seen here may be any.)"""
        if controller == NO_CONTROLLER:
            return
        place = machine.name, machine.lives
        known = self._known.get(place, 1)
        latest = paths.decode_controller_epoch(self._tree.get(paths.CONTROLLER_EPOCH).data)
        for epoch in range(known, latest + 1):
            if self._controllers.get(epoch, controller) == controller:
                self._known[place] = epoch
                return
        raise AssertionError(
            f"{place} hears of controller {controller}, has heard of epoch {known} of "
            f"{self._controllers}"
        )

    def _check_states(self) -> None:
        """Once a controller epoch has begun, no controller of an earlier one writes the state of a
        partition; and who is made leader was in sync, as all of the ISR have what was
        acknowledged."""
        try:
            epoch = self._tree.get(paths.CONTROLLER_EPOCH)
        except NoNode:
            return
        now = paths.decode_controller_epoch(epoch.data)
        for place, node in self._state_nodes():
            self._check_isr_assigned(place, node)
            before = self._states.get(place)
            if before is not None and before.stat.mzxid == node.stat.mzxid:
                continue
            self._states[place] = node
            state = paths.decode_partition_state(node.data)
            assert node.stat.mzxid < epoch.stat.mzxid or state.controller_epoch == now, (
                f"{place}: {state} was written in controller epoch {now}"
            )
            if before is None or before.stat.czxid != node.stat.czxid:
                continue  # of a new topic
            isr = paths.decode_partition_state(before.data).isr
            is_next = node.stat.version == before.stat.version + 1
            assert not is_next or state.leader in (NO_LEADER, *isr), (
                f"{place}: {state} follows one with the ISR {isr}"
            )

    def _check_isr_assigned(self, place: tuple[str, int], node: Znode) -> None:
        """No reassignment takes away the whole ISR."""
        assigned, isr = self._assignment(place[0]), _decoded_state(node.data).isr
        assert assigned is not None
        replicas = assigned.replicas[place[1]]
        assert not set(isr).isdisjoint(replicas), f"{place}: the ISR {isr} is not of {replicas}"

    def _state_nodes(self) -> Iterator[tuple[tuple[str, int], Znode]]:
        """Those in ZooKeeper of the states of all partitions."""
        for topic in self._tree.children(paths.TOPICS):
            assigned = self._assignment(topic)
            for index in () if assigned is None else assigned.replicas:
                try:
                    yield (topic, index), self._tree.get(paths.partition_state(topic, index))
                except NoNode:
                    continue
