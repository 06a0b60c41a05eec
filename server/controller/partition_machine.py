"""The controller's machine: an event in, commands out. Decides who leads and who is told what.

Pure. It asks for a partition's state to be written before any broker hears of it, and takes the
state for true only when the answer says that it was written. Who waits for a topic, what a broker
does with a request and how the tree is reached are the runner's business.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from kavka.server.cluster.control_messages import LEADER_DURING_DELETE, TopicPartition
from kavka.server.controller import request_builders
from kavka.server.controller.election import (
    first_state,
    next_state,
    preferred_state,
    unclean_state,
)
from kavka.server.controller.events import (
    CHUNK_PARTITIONS,
    AskAgain,
    BrokersChanged,
    Command,
    DeleteReplicas,
    DirectoriesFailed,
    Elect,
    Elected,
    Event,
    Examine,
    ForgetMarks,
    LeaderAndIsrAnswered,
    PartitionsFound,
    Post,
    RemoveTopic,
    Report,
    Send,
    StatesWritten,
    StateWrite,
    StopReplicaAnswered,
    StoredState,
    TopicsFound,
    TopicsGone,
    TopicsMarked,
    UpdateMetadataAnswered,
    WriteStates,
)
from kavka.server.controller.state import ClusterState, Partition, Topic
from kavka.wire.errors import ApiError, ErrorCode

STORY_EVENTS_MAX: Final = 50


def chunks(
    partitions: Sequence[TopicPartition],
) -> Iterator[tuple[TopicPartition, ...]]:
    """`partitions` in parts of at most `CHUNK_PARTITIONS`."""
    for start in range(0, len(partitions), CHUNK_PARTITIONS):
        yield tuple(partitions[start : start + CHUNK_PARTITIONS])


class PartitionMachine:
    """Controls the partitions of all topics, in one controller epoch."""

    def __init__(self, controller_id: int, epoch: int, *, listener: str) -> None:
        self.cluster = ClusterState(controller_id, epoch)
        self.story: deque[str] = deque(maxlen=STORY_EVENTS_MAX)
        """The last events in short, for the report of an error."""
        self._listener = listener
        """Name of the listener between brokers."""

    def handle(self, event: Event) -> list[Command]:
        """What has to be done because of `event`, in this order."""
        self.story.append(_brief(event))
        return list(self._handle(event))

    def _handle(self, event: Event) -> Iterator[Command]:
        match event:
            case BrokersChanged():
                return self._brokers_changed(event)
            case TopicsFound():
                return self._topics_found(event)
            case PartitionsFound():
                return self._partitions_found(event)
            case TopicsGone():
                return self._topics_gone(event)
            case TopicsMarked():
                return self._topics_marked(event)
            case Examine():
                return self._examine(event)
            case DirectoriesFailed():
                return self._directories_failed(event)
            case AskAgain():
                return self._ask_again(event)
            case DeleteReplicas():
                return self._delete_replicas(event.partitions, list(self.cluster.brokers))
            case Elect():
                return self._elect(event)
            case StatesWritten():
                return self._states_written(event)
            case LeaderAndIsrAnswered():
                return self._leader_and_isr_answered(event)
            case UpdateMetadataAnswered():
                return self._update_metadata_answered(event)
            case StopReplicaAnswered():
                return self._stop_replica_answered(event)

    # Brokers

    def _brokers_changed(self, event: BrokersChanged) -> Iterator[Command]:
        before, now = self.cluster.brokers, dict(sorted(event.brokers.items()))
        self.cluster.brokers = now
        fresh = tuple(
            broker_id
            for broker_id, broker in now.items()
            if broker_id not in before or before[broker_id].epoch != broker.epoch
        )
        gone = tuple(broker_id for broker_id in before if broker_id not in now)
        bounced = tuple(broker_id for broker_id in fresh if broker_id in before)
        for broker_id in now:
            yield self._send_metadata(broker_id, ())
        if fresh or gone:
            for chunk in chunks(list(self.cluster.all_partitions())):
                yield Post(Examine(chunk, fresh, gone, bounced))

    def _examine(self, event: Examine) -> Iterator[Command]:
        live = self.cluster.brokers
        fresh = [broker_id for broker_id in event.fresh if broker_id in live]
        writes: list[StateWrite] = []
        same: list[TopicPartition] = []
        touched: list[TopicPartition] = []
        deleting: list[TopicPartition] = []
        for where in event.partitions:
            topic, partition = self._find(where)
            if topic is None or partition is None:
                continue
            partition.offline = _without(partition.offline, event.fresh)
            partition.deleted = _without(partition.deleted, event.fresh)
            _note_away(partition, (*event.gone, *event.bounced))
            if topic.deleting:
                deleting.append(where)
                if not partition.is_deleted and not topic.removing:
                    topic.undeleted[where.partition] = None
            elif write := self._decide(where, partition):
                writes.append(write)
            elif partition.state is not None:
                same.append(where)
                if not {*event.fresh, *event.gone}.isdisjoint(partition.replicas):
                    touched.append(where)
        yield from _write(writes)
        yield from self._tell(same, fresh)
        if touched:  # what clients are told of offline replicas has changed
            for broker_id in live:
                if broker_id not in fresh:
                    yield self._send_metadata(broker_id, touched)
        yield from self._delete_replicas(deleting, fresh)

    def _directories_failed(self, event: DirectoriesFailed) -> Iterator[Command]:
        for chunk in chunks(list(self.cluster.all_partitions())):
            yield Post(AskAgain(chunk, event.brokers))

    def _ask_again(self, event: AskAgain) -> Iterator[Command]:
        """LeaderAndIsr as they know it already, for the error codes in the answer."""
        for broker_id in event.brokers:
            replicas = [where for where in event.partitions if self._may_have(broker_id, where)]
            if broker_id in self.cluster.brokers and replicas:
                yield self._send_leader_and_isr(broker_id, replicas)

    def _may_have(self, broker_id: int, where: TopicPartition) -> bool:
        topic, partition = self._find(where)
        return (
            topic is not None
            and partition is not None
            and not topic.deleting
            and partition.state is not None
            and broker_id in partition.replicas
            and broker_id not in partition.offline
        )

    # Topics and their partitions

    def _topics_found(self, event: TopicsFound) -> Iterator[Command]:
        for name, topic_id in event.topics.items():
            self.cluster.topics.setdefault(name, Topic(name, topic_id))
        return iter(())

    def _topics_gone(self, event: TopicsGone) -> Iterator[Command]:
        for name in event.names:
            self.cluster.topics.pop(name, None)
        return iter(())

    def _partitions_found(self, event: PartitionsFound) -> Iterator[Command]:
        writes: list[StateWrite] = []
        known: list[TopicPartition] = []
        for found in event.partitions:
            topic, partition = self._find(found.where)
            if topic is None or (partition is None and topic.deleting):
                continue
            if partition is None:
                partition = topic.partitions[found.where.partition] = Partition(found.replicas)
            partition.replicas = found.replicas
            partition.adding, partition.removing = found.adding, found.removing
            if found.stored is not None:
                _take(partition, found.stored)
            if topic.deleting:
                continue
            if write := self._decide(found.where, partition):
                writes.append(write)
            elif partition.state is not None:
                known.append(found.where)
            else:
                yield Report(f"{found.where}: none of its replicas {found.replicas} is alive")
        yield from _write(writes)
        yield from self._tell(known, list(self.cluster.brokers))

    def _states_written(self, event: StatesWritten) -> Iterator[Command]:
        new: dict[TopicPartition, None] = {}
        written: list[TopicPartition] = []
        for where, stored in event.stored.items():
            topic, partition = self._find(where)
            if topic is None or partition is None:
                continue
            if partition.state is None:
                new[where] = None
            _take(partition, stored)
            if stored.state == partition.decided:
                partition.away, partition.decided = (), None
            if not topic.deleting:
                written.append(where)
        return self._tell(written, list(self.cluster.brokers), new=new)

    def _decide(self, where: TopicPartition, partition: Partition) -> StateWrite | None:
        live, epoch = self.cluster.live_replicas(partition), self.cluster.epoch
        if partition.state is None:
            state = first_state(live, epoch)
        else:
            brokers = self.cluster.brokers
            away = [
                replica
                for replica in live
                if brokers[replica].epoch > partition.mzxid or replica in partition.away
            ]
            state = next_state(partition.state, live=live, away_since=away, controller_epoch=epoch)
            partition.decided = state
            if state is None:
                partition.away = ()
        return None if state is None else StateWrite(where, state, partition.version)

    # Elections that somebody asks for

    def _elect(self, event: Elect) -> Iterator[Command]:
        writes: dict[TopicPartition, StateWrite] = {}
        results: dict[TopicPartition, int | ApiError] = {}
        for where in event.partitions:
            try:
                write = self._elected(where, unclean=event.unclean)
            except ApiError as error:
                results[where] = error.with_traceback(None)  # else a cycle, by its frame
            else:
                writes[where] = write
                results[where] = write.state.leader
        yield from _write(list(writes.values()))
        yield Elected(results)

    def _elected(self, where: TopicPartition, *, unclean: bool) -> StateWrite:
        topic, partition = self._find(where)
        if topic is None:
            message = f"No such topic as {where.topic}"
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
        if partition is None:
            message = f"No such partition as {where}"
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
        if topic.deleting:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is being deleted")
        live, epoch = self.cluster.live_replicas(partition), self.cluster.epoch
        if unclean:
            state = unclean_state(partition.state, live=live, controller_epoch=epoch)
        else:
            live = list(_without(tuple(live), partition.away))
            state = preferred_state(
                partition.state, replicas=partition.replicas, live=live, controller_epoch=epoch
            )
        return StateWrite(where, state, partition.version)

    # Answers

    def _leader_and_isr_answered(self, event: LeaderAndIsrAnswered) -> Iterator[Command]:
        broker_id, response = event.broker_id, event.response
        if response.error_code != ErrorCode.NONE:
            yield Report(f"broker {broker_id} refused LeaderAndIsr: {response.error_code.name}")
        writes: list[StateWrite] = []
        refused: dict[ErrorCode, list[TopicPartition]] = {}
        for where, code in response.partition_errors.items():
            if code == ErrorCode.NONE:
                continue
            refused.setdefault(code, []).append(where)
            topic, partition = self._find(where)
            if code != ErrorCode.KAFKA_STORAGE_ERROR or topic is None or partition is None:
                continue
            partition.offline = (*_without(partition.offline, (broker_id,)), broker_id)
            if not topic.deleting and (write := self._decide(where, partition)):
                writes.append(write)
        for code, those in refused.items():
            others = f" and {len(those) - 1} more" if len(those) > 1 else ""
            told = f"{those[0]}{others}: broker {broker_id} answered LeaderAndIsr with {code.name}"
            yield Report(told)
        yield from _write(writes)

    def _update_metadata_answered(self, event: UpdateMetadataAnswered) -> Iterator[Command]:
        if event.error_code != ErrorCode.NONE:
            name = event.error_code.name
            yield Report(f"broker {event.broker_id} refused UpdateMetadata: {name}")
        elif event.broker_id == self.cluster.controller_id:
            for topic_state in event.request.topic_states:
                topic = self.cluster.topics.get(topic_state.topic_name)
                if topic is None or topic.topic_id != topic_state.topic_id:
                    continue
                for state in topic_state.partition_states:
                    if state.leader != LEADER_DURING_DELETE:
                        topic.partitions[state.partition_index].announced = state.zk_version

    # Deletion

    def _topics_marked(self, event: TopicsMarked) -> Iterator[Command]:
        unknown = tuple(name for name in event.names if name not in self.cluster.topics)
        if unknown:
            yield ForgetMarks(unknown)
        for name in event.names:
            topic = self.cluster.topics.get(name)
            if topic is None or topic.deleting:
                continue
            topic.deleting = True
            topic.undeleted = dict.fromkeys(topic.partitions)
            for chunk in chunks([TopicPartition(name, index) for index in topic.partitions]):
                yield Post(DeleteReplicas(chunk))
            yield from self._remove_if_deleted(topic)

    def _delete_replicas(
        self, partitions: Iterable[TopicPartition], tell: Sequence[int]
    ) -> Iterator[Command]:
        """Let brokers forget partitions of topics being deleted, and delete their replicas."""
        here: list[TopicPartition] = []
        led: list[TopicPartition] = []
        for where in partitions:
            _, partition = self._find(where)
            if partition is not None:
                here.append(where)
                if partition.state is not None:
                    led.append(where)
        if not here:
            return
        for broker_id in tell:
            yield self._send_metadata(broker_id, led)
        for broker_id in tell:
            replicas = [where for where in here if self._has_replica(broker_id, where)]
            if replicas:
                yield Send(
                    broker_id, request_builders.stop_replica(self.cluster, broker_id, replicas)
                )

    def _stop_replica_answered(self, event: StopReplicaAnswered) -> Iterator[Command]:
        broker_id, response = event.broker_id, event.response
        for topic_state in event.request.topic_states:
            name = topic_state.topic_name
            topic = self.cluster.topics.get(name)
            if topic is None:
                continue
            for state in topic_state.partition_states:
                where = TopicPartition(name, state.partition_index)
                code = response.partition_errors.get(where, response.error_code)
                partition = topic.partitions[state.partition_index]
                if code == ErrorCode.NONE:
                    partition.deleted = (*_without(partition.deleted, (broker_id,)), broker_id)
                    if partition.is_deleted:
                        topic.undeleted.pop(state.partition_index, None)
                else:
                    yield Report(f"{where}: broker {broker_id} can't delete it: {code.name}")
            yield from self._remove_if_deleted(topic)

    def _remove_if_deleted(self, topic: Topic) -> Iterator[Command]:
        if topic.deleting and not topic.removing and not topic.undeleted:
            topic.removing = True
            yield RemoveTopic(topic.name)

    # Telling

    def _tell(
        self,
        partitions: Sequence[TopicPartition],
        brokers: Sequence[int],
        *,
        new: Collection[TopicPartition] = (),
    ) -> Iterator[Command]:
        """LeaderAndIsr to those of `brokers` with a replica, then UpdateMetadata to all."""
        if not partitions:
            return
        for broker_id in brokers:
            replicas = [where for where in partitions if self._may_have(broker_id, where)]
            if replicas:
                yield self._send_leader_and_isr(broker_id, replicas, new)
        for broker_id in brokers:
            yield self._send_metadata(broker_id, partitions)

    def _send_leader_and_isr(
        self,
        broker_id: int,
        partitions: Sequence[TopicPartition],
        new: Collection[TopicPartition] = (),
    ) -> Send:
        request = request_builders.leader_and_isr(
            self.cluster, broker_id, partitions, new=new, listener=self._listener
        )
        return Send(broker_id, request)

    def _send_metadata(self, broker_id: int, partitions: Sequence[TopicPartition]) -> Send:
        return Send(
            broker_id, request_builders.update_metadata(self.cluster, broker_id, partitions)
        )

    def _has_replica(self, broker_id: int, where: TopicPartition) -> bool:
        partition = self.cluster.partition(where)
        return partition is not None and broker_id in partition.replicas

    def _find(self, where: TopicPartition) -> tuple[Topic | None, Partition | None]:
        topic = self.cluster.topics.get(where.topic)
        return topic, None if topic is None else topic.partitions.get(where.partition)


def _brief(event: Event) -> str:
    """An event in short: events are big, and each is put down."""
    first = event[0]
    if isinstance(first, tuple | dict):
        return f"{type(event).__name__}: {len(first)}, {next(iter(first), None)!s:.80}"
    return f"{type(event).__name__}: {first!s:.80}"


def _take(partition: Partition, stored: StoredState) -> None:
    partition.state, partition.version, partition.mzxid = stored


def _note_away(partition: Partition, brokers: Collection[int]) -> None:
    if partition.state is not None:
        isr = partition.state.isr
        new = tuple(one for one in brokers if one in isr and one not in partition.away)
        partition.away += new


def _without(brokers: tuple[int, ...], away: Collection[int]) -> tuple[int, ...]:
    return tuple(broker_id for broker_id in brokers if broker_id not in away)


def _write(writes: Sequence[StateWrite]) -> Iterator[Command]:
    if writes:
        yield WriteStates(tuple(writes))
