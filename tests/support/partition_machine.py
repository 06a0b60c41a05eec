"""The controller's state machine for scenario files: events in, commands out.

The controller is broker 1 in epoch 3. A partition is named t-0; its states read `leader 2 isr 2,1
epoch 4/6`, with leader epoch and partition epoch. Commands that the machine sends to itself
(`enqueue`) are handled at once.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Iterator
from itertools import chain, groupby

from kavka.server.cluster.control_messages import (
    NO_LEADER,
    LeaderAndIsr,
    LeaderAndIsrResponse,
    StopReplica,
    StopReplicaResponse,
    TopicPartition,
    UpdateMetadata,
)
from kavka.server.controller import events
from kavka.server.controller.events import Command as MachineCommand
from kavka.server.controller.events import Event, FoundPartition, Send, StoredState
from kavka.server.controller.partition_machine import PartitionMachine
from kavka.server.controller.state import Assignment, LiveBroker
from kavka.wire.errors import ApiError, ErrorCode
from kavka.zktree.paths import BrokerInfo, Endpoint, StoredPartitionState
from support.controller_text import ids, partition, sent
from support.scenarios import Command

EPOCH = 3


class ControllerMachine:
    """`PartitionMachine`, its last requests to brokers, and the writes that are pending."""

    def __init__(self) -> None:
        self._unclean: set[str] = set()
        self._machine = PartitionMachine(
            1, EPOCH, listener="IN", allows_unclean=self._unclean.__contains__
        )
        self._writes: deque[events.StateWrite] = deque()
        self._requests: list[Send] = []

    def _handle(self, event: Event) -> Iterator[str]:
        commands = self._machine.handle(event)
        self._machine.cluster.check_invariants()
        requests = [command for command in commands if isinstance(command, Send)]
        self._requests += requests
        for send in requests:
            _check_isr(send)
        for is_request, group in groupby(commands, lambda command: isinstance(command, Send)):
            if is_request:
                yield from sent(group)  # type: ignore[arg-type]
            else:
                yield from chain.from_iterable(map(self._other, group))

    def _other(self, command: MachineCommand) -> Iterator[str]:
        match command:
            case events.WriteStates():
                self._writes.extend(command.writes)
                for tp, state, version in command.writes:
                    yield f"write {tp} {_written(state)} over version {version}"
            case events.Enqueue():
                yield f"enqueue {_event(command.event)}"
                yield from self._handle(command.event)
            case events.FinishReassignments():
                for index, (before, after) in command.changes.items():
                    change = f"{_assignment(before)} -> {_assignment(after)}"
                    yield f"assign {command.name}-{index}: {change}"
            case events.RemoveTopic():
                yield f"remove topic {command.name}"
            case events.DeleteMarks():
                yield f"delete marks {' '.join(command.names)}"
            case events.ElectionResults():
                for tp, result in command.results.items():
                    failed = isinstance(result, ApiError)
                    yield f"{tp}: {result.code.name if failed else f'leader {result}'}"  # type: ignore[union-attr]
            case events.Warn():
                yield f"warn: {command.text}"

    def do_brokers(self, command: Command) -> Iterator[str]:
        """These are registered: 1, or 1@60 with another broker epoch than 10; moved=2: at another
        address."""
        moved = command.list("moved")
        found = {}
        for word in command.words:
            broker_id, _, epoch = word.partition("@")
            host = f"host{broker_id}" + "x" * (broker_id in moved)
            info = BrokerInfo((Endpoint("IN", "PLAINTEXT", host, 9092),))
            found[int(broker_id)] = LiveBroker(int(broker_id), int(epoch or 10), info)
        return self._handle(events.BrokersChanged(found))

    def do_cluster(self, command: Command) -> Iterator[str]:
        """These brokers and an empty topic t, before the scenario begins: no output."""
        list(self.do_brokers(command))
        return self._handle(events.TopicsFound({"t": uuid.UUID(int=77)}))

    def do_partition(self, command: Command) -> Iterator[str]:
        """A partition in the tree, before the scenario begins: no output."""
        list(self.do_found(command))
        yield from ()

    def do_topic(self, command: Command) -> Iterator[str]:
        """A topic in the tree, with another id than the one of `cluster`."""
        return self._handle(events.TopicsFound({command.words[0]: uuid.UUID(int=78)}))

    def do_expected(self, command: Command) -> Iterator[str]:
        """The numbers of a topic's partitions in the tree."""
        name, *numbers = command.words
        return self._handle(events.PartitionsExpected({name: [int(word) for word in numbers]}))

    def do_found(self, command: Command) -> Iterator[str]:
        """A partition in the tree; with `leader`, it has a state there."""
        stored = _stored(command) if "leader" in command else None
        lists = (command.list(name) for name in ("replicas", "adding", "removing"))
        assignment = Assignment(*(tuple(map(int, broker_ids)) for broker_ids in lists))
        found = FoundPartition(partition(command.words[0]), assignment, stored)
        return self._handle(events.PartitionsFound((found,)))

    def do_joined(self, command: Command) -> Iterator[str]:
        """A leader has got another ISR by AlterPartition: its state is given."""
        where = partition(command.words[0])
        return self._handle(events.IsrsWritten({where: _stored(command)}))

    def do_stored(self, command: Command) -> Iterator[str]:
        """The topics' nodes say that the reassignments of these partitions have ended."""
        for word in command.words:
            tp = partition(word)
            yield from self._handle(events.ReassignmentsStored(tp.topic, (tp.partition,)))

    def do_assignment(self, command: Command) -> Iterator[str]:
        """The replicas of a partition, as the controller sees them."""
        found = self._machine.cluster.partition(partition(command.words[0]))
        assert found is not None
        yield f"{_assignment(found.assignment)} dropped {ids(found.dropped)}"

    def do_reevaluate(self, command: Command) -> Iterator[str]:
        where = tuple(map(partition, command.words))
        started = tuple(map(int, command.list("started")))
        return self._handle(events.ReevaluatePartitions(where, started, ()))

    def do_written(self, command: Command) -> Iterator[str]:
        """The pending writes succeed; or another one, which is given."""
        if "leader" in command:
            return self._handle(
                events.StatesWritten({partition(command.words[0]): _stored(command)})
            )
        zxid = command.number("zxid", 200)
        done = {tp: StoredState(state, version + 1, zxid) for tp, state, version in self._writes}
        self._writes.clear()
        return self._handle(events.StatesWritten(done))

    def do_elect(self, command: Command) -> Iterator[str]:
        where = tuple(map(partition, command.words))
        return self._handle(events.Elect(where, command.text("unclean") == "yes"))

    def do_mark(self, command: Command) -> Iterator[str]:
        return self._handle(events.TopicsMarked(tuple(command.words)))

    def do_removed(self, command: Command) -> Iterator[str]:
        return self._handle(events.TopicsRemoved(tuple(command.words)))

    def do_delete_replicas(self, command: Command) -> Iterator[str]:
        return self._handle(events.DeleteReplicas(tuple(map(partition, command.words))))

    def do_unclean(self, command: Command) -> Iterator[str]:
        """From now on the leaders of these topics may lack records: no output."""
        self._unclean.update(command.words)
        yield from ()

    def do_changing(self, command: Command) -> Iterator[str]:
        """So many requests are changing the node of a topic, and plan nothing yet: no output."""
        topic = self._machine.cluster.topics[command.words[0]]
        topic.planned = [{} for _ in range(command.number("requests"))]
        yield from ()

    def do_plan(self, command: Command) -> Iterator[str]:
        """A request is writing these replicas of a partition: no output."""
        where, replicas = partition(command.words[0]), tuple(map(int, command.list("replicas")))
        self._machine.cluster.topics[where.topic].planned = [
            {where.partition: Assignment(replicas)}
        ]
        yield from ()

    def do_leaving(self, command: Command) -> Iterator[str]:
        """A broker is going to stop; with the epoch that it has."""
        broker_id = int(command.words[0])
        epoch = self._machine.cluster.brokers[broker_id].epoch
        return self._handle(events.BrokerLeaving(broker_id, epoch))

    def do_led_by(self, command: Command) -> Iterator[str]:
        """What a broker leads that has other replicas."""
        yield from map(str, self._machine.cluster.led_by(int(command.words[0])))

    def do_log_dir_failed(self, command: Command) -> Iterator[str]:
        return self._handle(events.LogDirsFailed(tuple(map(int, command.words))))

    def do_respond(self, command: Command) -> Iterator[str]:
        """A broker responds to its last request of a kind, or to the one `before` that; `error` is
        the whole request's code, `errors` those of partitions."""
        kind, broker = command.words
        code = ErrorCode[command.text("error", "NONE")]
        errors: dict[TopicPartition, ErrorCode] = {}
        for item in command.list("errors"):
            where, _, name = item.partition(":")
            errors[partition(where)] = ErrorCode[name]
        broker_id, before = int(broker), command.number("before")
        requests = [send.request for send in self._requests if send.broker_id == broker_id]
        if kind == "LeaderAndIsr":
            none = LeaderAndIsr(1, EPOCH, 10, (), ())
            leader_and_isr = [
                none,
                *(earlier for earlier in requests if isinstance(earlier, LeaderAndIsr)),
            ][-1 - before]
            response = LeaderAndIsrResponse(code, errors)
            return self._handle(
                events.LeaderAndIsrResponseReceived(broker_id, leader_and_isr, response)
            )
        if kind == "UpdateMetadata":
            request = [earlier for earlier in requests if isinstance(earlier, UpdateMetadata)][
                -1 - before
            ]
            return self._handle(events.UpdateMetadataResponseReceived(broker_id, request, code))
        nothing = StopReplica(1, EPOCH, 10, ())
        stop = [nothing, *(earlier for earlier in requests if isinstance(earlier, StopReplica))][
            -1 - before
        ]
        stopped = StopReplicaResponse(code, errors)
        return self._handle(events.StopReplicaResponseReceived(broker_id, stop, stopped))

    def do_ready(self, command: Command) -> Iterator[str]:
        """Whether clients can use these topics."""
        for name in command.words:
            yield f"{name}: {'ready' if self._machine.cluster.is_ready(name) else 'not ready'}"

    def do_topics(self, command: Command) -> Iterator[str]:
        if not self._machine.cluster.topics:
            yield "no topics"
        for name, topic in self._machine.cluster.topics.items():
            yield f"{name}: partitions {ids(topic.partitions)}" + " deleting" * topic.deleting


def _check_isr(send: Send) -> None:
    """A broker hears of an ISR with the replicas that it is of."""
    if isinstance(send.request, LeaderAndIsr):
        for topic in send.request.topic_states:
            for state in topic.partition_states:
                assert state.leader == NO_LEADER or {*state.isr} <= {*state.replicas}, state


def _stored(command: Command) -> StoredState:
    """The state that a command gives."""
    isr = tuple(map(int, command.list("isr")))
    leader, epoch, by = (command.number(name) for name in ("leader", "epoch", "by"))
    state = StoredPartitionState(leader, epoch, isr, by or 1)
    return StoredState(state, command.number("version"), command.number("zxid", 100))


def _assignment(assignment: Assignment) -> str:
    names = zip(("", "adding ", "removing "), assignment, strict=True)
    return " ".join(f"{name}{ids(brokers)}" for name, brokers in names if brokers)


def _written(state: StoredPartitionState) -> str:
    more = " recovering" * state.leader_recovery_state
    return (
        f"leader {state.leader} isr {ids(state.isr)} epoch {state.leader_epoch}{more} "
        f"by controller epoch {state.controller_epoch}"
    )


def _event(event: Event) -> str:
    match event:
        case events.ReevaluatePartitions():
            return (
                f"reevaluate {' '.join(map(str, event.partitions))} started {ids(event.started)} "
                f"dead {ids(event.dead)} bounced {ids(event.bounced)}"
            )
        case events.ResendLeaderAndIsr():
            return f"resend {' '.join(map(str, event.partitions))} to {ids(event.brokers)}"
        case events.DeleteReplicas():
            return f"delete replicas {' '.join(map(str, event.partitions))}"
    raise AssertionError(event)
