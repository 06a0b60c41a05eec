"""The controller's state machine in random histories: brokers fail and restart, topics are created,
extended, reassigned and deleted, elections are requested, writes race.

The world does what a runner and real brokers do, one step at a time, in any order. Invariants hold
after each step; when all is completed, the brokers' state is the tree's.
"""

from __future__ import annotations

import uuid
from collections import deque
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kavka.server.cluster.control_messages import (
    LeaderAndIsr,
    LeaderAndIsrResponse,
    StopReplicaResponse,
    TopicPartition,
    UpdateMetadata,
)
from kavka.server.cluster.metadata_cache import MetadataCache
from kavka.server.controller import events
from kavka.server.controller.events import Event, FoundPartition, StateWrite, StoredState
from kavka.server.controller.partition_machine import PartitionMachine
from kavka.server.controller.reassignments import reassign
from kavka.server.controller.state import NOT_STORED, Assignment, LiveBroker
from kavka.wire.errors import ApiError, ErrorCode
from kavka.zktree.paths import BrokerInfo, Endpoint

CONTROLLER = 1
BROKERS = st.integers(1, 4)
TOPICS = st.sampled_from(["a", "b"])
INFO = BrokerInfo((Endpoint("IN", "PLAINTEXT", "h", 1),))


@dataclass
class World:
    """The tree, the brokers, and the events, writes and requests that are pending."""

    zxid: int = 1
    registered: dict[int, int] = field(default_factory=dict)
    """Live brokers and their epochs."""
    topics: dict[str, tuple[uuid.UUID, dict[int, Assignment]]] = field(default_factory=dict)
    states: dict[TopicPartition, StoredState] = field(default_factory=dict)
    marked: dict[str, None] = field(default_factory=dict)
    queued: deque[Event] = field(default_factory=deque)
    """Events that the controller has not handled yet."""
    writing: deque[tuple[StateWrite, ...]] = field(default_factory=deque)
    finishing: deque[events.FinishReassignments] = field(default_factory=deque)
    sent: dict[int, deque[events.Request]] = field(default_factory=dict)
    joined: dict[tuple[int, TopicPartition], int] = field(default_factory=dict)
    """The partition epochs that leaders, brokers, have of the ISRs that they asked for."""
    hosted: dict[int, dict[TopicPartition, tuple[int, int, tuple[int, ...]]]] = field(
        default_factory=dict
    )
    """Of each broker: leader, leader epoch and ISR of its replicas, as sent to it."""
    metadata: dict[int, MetadataCache] = field(default_factory=dict)
    led: dict[tuple[uuid.UUID, int, int], int] = field(default_factory=dict)
    """Of a topic's partition and a broker: the leader epoch in which it last failed as leader."""
    epochs: dict[tuple[uuid.UUID, int], int] = field(default_factory=dict)
    """The newest leader epoch written for each partition."""
    unclean: dict[TopicPartition, int] = field(default_factory=dict)
    """The newest leader epoch for which an unclean election was requested."""

    def brokers_changed(self) -> events.BrokersChanged:
        return events.BrokersChanged(
            {id_: LiveBroker(id_, epoch, INFO) for id_, epoch in sorted(self.registered.items())}
        )

    def found(self, name: str) -> list[Event]:
        topic_id, partitions = self.topics[name]
        found = self.partitions_found(name, list(partitions))
        return [events.TopicsFound({name: topic_id}), found]

    def partitions_found(self, name: str, indexes: list[int]) -> events.PartitionsFound:
        _, partitions = self.topics[name]
        return events.PartitionsFound(
            tuple(
                FoundPartition(tp, partitions[index], self.states.get(tp))
                for index in indexes
                for tp in [TopicPartition(name, index)]
            )
        )


class ControllerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.machine = PartitionMachine(CONTROLLER, 1, listener="IN")
        self.start_broker(CONTROLLER)
        self.made = 0

    # Brokers, topics and requests

    @rule(broker=BROKERS)
    def start_broker(self, broker: int) -> None:
        """Also a registered one: it restarts before the controller notices that it was gone."""
        self.stop_broker(broker)
        self.world.zxid += 1
        self.world.registered[broker] = self.world.zxid
        self.world.sent[broker] = deque()
        self.world.metadata[broker] = MetadataCache("c")
        self.world.hosted.setdefault(broker, {})
        for key in [key for key in self.world.joined if key[0] == broker]:
            del self.world.joined[key]
        self.world.queued.append(self.world.brokers_changed())

    @rule(broker=BROKERS.filter(lambda broker: broker != CONTROLLER))
    def fail_broker(self, broker: int) -> None:
        self.stop_broker(broker)
        self.world.queued.append(self.world.brokers_changed())

    def stop_broker(self, broker: int) -> None:
        for tp, (leader, epoch, _) in self.world.hosted.get(broker, {}).items():
            if leader == broker and tp.topic in self.world.topics:
                key = self.world.topics[tp.topic][0], tp.partition, broker
                self.world.led[key] = epoch
        self.world.registered.pop(broker, None)
        self.world.sent.pop(broker, None)

    @rule(
        name=TOPICS,
        replicas=st.lists(
            st.lists(BROKERS, min_size=1, max_size=3, unique=True), min_size=1, max_size=3
        ),
    )
    def create_topic(self, name: str, replicas: list[list[int]]) -> None:
        if name in self.world.topics:
            return
        self.made += 1
        assignment = {
            index: Assignment(tuple(broker_ids)) for index, broker_ids in enumerate(replicas)
        }
        self.world.topics[name] = uuid.UUID(int=self.made), assignment
        self.world.queued.extend(self.world.found(name))

    @rule(
        name=TOPICS,
        replicas=st.lists(
            st.lists(BROKERS, min_size=1, max_size=3, unique=True), min_size=1, max_size=2
        ),
        again=st.booleans(),
    )
    def add_partitions(self, name: str, replicas: list[list[int]], again: bool) -> None:
        """The topic's node is written at any time, and the watch on it fires."""
        if name not in self.world.topics:
            return
        _, partitions = self.world.topics[name]
        there = list(partitions)
        added = (Assignment(tuple(brokers)) for brokers in replicas)
        partitions.update(enumerate(added, start=len(there)))
        new = [index for index in partitions if again or index not in there]
        self.world.queued.append(self.world.partitions_found(name, new))

    @rule(
        name=TOPICS,
        index=st.integers(0, 3),
        replicas=st.none() | st.lists(BROKERS, min_size=1, max_size=3, unique=True),
    )
    def reassign(self, name: str, index: int, replicas: list[int] | None) -> None:
        """The topic's node is written, if the controller allows it; the watch on it fires."""
        _, partitions = self.world.topics.get(name, (None, {}))
        tp = TopicPartition(name, index)
        if index not in partitions:
            return
        try:
            after = reassign(self.machine.cluster, tp, partitions[index], replicas)
        except ApiError:
            return
        partitions[index] = after
        self.world.queued.append(self.world.partitions_found(name, [index]))

    @rule(data=st.data())
    def join_isr(self, data: st.DataObject) -> None:
        """A follower has caught up: its leader gets it into the ISR, with AlterPartition."""
        behind = []
        for tp, (state, version, _) in self.world.states.items():
            partition = self.machine.cluster.partition(tp)
            if partition is None or partition.version != version:
                continue
            if state.leader not in self.world.registered or tp.topic in self.world.marked:
                continue
            for broker in self.machine.cluster.live_replicas(partition):
                if broker not in state.isr and broker in self.world.registered:
                    behind.append((tp, broker))
        if behind:
            self.join(*data.draw(st.sampled_from(behind)))

    def join(self, tp: TopicPartition, broker: int) -> None:
        before = self.world.states[tp]
        self.world.zxid += 1
        state = before.state._replace(isr=(*before.state.isr, broker))
        after = StoredState(state, before.version + 1, self.world.zxid)
        self.world.states[tp] = after
        self.world.hosted[state.leader][tp] = state.leader, state.leader_epoch, state.isr
        self.world.joined[state.leader, tp] = after.version
        self.world.queued.append(events.IsrsWritten({tp: after}))

    @rule()
    def finish_reassignments(self) -> None:
        """The topic's node is written, and the watch on it fires."""
        if not self.world.finishing:
            return
        name, changes = self.world.finishing.popleft()
        if name not in self.world.topics:
            return
        partitions = self.world.topics[name][1]
        ended = [index for index, (during, _) in changes.items() if partitions[index] == during]
        for index in ended:
            partitions[index] = changes[index][1]
        found, stored = self.world.partitions_found(name, ended), tuple(ended)
        self.world.queued.extend([found, events.ReassignmentsStored(name, stored)])

    @rule()
    def gather_ends(self) -> None:
        """Ends of one topic's reassignments go into one write of its node."""
        gathered: dict[str, dict[int, tuple[Assignment, Assignment]]] = {}
        for name, changes in self.world.finishing:
            gathered.setdefault(name, {}).update(changes)
        self.world.finishing = deque(
            events.FinishReassignments(name, changes) for name, changes in gathered.items()
        )

    @rule(name=TOPICS, index=st.integers(0, 3), unclean=st.booleans())
    def elect(self, name: str, index: int, unclean: bool) -> None:
        self.elect_one(TopicPartition(name, index), unclean)

    @rule()
    def lose_the_isr_and_elect(self) -> None:
        """All in-sync replicas of a partition fail, and an unclean election is requested."""
        for tp in list(self.machine.cluster.all_partitions()):
            stored = self.world.states.get(tp)
            if stored is None or tp.topic in self.world.marked:
                continue
            replicas = self.world.topics[tp.topic][1][tp.partition].replicas
            if CONTROLLER in stored.state.isr or set(replicas) <= set(stored.state.isr):
                continue
            for broker in stored.state.isr:
                self.fail_broker(broker)
            self.complete_everything()
            self.elect_one(tp, unclean=True)
            return

    def elect_one(self, tp: TopicPartition, unclean: bool) -> None:
        partition = self.machine.cluster.partition(tp)
        commands = self.machine.handle(events.Elect((tp,), unclean))
        (elected,) = (
            command for command in commands if isinstance(command, events.ElectionResults)
        )
        result = elected.results[tp]
        writes = [command for command in commands if isinstance(command, events.WriteStates)]
        if not isinstance(result, int):
            assert writes == [] and len(commands) == 1
            return
        assert partition is not None and partition.state is not None
        assert result != partition.state.leader and result in self.machine.cluster.brokers
        assert unclean or result == partition.replicas[0]
        if unclean:
            assert partition.state.leader == -1
            self.world.unclean[tp] = partition.state.leader_epoch + 1
        self.world.writing.extend(command.writes for command in writes)

    @rule(name=TOPICS)
    def mark_topic(self, name: str) -> None:
        if name in self.world.topics:
            self.world.marked[name] = None
            self.world.queued.append(events.TopicsMarked((name,)))

    @rule(name=TOPICS, data=st.data())
    def shrink_isr(self, name: str, data: st.DataObject) -> None:
        """A leader changes its ISR in the tree: the controller's next write is refused."""
        tp = TopicPartition(name, 0)
        before = self.world.states.get(tp)
        if before is None or before.state.leader not in before.state.isr:
            return
        self.world.zxid += 1
        followers = [broker for broker in before.state.isr if broker != before.state.leader]
        kept = data.draw(st.lists(st.sampled_from(followers), unique=True)) if followers else []
        state = before.state._replace(isr=(before.state.leader, *kept))
        self.world.states[tp] = StoredState(state, before.version + 1, self.world.zxid)

    # What the controller and the brokers do

    @rule()
    def handle_an_event(self) -> None:
        if not self.world.queued:
            return
        for command in self.machine.handle(self.world.queued.popleft()):
            match command:
                case events.Enqueue():
                    self.world.queued.append(command.event)
                case events.WriteStates():
                    self.world.writing.append(command.writes)
                case events.Send():
                    if command.broker_id in self.world.sent:
                        self.world.sent[command.broker_id].append(command.request)
                case events.FinishReassignments():
                    self.world.finishing.append(command)
                case events.RemoveTopic():
                    self.remove_topic(command.name)
                case events.DeleteMarks() | events.Warn() | events.ElectionResults():
                    pass

    def remove_topic(self, name: str) -> None:
        del self.world.topics[name], self.world.marked[name]
        for tp in [tp for tp in self.world.states if tp.topic == name]:
            del self.world.states[tp]
        self.world.queued.append(events.TopicsRemoved((name,)))

    @rule()
    def write(self) -> None:
        if not self.world.writing:
            return
        written: dict[TopicPartition, StoredState] = {}
        changed: dict[str, None] = {}
        for tp, state, version in self.world.writing.popleft():
            if tp.topic not in self.world.topics:
                continue
            before = self.world.states.get(tp)
            if (before.version if before else NOT_STORED) != version:
                changed[tp.topic] = None
                continue
            self.world.zxid += 1
            key = self.world.topics[tp.topic][0], tp.partition
            assert state.leader_epoch > self.world.epochs.get(key, -1), "epochs only rise"
            self.world.epochs[key] = state.leader_epoch
            if before is not None and state.leader != -1:
                asked_for = self.world.unclean.get(tp) == state.leader_epoch
                assert asked_for or state.leader in before.state.isr, "elections are clean"
                lost = state.leader not in before.state.isr
                assert state.leader_recovery_state or not lost, "the leader must recover"
            written[tp] = StoredState(state, version + 1, self.world.zxid)
        self.world.states |= written
        self.world.queued.append(events.StatesWritten(written))
        for name in changed:
            self.world.queued.extend(self.world.found(name))

    @rule(data=st.data())
    def respond(self, data: st.DataObject) -> None:
        waiting = [broker for broker, requests in self.world.sent.items() if requests]
        if waiting:
            self.respond_once(data.draw(st.sampled_from(waiting)))

    def respond_once(self, broker: int) -> None:
        world, request = self.world, self.world.sent[broker].popleft()
        hosted = world.hosted[broker]
        if isinstance(request, UpdateMetadata):
            world.metadata[broker].apply(request)
            world.queued.append(
                events.UpdateMetadataResponseReceived(broker, request, ErrorCode.NONE)
            )
        elif isinstance(request, LeaderAndIsr):
            # a broker of Apache Kafka does not follow a leader that it has not heard of before; it
            # refuses what was sent for its earlier registration
            brokers = world.metadata[broker].image.brokers
            if request.broker_epoch == world.registered.get(broker):
                assert all(leader.broker_id in brokers for leader in request.live_leaders)
            for topic in request.topic_states:
                for state in topic.partition_states:
                    tp = TopicPartition(topic.topic_name, state.partition_index)
                    if state.partition_epoch < world.joined.get((broker, tp), 0):
                        continue  # its leader has changed the ISR since: an older decision
                    hosted[tp] = state.leader, state.leader_epoch, state.isr
            response = LeaderAndIsrResponse(ErrorCode.NONE, {})
            world.queued.append(events.LeaderAndIsrResponseReceived(broker, request, response))
        else:
            errors: dict[TopicPartition, ErrorCode] = {}
            for stopped in request.topic_states:
                for partition in stopped.partition_states:
                    tp = TopicPartition(stopped.topic_name, partition.partition_index)
                    _, epoch, _ = hosted.get(tp, (0, -1, ()))
                    if partition.leader_epoch not in (-1, -2) and partition.leader_epoch < epoch:
                        errors[tp] = ErrorCode.FENCED_LEADER_EPOCH
                    else:
                        hosted.pop(tp, None)
                        world.joined.pop((broker, tp), None)
            done = StopReplicaResponse(ErrorCode.NONE, errors)
            world.queued.append(events.StopReplicaResponseReceived(broker, request, done))

    # Invariants

    @invariant()
    def the_state_is_sound(self) -> None:
        self.machine.cluster.check_invariants()

    @rule()
    def complete_everything(self) -> None:
        """Complete all that is pending, and compare the tree with the brokers' state."""
        world = self.world
        while world.queued or world.writing or world.finishing or any(world.sent.values()):
            if world.writing:
                self.write()
            self.finish_reassignments()
            for broker in [broker for broker, requests in world.sent.items() if requests]:
                self.respond_once(broker)
            self.handle_an_event()
        for name, (topic_id, partitions) in world.topics.items():
            if name in world.marked:
                waits_for = self.replicas_of(name)
                assert waits_for - set(world.registered), "only dead brokers delay a deletion"
                for metadata in (world.metadata[broker] for broker in world.registered):
                    assert name not in metadata.image.topics
                continue
            for index, assignment in partitions.items():
                self.check_partition(TopicPartition(name, index), topic_id, assignment)
        for broker in world.registered:
            assert set(world.metadata[broker].image.topics) <= set(world.topics)
            assert all(tp.topic in world.topics for tp in world.hosted[broker])

    def replicas_of(self, name: str) -> set[int]:
        """All brokers that have, or may have, a replica of the topic."""
        partitions = self.machine.cluster.topics[name].partitions.values()
        return {broker for partition in partitions for broker in partition.holders}

    def check_partition(
        self, tp: TopicPartition, topic_id: uuid.UUID, assignment: Assignment
    ) -> None:
        world, replicas = self.world, assignment.replicas
        live = [broker for broker in replicas if broker in world.registered]
        stored = world.states.get(tp)
        if stored is None:
            assert not live, "a live replica is enough for a first leader"
            return
        known = self.machine.cluster.partition(tp)
        assert known is not None
        if stored.version != known.version:
            return  # changed by the leader; the controller has not read it since
        state = stored.state
        assert known.assignment == assignment and known.finishing is None
        assert not known.is_reassigned
        ends = set(assignment.target) <= set(state.isr) & set(live)
        assert not assignment.is_moving or not ends, "it ends as soon as it can"
        for broker in set(world.registered) - set(replicas):
            assert tp not in world.hosted[broker] or state.isr == (broker,), "it is deleted"
        assert (state.leader in live) == bool(set(state.isr) & set(live))
        assert state.leader == -1 or set(state.isr) <= set(live)
        for broker in live:
            epoch_of_registration = world.registered[broker]
            assert broker != state.leader or epoch_of_registration < stored.mzxid
            before = world.led.get((topic_id, tp.partition, broker), -1)
            assert broker != state.leader or state.leader_epoch > before, (
                "its log may have lost its end"
            )
            leader, leader_epoch, isr = world.hosted[broker][tp]
            assert (leader, leader_epoch) == (state.leader, state.leader_epoch)
            assert broker != state.leader or isr == state.isr
        for broker in world.registered:
            topic = world.metadata[broker].image.topics[tp.topic]
            image = topic.partition(tp.partition)
            assert image is not None and topic.topic_id == topic_id
            assert (image.leader, image.leader_epoch) == (state.leader, state.leader_epoch)
            assert (image.isr, image.partition_epoch) == (state.isr, stored.version)
            assert set(image.offline_replicas) == set(replicas) - set(live)
        if state.leader != -1 and CONTROLLER in world.registered:
            assert known.announced == known.version

    def teardown(self) -> None:
        self.complete_everything()


TestControllerMachine = ControllerMachine.TestCase
TestControllerMachine.settings = settings(max_examples=250, stateful_step_count=40)
