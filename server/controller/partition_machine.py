"""The controller's state machine: events in, commands out. Decides leaders, and which brokers get
which requests.

Pure. It has a partition's new state written to the tree first, and sends it to brokers only after
the write has succeeded. Waiting requests, the brokers' channels and access to the tree belong to
`ActiveController`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Final

from kavka.server.cluster.control_messages import (
    LEADER_DURING_DELETE,
    LeaderAndIsrTopicState,
    StopReplicaTopicState,
    TopicPartition,
    UpdateMetadataTopicState,
)
from kavka.server.controller import reassignments
from kavka.server.controller.broker_requests import BrokerRequests
from kavka.server.controller.election import first_state, next_state
from kavka.server.controller.election_requests import decide_election
from kavka.server.controller.events import (
    CHUNK_PARTITIONS,
    BrokerLeaving,
    BrokersChanged,
    Command,
    DeleteMarks,
    DeleteReplicas,
    Elect,
    ElectionResults,
    Enqueue,
    Event,
    FinishReassignments,
    IsrsWritten,
    LeaderAndIsrResponseReceived,
    LogDirsFailed,
    PartitionsExpected,
    PartitionsFound,
    ReassignmentsStored,
    ReevaluatePartitions,
    RemoveTopic,
    ResendLeaderAndIsr,
    StatesWritten,
    StateWrite,
    StopReplicaResponseReceived,
    StoredState,
    TopicRead,
    TopicsFound,
    TopicsMarked,
    TopicsRemoved,
    UpdateMetadataResponseReceived,
    Warn,
    WriteStates,
    summary,
)
from kavka.server.controller.state import (
    Assignment,
    ClusterState,
    Partition,
    Topic,
    without,
)
from kavka.wire.errors import ApiError, ErrorCode

HISTORY_EVENTS_MAX: Final = 50


def chunks(
    partitions: Sequence[TopicPartition],
) -> Iterator[tuple[TopicPartition, ...]]:
    """`partitions` in parts of at most `CHUNK_PARTITIONS`."""
    for start in range(0, len(partitions), CHUNK_PARTITIONS):
        yield tuple(partitions[start : start + CHUNK_PARTITIONS])


class PartitionMachine:
    """The state of all partitions, in one controller epoch."""

    def __init__(
        self,
        controller_id: int,
        epoch: int,
        *,
        listener: str,
        allows_unclean: Callable[[str], bool] = lambda topic: False,
        is_standalone: bool = False,
    ) -> None:
        """`allows_unclean`: whether unclean leader elections are enabled for a topic.
        `is_standalone`: whether there is only this broker. It serves clients once all partitions
        have leaders, and need not hear of what they were before."""
        self.cluster = ClusterState(controller_id, epoch)
        self.history: deque[str] = deque(maxlen=HISTORY_EVENTS_MAX)
        """Summaries of the last events, for the log of an error."""
        self._allows_unclean = allows_unclean
        self._requests = BrokerRequests(self.cluster, listener)
        self._is_standalone = is_standalone

    def handle(self, event: Event) -> list[Command]:
        """The commands that `event` leads to, in order."""
        self.history.append(summary(event))
        return list(self._handle(event))

    def _handle(self, event: Event) -> Iterator[Command]:
        match event:
            case BrokersChanged():
                return self._brokers_changed(event)
            case TopicsFound():
                return self._topics_found(event)
            case PartitionsExpected():
                return self._partitions_expected(event)
            case PartitionsFound():
                return self._partitions_found(event)
            case TopicRead():
                return self._topic_read(event)
            case TopicsRemoved():
                return self._topics_removed(event)
            case TopicsMarked():
                return self._topics_marked(event)
            case ReevaluatePartitions():
                return self._reevaluate(event)
            case BrokerLeaving():
                return self._broker_leaving(event)
            case LogDirsFailed():
                return self._log_dirs_failed(event)
            case ResendLeaderAndIsr():
                return self._resend_leader_and_isr(event)
            case DeleteReplicas():
                return self._delete_replicas(event.partitions, list(self.cluster.brokers))
            case Elect():
                return self._elect(event)
            case StatesWritten():
                return self._states_written(event)
            case IsrsWritten():
                return self._isrs_written(event)
            case ReassignmentsStored():
                return self._reassignments_stored(event)
            case LeaderAndIsrResponseReceived():
                return self._leader_and_isr_response(event)
            case UpdateMetadataResponseReceived():
                return self._update_metadata_response(event)
            case StopReplicaResponseReceived():
                return self._stop_replica_response(event)

    # Brokers

    def _brokers_changed(self, event: BrokersChanged) -> Iterator[Command]:
        before, now = self.cluster.brokers, dict(sorted(event.brokers.items()))
        self.cluster.brokers = now
        self.cluster.leaving = {
            broker_id: epoch
            for broker_id, epoch in self.cluster.leaving.items()
            if broker_id in now and now[broker_id].epoch == epoch
        }
        started = tuple(
            broker_id
            for broker_id, broker in now.items()
            if broker_id not in before or before[broker_id].epoch != broker.epoch
        )
        dead = tuple(broker_id for broker_id in before if broker_id not in now)
        bounced = tuple(broker_id for broker_id in started if broker_id in before)
        for broker_id in now:
            yield from self._requests.metadata(broker_id, ())
        if started or dead:
            parts = list(chunks(list(self.cluster.all_partitions())))
            for part, following in zip_longest(parts, parts[1:], fillvalue=()):
                continued = following[0].topic if following else ""
                yield Enqueue(ReevaluatePartitions(part, started, dead, bounced, continued))

    def _reevaluate(self, event: ReevaluatePartitions) -> Iterator[Command]:
        live = self.cluster.brokers
        started = [broker_id for broker_id in event.started if broker_id in live]
        writes: list[StateWrite] = []
        same: list[TopicPartition] = []
        described: list[TopicPartition] = []
        touched: list[TopicPartition] = []
        deleting: list[TopicPartition] = []
        for tp in event.partitions:
            topic, partition = self._find(tp)
            if topic is None or partition is None:
                continue
            partition.offline = without(partition.offline, event.started)
            partition.deleted = without(partition.deleted, event.started)
            _mark_away(partition, (*event.dead, *event.bounced))
            if topic.deleting:
                deleting.append(tp)
                if not partition.is_deleted and not topic.removing:
                    topic.undeleted[tp.partition] = None
                continue
            described.append(tp)
            if write := self._decide(tp, partition):
                writes.append(write)
            elif partition.state is not None:
                same.append(tp)
                if not {*event.started, *event.dead}.isdisjoint(partition.replicas):
                    touched.append(tp)
        yield from _write(writes)
        yield from self._requests.states(
            same, started, described=described, continued=event.continued
        )
        if touched:  # the offline replicas in the metadata have changed
            for broker_id in live:
                if broker_id not in started:
                    yield from self._requests.metadata(broker_id, touched)
        yield from self._delete_dropped(same, started)
        yield from self._delete_replicas(deleting, started)

    def _broker_leaving(self, event: BrokerLeaving) -> Iterator[Command]:
        self.cluster.leaving[event.broker_id] = event.epoch
        for chunk in chunks(list(self.cluster.all_partitions())):
            yield Enqueue(ReevaluatePartitions(chunk, (), ()))

    def _log_dirs_failed(self, event: LogDirsFailed) -> Iterator[Command]:
        for chunk in chunks(list(self.cluster.all_partitions())):
            yield Enqueue(ResendLeaderAndIsr(chunk, event.brokers))

    def _resend_leader_and_isr(self, event: ResendLeaderAndIsr) -> Iterator[Command]:
        """Send LeaderAndIsr unchanged, for the error codes in the response."""
        for broker_id in event.brokers:
            if broker_id in self.cluster.brokers:
                yield from self._requests.leader_and_isr(broker_id, event.partitions)

    # Topics and their partitions

    def _topics_found(self, event: TopicsFound) -> Iterator[Command]:
        for name, topic_id in event.topics.items():
            self.cluster.topics.setdefault(name, Topic(name, topic_id, marked=name in event.marked))
        return iter(())

    def _partitions_expected(self, event: PartitionsExpected) -> Iterator[Command]:
        for name, indexes in event.topics.items():
            if topic := self.cluster.topics.get(name):
                new = [index for index in indexes if index not in topic.partitions]
                topic.undescribed.update(dict.fromkeys(new))
        return iter(())

    def _topic_read(self, event: TopicRead) -> Iterator[Command]:
        if topic := self.cluster.topics.get(event.name):
            topic.version = event.version
        return iter(())

    def _topics_removed(self, event: TopicsRemoved) -> Iterator[Command]:
        for name in event.names:
            self.cluster.topics.pop(name, None)
        return iter(())

    def _partitions_found(self, event: PartitionsFound) -> Iterator[Command]:
        writes: list[StateWrite] = []
        known: list[TopicPartition] = []
        described: list[TopicPartition] = []
        decided: list[TopicPartition] = []
        new: dict[TopicPartition, tuple[int, ...]] = {}
        for found in event.partitions:
            topic, partition = self._find(found.tp)
            if topic is None or (partition is None and topic.deleting):
                continue
            is_new = partition is None
            if partition is None:
                partition = Partition(found.assignment.replicas)
                topic.partitions[found.tp.partition] = partition
            if found.stored is not None:
                _set_state(partition, found.stored)
            if topic.deleting or topic.marked:
                continue
            is_decided = partition.state is not None and reassignments.end_decision(
                found.tp, partition, new
            )
            reassignments.take(partition, found.assignment, is_new=is_new)
            if is_decided:  # it was read before the end of its write was handled
                decided.append(found.tp)
            elif write := self._decide(found.tp, partition):
                writes.append(write)
                if is_new and partition.state is not None and not self._is_standalone:
                    described.append(found.tp)
            elif partition.state is not None:
                known.append(found.tp)
                described.append(found.tp)
            else:
                described.append(found.tp)
                yield Warn(f"{found.tp}: none of its replicas {partition.replicas} is alive")
        yield from _write(writes)
        yield from self._requests.states_to_all(known, described=described)
        yield from self._announce(decided, new)

    def _states_written(self, event: StatesWritten) -> Iterator[Command]:
        new: dict[TopicPartition, tuple[int, ...]] = {}
        written: list[TopicPartition] = []
        for tp, stored in event.stored.items():
            topic, partition = self._find(tp)
            if topic is None or partition is None or stored.version < partition.version:
                continue  # deleted, or read again meanwhile
            if partition.state is None:
                new[tp], partition.announced_assignment = partition.replicas, None
            _set_state(partition, stored)
            reassignments.end_decision(tp, partition, new)
            if not topic.deleting:
                written.append(tp)
        yield from self._announce(written, new)

    def _announce(
        self, written: Sequence[TopicPartition], new: Mapping[TopicPartition, Collection[int]]
    ) -> Iterator[Command]:
        """Tell brokers of states that were written, and do what had to wait for that. `new`: see
        `reassignments.end_decision`."""
        yield from self._requests.states_to_all(written, new=new)
        yield from self._delete_dropped(written, list(self.cluster.brokers))
        yield from self._store_ends(new)
        # a broker may have died while its leadership was being written
        yield from self._decide_all(written)

    def _isrs_written(self, event: IsrsWritten) -> Iterator[Command]:
        """Send the new ISRs to all brokers by UpdateMetadata. Their leaders know them from the
        response to AlterPartition."""
        written: list[TopicPartition] = []
        for tp, stored in event.stored.items():
            topic, partition = self._find(tp)
            if topic is None or partition is None or stored.version <= partition.version:
                continue  # deleted, or read again meanwhile
            before = () if partition.state is None else partition.state.isr
            _set_state(partition, stored)
            joined = [broker_id for broker_id in stored.state.isr if broker_id not in before]
            partition.away = without(partition.away, joined)
            if not topic.deleting:
                written.append(tp)
        for broker_id in self.cluster.brokers if written else ():
            yield from self._requests.metadata(broker_id, written)
        # a broker may have died while it was being written
        yield from self._decide_all(written)

    def _decide_all(self, partitions: Iterable[TopicPartition]) -> Iterator[Command]:
        """Decide on these partitions again, after the last decision was sent to the brokers: the
        end of a reassignment replaces the replicas, which needs the next leader epoch."""
        writes: list[StateWrite] = []
        for tp in partitions:
            _, partition = self._find(tp)
            if partition is not None and (write := self._decide(tp, partition)):
                writes.append(write)
        yield from _write(writes)

    def _decide(self, tp: TopicPartition, partition: Partition) -> StateWrite | None:
        live, epoch = self.cluster.eligible_replicas(partition), self.cluster.epoch
        topic = self.cluster.topics[tp.topic]
        if partition.state is None:
            state = first_state(live, epoch)
        else:
            away = self.cluster.away(partition, live)
            if partition.finishing is not None and partition.is_reassigned:
                if not reassignments.may_end(partition, live, away):
                    reassignments.take_back(partition)
                    live = self.cluster.eligible_replicas(partition)
                    away = self.cluster.away(partition, live)
            elif not topic.planned:
                if reassignments.is_caught_up(partition, live, away):
                    reassignments.finish(partition)
                    live = self.cluster.eligible_replicas(partition)
            state = next_state(
                partition.state,
                live=live,
                away_since=away,
                is_reassigned=partition.is_reassigned,
                may_be_unclean=self._allows_unclean(tp.topic),
                controller_epoch=epoch,
            )
        if state is not None and not topic.keeps_planned_replica(tp.partition, state.isr):
            return None  # decided when the controller has seen the new assignment
        if partition.state is not None:
            partition.decided_state = state
            if state is None:
                partition.away = ()
        return None if state is None else StateWrite(tp, state, partition.version)

    # Reassignments

    def _delete_dropped(
        self, partitions: Iterable[TopicPartition], brokers: Sequence[int]
    ) -> Iterator[Command]:
        """Delete the replicas that reassignments have removed, unless the whole ISR consists of
        them: then they may have records that no other replica has."""
        dropped: dict[int, list[TopicPartition]] = {}
        for tp in partitions:
            topic, partition = self._find(tp)
            if topic is None or partition is None or partition.state is None or topic.deleting:
                continue
            if partition.is_reassigned:
                continue  # the others have not heard of it
            for broker_id in without(partition.dropped, partition.state.isr):
                dropped.setdefault(broker_id, []).append(tp)
        for broker_id in brokers:
            yield from self._requests.stop_replica(broker_id, dropped.get(broker_id, ()))

    def _store_ends(self, partitions: Iterable[TopicPartition]) -> Iterator[Command]:
        """Write the end of these reassignments to the topics' nodes, if they have ended."""
        ends: dict[str, dict[int, tuple[Assignment, Assignment]]] = {}
        for tp in partitions:
            topic, partition = self._find(tp)
            if topic is None or topic.deleting or partition is None:
                continue
            if partition.finishing is not None:
                change = partition.finishing, partition.assignment
                ends.setdefault(tp.topic, {})[tp.partition] = change
        for name, changes in ends.items():
            yield FinishReassignments(name, changes)

    def _reassignments_stored(self, event: ReassignmentsStored) -> Iterator[Command]:
        for index in event.partitions:
            _, partition = self._find(TopicPartition(event.name, index))
            if partition is not None:
                partition.finishing = None
        return iter(())

    # Elections on request

    def _elect(self, event: Elect) -> Iterator[Command]:
        writes: dict[TopicPartition, StateWrite] = {}
        results: dict[TopicPartition, int | ApiError] = {}
        for tp in event.partitions:
            try:
                write = decide_election(self.cluster, tp, unclean=event.unclean)
            except ApiError as error:
                results[tp] = error.with_traceback(None)  # its frames would make a reference cycle
            else:
                writes[tp] = write
                results[tp] = write.state.leader
        yield from _write(list(writes.values()))
        yield ElectionResults(results)

    # Responses

    def _leader_and_isr_response(self, event: LeaderAndIsrResponseReceived) -> Iterator[Command]:
        broker_id, response = event.broker_id, event.response
        if response.error_code != ErrorCode.NONE:
            yield Warn(f"broker {broker_id} rejected LeaderAndIsr: {response.error_code.name}")
        writes: list[StateWrite] = []
        refused: dict[ErrorCode, list[TopicPartition]] = {}
        former = [
            topic.topic_name for topic in event.request.topic_states if not self._is_of(topic)
        ]
        for tp, code in response.partition_errors.items():
            if code == ErrorCode.NONE or tp.topic in former:
                continue
            refused.setdefault(code, []).append(tp)
            topic, partition = self._find(tp)
            if code != ErrorCode.KAFKA_STORAGE_ERROR or topic is None or partition is None:
                continue
            partition.offline = (*without(partition.offline, (broker_id,)), broker_id)
            if not topic.deleting and (write := self._decide(tp, partition)):
                writes.append(write)
        for code, those in refused.items():
            others = f" and {len(those) - 1} more" if len(those) > 1 else ""
            text = f"{those[0]}{others}: broker {broker_id} answered LeaderAndIsr with {code.name}"
            yield Warn(text)
        yield from _write(writes)

    def _update_metadata_response(self, event: UpdateMetadataResponseReceived) -> Iterator[Command]:
        if event.error_code != ErrorCode.NONE:
            name = event.error_code.name
            yield Warn(f"broker {event.broker_id} rejected UpdateMetadata: {name}")
        elif event.broker_id == self.cluster.controller_id:
            for topic_state in event.request.topic_states:
                if not self._is_of(topic_state):
                    continue
                topic = self.cluster.topics[topic_state.topic_name]
                for state in topic_state.partition_states:
                    if state.leader != LEADER_DURING_DELETE:
                        topic.partitions[state.partition_index].announced = state.zk_version

    def _is_of(
        self,
        request: LeaderAndIsrTopicState | UpdateMetadataTopicState | StopReplicaTopicState,
    ) -> bool:
        """Whether what was requested of a topic is of the one that has this name: it may have been
        deleted, and created again since."""
        topic = self.cluster.topics.get(request.topic_name)
        return topic is not None and topic.topic_id == request.topic_id

    # Deletion

    def _topics_marked(self, event: TopicsMarked) -> Iterator[Command]:
        unknown = tuple(name for name in event.names if name not in self.cluster.topics)
        if unknown:
            yield DeleteMarks(unknown)
        for name in event.names:
            topic = self.cluster.topics.get(name)
            if topic is None or topic.deleting:
                continue
            topic.deleting = True
            topic.undeleted = dict.fromkeys(topic.partitions)
            for chunk in chunks(topic.all_partitions()):
                yield Enqueue(DeleteReplicas(chunk))
            yield from self._remove_if_deleted(topic)

    def _delete_replicas(
        self, partitions: Iterable[TopicPartition], brokers: Sequence[int]
    ) -> Iterator[Command]:
        """Remove partitions of topics being deleted from brokers' metadata; stop the replicas."""
        here = [tp for tp in partitions if self.cluster.partition(tp) is not None]
        if not here:
            return
        for broker_id in brokers:
            yield from self._requests.metadata(broker_id, here)
        for broker_id in brokers:
            yield from self._requests.stop_replica(broker_id, here)

    def _stop_replica_response(self, event: StopReplicaResponseReceived) -> Iterator[Command]:
        broker_id, response = event.broker_id, event.response
        for topic_state in event.request.topic_states:
            if not self._is_of(topic_state):
                continue
            name = topic_state.topic_name
            topic = self.cluster.topics[name]
            for state in topic_state.partition_states:
                tp = TopicPartition(name, state.partition_index)
                code = response.partition_errors.get(tp, response.error_code)
                partition = topic.partitions[state.partition_index]
                if code == ErrorCode.NONE:
                    partition.dropped = without(partition.dropped, (broker_id,))
                    if topic.deleting:
                        partition.deleted = (*without(partition.deleted, (broker_id,)), broker_id)
                    if partition.is_deleted:
                        topic.undeleted.pop(state.partition_index, None)
                else:
                    yield Warn(f"{tp}: broker {broker_id} can't delete it: {code.name}")
            yield from self._remove_if_deleted(topic)

    def _remove_if_deleted(self, topic: Topic) -> Iterator[Command]:
        if topic.deleting and not topic.removing and not topic.undeleted:
            topic.removing = True
            yield RemoveTopic(topic.name)

    def _find(self, tp: TopicPartition) -> tuple[Topic | None, Partition | None]:
        topic = self.cluster.topics.get(tp.topic)
        return topic, None if topic is None else topic.partitions.get(tp.partition)


def _set_state(partition: Partition, stored: StoredState) -> None:
    partition.state, partition.version, partition.mzxid = stored


def _mark_away(partition: Partition, brokers: Collection[int]) -> None:
    if partition.state is not None:
        isr, away = partition.state.isr, partition.away
        partition.away += tuple(new for new in brokers if new in isr and new not in away)


def _write(writes: Sequence[StateWrite]) -> Iterator[Command]:
    if writes:
        yield WriteStates(tuple(writes))
