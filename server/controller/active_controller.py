"""One term of this broker as the active controller: the event queue, the state machine, and the
execution of its commands.

The controller's state lasts for one term. A broker that is elected again starts from empty state
and reads the tree.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kavka.seams import Random, Tasks, Timer
from kavka.server.cluster.control_messages import TopicPartition
from kavka.server.controller.channels import BrokerPort, Channels
from kavka.server.controller.events import (
    CHUNK_PARTITIONS,
    BrokersChanged,
    Command,
    DeleteMarks,
    Elect,
    ElectionResults,
    Enqueue,
    Event,
    FinishReassignments,
    IsrsWritten,
    LogDirsFailed,
    ReassignmentsStored,
    ReevaluatePartitions,
    RemoveTopic,
    RequestedIsr,
    Send,
    StateWrite,
    StoredState,
    TopicRead,
    TopicsFound,
    TopicsMarked,
    TopicsRemoved,
    UpdateMetadataResponseReceived,
    Warn,
    WriteStates,
)
from kavka.server.controller.isr_decisions import decide_isrs
from kavka.server.controller.partition_machine import PartitionMachine, chunks
from kavka.server.controller.request_outcomes import not_controller
from kavka.server.controller.state import Assignment, LiveBroker, assignment_of, with_assignments
from kavka.server.controller.topic_waiters import TopicWaiters
from kavka.server.controller.tree_store import TERM_ENDED, StoredTopic, Term, TreeStore
from kavka.server.runtime.cooperative import run_rest
from kavka.wire.errors import ApiError, ErrorCode
from kavka.zktree.api import (
    Coordination,
    NoNode,
    WatchEvent,
    WatchKind,
)
from kavka.zktree.paths import TopicAssignment, random_uuid

if TYPE_CHECKING:
    from kavka.client.broker_client import BrokerClient
    from kavka.server.controller.leader_balance import BalanceSettings
    from kavka.server.controller.unclean_elections import UncleanElections

logger = logging.getLogger(__name__)

FIRST_BALANCE_S: Final = 5.0
"""After its election the controller looks so soon whether preferred replicas lead."""

GATHERING_S_PER_PARTITION: Final = 20e-6
"""How long ends of reassignments gather before the topic's node is written, for each partition of
the topic: ten times as long as reading, changing and writing it takes."""

QUEUED_EVENTS_MAX: Final = 100_000
"""Events in the queue. Each stands for a chunk of partitions or for a response, so only a bug can
reach this limit."""

Connect: TypeAlias = "Callable[[LiveBroker], BrokerClient | None]"
"""A client of a broker's listener between brokers; None if it has none."""

Ends: TypeAlias = dict[int, tuple[Assignment, Assignment]]
"""Ends of reassignments: assignments before and after, by partition."""

QueuedRead: TypeAlias = Callable[[], Awaitable[None]]
"""A queue item that reads the tree and then handles what it has read."""


FirstReads: TypeAlias = "Callable[[ActiveController], Sequence[QueuedRead]]"
"""What else is read of the tree at the begin of a term."""


def _nothing() -> None: ...


def _never(topic: str) -> bool:
    return False


class ActiveController:
    """The active controller of one term."""

    on_assignments: Callable[[], object] = staticmethod(_nothing)
    """Called when assignments may have changed, or topics were deleted."""

    def __init__(
        self,
        term: Term,
        coordination: Coordination,
        *,
        broker_id: int,
        port: BrokerPort,
        connect: Connect | None = None,
        listener: str,
        on_moved: Callable[[], None],
        fast_failover: bool = False,
        balance: BalanceSettings | None = None,
        unclean: UncleanElections | None = None,
        first_reads: FirstReads | None = None,
        tasks: Tasks,
        random: Random,
    ) -> None:
        """`connect`: for the channels to other brokers; None for a standalone broker.
        `fast_failover`: whether brokers that refuse connections count as dead. `balance`: when
        preferred replicas are elected. `unclean`: which topics allow unclean leader elections."""
        self.store = TreeStore(coordination, term, on_moved)
        self.ready = TopicWaiters(tasks)
        """Requests that wait until a topic's partitions have leaders in this broker's metadata."""
        self.deleted = TopicWaiters(tasks)
        """Requests that wait until a topic is deleted."""
        self._machine = PartitionMachine(
            broker_id,
            term.epoch,
            listener=listener,
            allows_unclean=_never if unclean is None else unclean.allowed,
            is_standalone=connect is None,
        )
        self._unclean = unclean
        self.cluster = self._machine.cluster
        self._tasks = tasks
        self._random = random
        self._queue: deque[Event | QueuedRead] = deque()
        self._runner: asyncio.Task[None] | None = None
        self._pending_commands = 0
        """Commands that are still being executed in tasks."""
        self._state_writes: dict[asyncio.Future[None], None] = {}
        """Writes of partition states that are in progress: each is done when its result is in the
        queue."""
        self._ends: dict[str, Ends] = {}  # by topic: for the next write of its node
        self._idle_waits: list[asyncio.Future[None]] = []
        self._closed = False
        self._broker_id = broker_id
        self._connect = connect
        self._fast_failover = fast_failover
        self._connected: dict[int, int] = {}
        """The broker epoch of each other broker that has a channel."""
        self._registered: Mapping[int, LiveBroker] = {}
        self._first_contacts: list[asyncio.Future[None]] = []
        """One for each broker that is registered at the term's start: done when it is known whether
        it accepts connections."""
        self._is_started = False
        self._refusing: dict[int, None] = {}
        """Brokers that are registered, but refuse connections."""
        self._channels = Channels(self.put, tasks)
        self._channels.open(broker_id, port)
        self._loaded: asyncio.Future[None] = tasks.future()
        """Done when the term's first reads of the tree have been handled, or the term has ended."""
        own = self._load_brokers, self._load_topics, self._load_marks, self._load_log_dir_events
        more = () if first_reads is None else first_reads(self)
        for step in (*own, *more, self._end_loading):
            self.put(step)
        self._balance = balance
        self._balance_timer: Timer | None = None
        if balance is not None:
            self._balance_timer = tasks.call_later(FIRST_BALANCE_S, self._balance_due)

    def put(self, item: Event | QueuedRead) -> None:
        """Enqueue an event or a read of the tree."""
        if self._closed:
            return
        if len(self._queue) >= QUEUED_EVENTS_MAX:
            raise OverflowError("the controller's queue is full")
        self._queue.append(item)
        if self._runner is None:
            self._runner = self._tasks.spawn(self._run(), name="controller")

    async def wait_until_loaded(self) -> None:
        """Wait until the controller has read the tree: before that it would answer that a broker,
        topic or partition does not exist. ApiError NOT_CONTROLLER if the term has ended."""
        if not self._loaded.done():
            await asyncio.wait([self._loaded])
        if self._closed:
            raise not_controller()

    async def wait_until_idle(self) -> None:
        """Wait until the queue is empty and this broker has answered every request. Other brokers
        are not waited for: they may be unreachable until their sessions end."""
        if not self._is_idle():
            future: asyncio.Future[None] = self._tasks.future()
            self._idle_waits.append(future)
            await future

    def close(self, error: ApiError) -> None:
        """End the term. Waiting requests fail with `error`."""
        self._closed = True
        if self._balance_timer is not None:
            self._balance_timer.cancel()
        self._queue.clear()
        self._set_loaded()
        self._channels.close()
        self.ready.close(error)
        self.deleted.close(error)
        self._report_settled()

    def _is_idle(self) -> bool:
        busy = self._queue or self._runner is not None or self._pending_commands
        return self._closed or not (busy or not self._channels.is_idle(self._broker_id))

    def _report_settled(self) -> None:
        if self._idle_waits and self._is_idle():
            for future in self._idle_waits:
                if not future.done():
                    future.set_result(None)
            self._idle_waits.clear()

    # The queue

    async def _run(self) -> None:
        while self._queue:
            await self._process(self._queue.popleft())
            await self._tasks.sleep(0)
        self._runner = None
        self._report_settled()

    async def _process(self, item: Event | QueuedRead) -> None:
        try:
            if callable(item):
                await item()
            else:
                self._handle(item)
        except TERM_ENDED:
            return
        except Exception:
            self._failed()

    def _failed(self) -> None:
        """Log the exception that is being handled, and fail all waiting requests."""
        logger.exception("controller failed; its last events: %s", "; ".join(self._machine.history))
        failure = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "The controller failed; see its log")
        self.ready.fail(failure)
        self.deleted.fail(failure)

    def _handle(self, event: Event) -> None:
        for command in self._machine.handle(event):
            self._execute(command)
        self._notify_waiters(event)

    def elect(
        self, partitions: tuple[TopicPartition, ...], *, unclean: bool
    ) -> Mapping[TopicPartition, int | ApiError]:
        """Start electing leaders of at most a chunk of partitions; see `ElectionResults`."""
        results: Mapping[TopicPartition, int | ApiError] = {}
        for command in self._machine.handle(Elect(partitions, unclean)):
            if isinstance(command, ElectionResults):
                results = command.results
            else:
                self._execute(command)
        return results

    def may_elect_unclean(self, topic: str | None) -> None:
        """Unclean leader elections have been enabled in a topic, or (None) by the broker's default:
        elect leaders where that helps."""
        self.reevaluate(
            list(self.cluster.all_partitions() if topic is None else self._all_of(topic))
        )

    def reevaluate(self, partitions: Sequence[TopicPartition]) -> None:
        """Check again whether these partitions need another leader or ISR."""
        for chunk in chunks(partitions):
            self.put(ReevaluatePartitions(chunk, (), ()))

    def _all_of(self, name: str) -> list[TopicPartition]:
        topic = self.cluster.topics.get(name)
        return [] if topic is None else topic.all_partitions()

    def _balance_due(self) -> None:
        self.put(self._give_back)

    async def _give_back(self) -> None:
        """Elect preferred replicas, if too many of them do not lead
        (`auto.leader.rebalance.enable`)."""
        # imported in clusters only
        from kavka.server.controller.leader_balance import to_give_back

        assert self._balance is not None
        interval_s, percentage = self._balance
        self._balance_timer = self._tasks.call_later(interval_s, self._balance_due)
        found = await run_rest(self._tasks, to_give_back(self.cluster, percentage))
        if found:
            logger.info("electing the preferred replicas of %d partitions", len(found))
        for chunk in chunks(found):
            self.elect(chunk, unclean=False)
            await self._tasks.sleep(0)

    async def alter_isrs(
        self, requests: Mapping[TopicPartition, RequestedIsr]
    ) -> Mapping[TopicPartition, StoredState | ApiError]:
        """Change ISRs as their leaders ask (AlterPartition). Returns the partitions' present
        states, or errors. ControllerMoved, or another of TERM_ENDED: no outcome is known."""
        writes, results = decide_isrs(self.cluster, requests)
        return {**results, **(await self._write_isrs(writes) if writes else {})}

    async def _write_isrs(
        self, writes: Sequence[StateWrite]
    ) -> Mapping[TopicPartition, StoredState | ApiError]:
        is_queued: asyncio.Future[None] = self._tasks.future()
        self._state_writes[is_queued] = None
        try:
            written, failed = await self.store.write_states(writes)
            self.put(IsrsWritten(written.stored))
            if failed:
                self._reload(failed)
        finally:
            del self._state_writes[is_queued]
            is_queued.set_result(None)
        refused = ApiError(ErrorCode.INVALID_UPDATE_VERSION)
        return {**written.stored, **dict.fromkeys(failed, refused)}

    async def until_states_are_written(self) -> None:
        """Wait for all writes of partition states that are in progress."""
        if self._state_writes:
            await asyncio.wait(list(self._state_writes))

    def _execute(self, command: Command) -> None:
        match command:
            case Send():
                self._channels.send(command)
            case WriteStates():
                write = self.spawn(self._write_states(command), name="write of partition states")
                self._state_writes[write] = None
                write.add_done_callback(self._state_writes.pop)
            case Enqueue():
                self.put(command.event)
            case FinishReassignments():
                self._finish_soon(command)
            case RemoveTopic():
                self.spawn(self._remove_topic(command.name), name="removal of a topic")
            case DeleteMarks():
                for name in command.names:
                    self.deleted.complete_all(name, None)
                self.spawn(self.store.delete_marks(command.names), name="removal of marks")
            case Warn():
                logger.warning("controller epoch %d: %s", self.cluster.epoch, command.text)

    def spawn(self, work: Coroutine[Any, Any, None], *, name: str) -> asyncio.Task[None]:
        """Run `work` in a task beside the queue; its result comes back as an event."""

        async def run() -> None:
            try:
                await work
            except TERM_ENDED:
                return
            except Exception:
                self._failed()
            finally:
                self._pending_commands -= 1
                self._report_settled()

        self._pending_commands += 1
        return self._tasks.spawn(run(), name=f"controller's {name}")

    def _notify_waiters(self, event: Event) -> None:
        match event:
            case UpdateMetadataResponseReceived():
                for topic in event.request.topic_states:
                    self.ready.check(topic.topic_name)
            case TopicRead() | ReassignmentsStored():
                self.ready.check(event.name)
            case TopicsRemoved():
                for name in event.names:
                    self.deleted.complete_all(name, None)
                    self.ready.complete_all(name, ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))

        if isinstance(event, ReassignmentsStored | TopicRead | TopicsMarked | TopicsRemoved):
            self.on_assignments()

    # What commands do

    async def _write_states(self, command: WriteStates) -> None:
        written, failed = await self.store.write_states(command.writes)
        self.put(written)
        if failed:
            self._reload(failed)

    def _reload(self, failed: Sequence[TopicPartition]) -> None:
        """Read partitions again whose states could not be written, because something else has
        changed them."""
        logger.warning(
            "states of %s and %d more partitions changed meanwhile; reading them again",
            failed[0],
            len(failed) - 1,
        )
        names = dict.fromkeys(tp.topic for tp in failed)
        self.put(partial(self._load_partitions, tuple(names)))

    def _finish_soon(self, command: FinishReassignments) -> None:
        """Write the end of reassignments to the topic's node: several together, since the node has
        all partitions of the topic, and thousands may be reassigned at the same time."""
        name = command.name
        if name in self._ends:
            self._ends[name].update(command.changes)
            return
        self._ends[name] = dict(command.changes)
        self.spawn(self._finish(name), name="end of reassignments")

    async def _finish(self, name: str) -> None:
        try:
            while self._ends[name]:
                partitions = len(self._all_of(name))
                await self._tasks.sleep(partitions * GATHERING_S_PER_PARTITION)
                changes, self._ends[name] = self._ends[name], {}
                ended = await self._write_ends(name, changes)
                self.put(ReassignmentsStored(name, ended))
        except NoNode:
            return  # the topic was deleted
        finally:
            del self._ends[name]

    async def _write_ends(self, name: str, changes: Ends) -> tuple[int, ...]:
        """Put the new assignments (`changes`: before, after) into a topic's node, except for
        partitions of which another reassignment has begun since. Returns the partitions whose
        reassignment has ended. NoNode."""
        ended: dict[int, Assignment] = {}

        async def plan(before: TopicAssignment) -> TopicAssignment:
            ended.clear()
            for index, (during, after) in changes.items():
                if index in before.replicas and assignment_of(before, index) == during:
                    ended[index] = after
            return with_assignments(before, ended)

        await self.store.change_assignment(name, plan)
        return tuple(ended)

    async def _remove_topic(self, name: str) -> None:
        await self.until_states_are_written()  # they may create nodes of this topic
        await self.store.remove_topic(name)  # the watch on all topics then fires
        logger.info("deleted topic %s", name)

    # Reads of the tree. Each handles its events before the next queue item runs.

    async def _load_brokers(self) -> None:
        self._registered = await self.store.brokers(self._watch(self._load_brokers))
        self._open_channels(self._registered)
        self._is_started = True
        if self._first_contacts:
            await self._first_contact()
        await self._brokers_changed()

    async def _first_contact(self) -> None:
        """Before the first decision of a term: wait until it is known which of the registered
        brokers accept connections. If all brokers have died and some have started again, one that
        is still dead, but registered, would otherwise count as the only one that was never away;
        and the partitions that it led would have no leader until it is back."""
        # imported in clusters only
        from kavka.server.controller.reachability import wait_until_known

        contacts, self._first_contacts = self._first_contacts, []
        await wait_until_known(contacts, self._tasks)

    async def _brokers_changed(self) -> None:
        """Registered brokers that refuse connections count as dead: the address of a process that
        has ended does that at once, while its session lasts for seconds. If such a broker lives
        after all, its requests are fenced by their epochs."""
        live = {
            broker_id: broker
            for broker_id, broker in self._registered.items()
            if broker_id not in self._refusing
        }
        self._handle(BrokersChanged(live))

    def _reachability_changed(self, broker_id: int, is_reachable: bool) -> None:
        if is_reachable:
            logger.info("broker %d accepts connections again", broker_id)
            self._refusing.pop(broker_id, None)
        else:
            logger.warning("broker %d refuses connections: it counts as dead", broker_id)
            self._refusing[broker_id] = None
        self.put(self._brokers_changed)

    def _open_channels(self, brokers: Mapping[int, LiveBroker]) -> None:
        """Open a channel to each other broker. One that has registered again gets a new channel,
        because the requests in the old one were for its earlier process."""
        if self._connect is None:
            return
        # imported in clusters only
        from kavka.server.controller.reachability import Reachability
        from kavka.server.controller.remote_broker import RemoteBroker

        for broker_id, epoch in list(self._connected.items()):
            if broker_id not in brokers or brokers[broker_id].epoch != epoch:
                self._channels.close_one(broker_id)
                self._refusing.pop(broker_id, None)
                del self._connected[broker_id]
        for broker_id, broker in brokers.items():
            if broker_id != self._broker_id and broker_id not in self._connected:
                client = self._connect(broker)
                if client is None:
                    logger.error("broker %d has no inter-broker listener", broker_id)
                    continue
                remote = RemoteBroker(client, self._tasks)
                if self._fast_failover:
                    changed = partial(self._reachability_changed, broker_id)
                    remote.reachability = Reachability(client, changed, self._tasks)
                    if not self._is_started:
                        self._first_contacts.append(remote.reachability.known)
                self._channels.open(broker_id, remote, remote.close)
                self._connected[broker_id] = broker.epoch

    async def _load_topics(self) -> None:
        names = await self.store.topic_names(self._watch(self._load_topics))
        known = self.cluster.topics
        there = frozenset(names)
        if deleted := tuple(name for name in known if name not in there):
            self._handle(TopicsRemoved(deleted))
        if new := [name for name in names if name not in known]:
            is_first = not self._loaded.done()
            await self._load_partitions(new, await self.store.marked_topics() if is_first else ())

    async def _load_partitions(self, names: Sequence[str], marked: Collection[str] = ()) -> None:
        """Read topics and their partitions: new ones, or ones that another process changed.
        `marked`: see `TopicsFound`."""
        for start in range(0, len(names), CHUNK_PARTITIONS):
            part = names[start : start + CHUNK_PARTITIONS]
            topics = await self.store.topics(part, self._topic_changed)
            ids: dict[str, uuid.UUID] = {}
            for name, (assignment, _) in topics.items():
                ids[name] = assignment.topic_id or await self._assign_topic_id(name, assignment)
            if self._unclean is not None:
                await self._unclean.refresh(topics)
            self._handle(TopicsFound(ids, marked))
            await self._load_states(topics)

    def _topic_changed(self, event: WatchEvent) -> None:
        """Read the changed node of a topic: partitions were added or are being reassigned."""
        if event.kind is WatchKind.DATA_CHANGED:  # a deletion fires the watch on all topics
            name = event.path.rpartition("/")[2]
            self.put(partial(self._load_changes, name))

    async def _load_changes(self, name: str) -> None:
        """Read the partitions of one topic that changed; the others are left alone."""
        topics = await self.store.topics([name], self._topic_changed)
        changed = {
            name: StoredTopic(self.cluster.changed_partitions(name, assignment), version)
            for name, (assignment, version) in topics.items()
        }
        await self._load_states(changed)

    async def _load_states(self, topics: Mapping[str, StoredTopic]) -> None:
        """Read the states of partitions, and handle what was found."""
        assignments = {name: topic.assignment for name, topic in topics.items()}
        async for found in self.store.partitions(assignments):
            self._handle(found)
            await self._tasks.sleep(0)
        for name, topic in topics.items():
            self._handle(TopicRead(name, topic.version))

    async def _assign_topic_id(self, name: str, assignment: TopicAssignment) -> uuid.UUID:
        """Store an id for a topic created by a broker older than KIP-516."""
        topic_id = random_uuid(self._random)
        await self.store.set_topic_id(name, replace(assignment, topic_id=topic_id))
        return topic_id

    async def _load_marks(self) -> None:
        names = await self.store.marked_topics(self._watch(self._load_marks))
        if names:
            self._handle(TopicsMarked(tuple(names)))

    async def _load_log_dir_events(self) -> None:
        events = await self.store.log_dir_events(self._watch(self._load_log_dir_events))
        if events:
            self._handle(LogDirsFailed(tuple(dict.fromkeys(events.values()))))
            await self.store.delete_log_dir_events(list(events))

    async def _end_loading(self) -> None:
        self._set_loaded()

    def _set_loaded(self) -> None:
        if not self._loaded.done():
            self._loaded.set_result(None)

    def _watch(self, step: QueuedRead) -> Callable[[WatchEvent], None]:
        return lambda event: self.put(step)
