"""One term of this broker as controller: a queue of events, the machine, and what it asks for.

All that a controller knows lives and dies with its term; a broker that is elected again begins
with an empty one and reads the tree.
"""

from __future__ import annotations

import logging
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kavka.seams import Random, Tasks
from kavka.server.cluster.control_messages import TopicPartition
from kavka.server.controller.channels import BrokerPort, Channels
from kavka.server.controller.events import (
    CHUNK_PARTITIONS,
    BrokersChanged,
    Command,
    DirectoriesFailed,
    Elect,
    Elected,
    Event,
    ForgetMarks,
    Post,
    RemoveTopic,
    Report,
    Send,
    TopicsFound,
    TopicsGone,
    TopicsMarked,
    UpdateMetadataAnswered,
    WriteStates,
)
from kavka.server.controller.partition_machine import PartitionMachine
from kavka.server.controller.topic_waiters import Waiters
from kavka.server.controller.tree_store import ControllerMoved, Store, Term
from kavka.wire.errors import ApiError, ErrorCode
from kavka.zktree.api import (
    ConnectionLost,
    Coordination,
    SessionExpired,
    WatchEvent,
    WatchKind,
)
from kavka.zktree.paths import TopicAssignment, random_uuid

if TYPE_CHECKING:
    import asyncio

logger = logging.getLogger(__name__)

QUEUED_EVENTS_MAX: Final = 100_000
"""Events in the queue. Each stands for a chunk of partitions or an answer, so only a controller
that runs away from itself gets there."""

OVER: Final = (ControllerMoved, ConnectionLost, SessionExpired)
"""What ends a term. Whoever raises one of them has told the `Controller` already."""

Step: TypeAlias = Callable[[], Awaitable[None]]
"""Something to do in its turn that has to ask the tree first."""


class ActiveController:
    """The controller while it is one."""

    def __init__(
        self,
        term: Term,
        coordination: Coordination,
        *,
        broker_id: int,
        port: BrokerPort,
        listener: str,
        on_moved: Callable[[], None],
        tasks: Tasks,
        random: Random,
    ) -> None:
        self.store = Store(coordination, term, on_moved)
        self.ready = Waiters(tasks)
        """For partitions of topics to have leaders that clients can see."""
        self.gone = Waiters(tasks)
        """For topics to be deleted."""
        self._machine = PartitionMachine(broker_id, term.epoch, listener=listener)
        self.cluster = self._machine.cluster
        self._tasks = tasks
        self._random = random
        self._queue: deque[Event | Step] = deque()
        self._runner: asyncio.Task[None] | None = None
        self._under_way = 0
        """Commands that have not given their result yet."""
        self._settled: list[asyncio.Future[None]] = []
        self._closed = False
        self._channels = Channels(self.put, tasks)
        self._channels.open(broker_id, port)
        for step in (
            self._load_brokers,
            self._load_topics,
            self._load_marks,
            self._load_failed_directories,
        ):
            self.put(step)

    def put(self, item: Event | Step) -> None:
        """Handle an event, or take a step, after what waits already."""
        if self._closed:
            return
        if len(self._queue) >= QUEUED_EVENTS_MAX:
            raise OverflowError("the controller's queue is full")
        self._queue.append(item)
        if self._runner is None:
            self._runner = self._tasks.spawn(self._run(), name="controller")

    async def settled(self) -> None:
        """Wait until nothing is left to do: every broker has been told everything."""
        if not self._is_settled():
            future: asyncio.Future[None] = self._tasks.future()
            self._settled.append(future)
            await future

    def close(self, error: ApiError) -> None:
        """End the term. Requests that wait fail with `error`."""
        self._closed = True
        self._queue.clear()
        self._channels.close()
        self.ready.fail(error)
        self.gone.fail(error)
        self._report_settled()

    def _is_settled(self) -> bool:
        busy = self._queue or self._runner is not None or self._under_way
        return self._closed or not (busy or not self._channels.idle)

    def _report_settled(self) -> None:
        if self._settled and self._is_settled():
            for future in self._settled:
                if not future.done():
                    future.set_result(None)
            self._settled.clear()

    # The queue

    async def _run(self) -> None:
        while self._queue:
            await self._take(self._queue.popleft())
            await self._tasks.sleep(0)
        self._runner = None
        self._report_settled()

    async def _take(self, item: Event | Step) -> None:
        try:
            if callable(item):
                await item()
            else:
                self._handle(item)
        except OVER:
            return
        except Exception:
            self._failed()

    def _failed(self) -> None:
        """Report the exception that is being handled, and let nobody wait for what went wrong."""
        logger.exception("controller failed; its last steps: %s", "; ".join(self._machine.story))
        failure = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "The controller failed; see its log")
        self.ready.fail(failure)
        self.gone.fail(failure)

    def _handle(self, event: Event) -> None:
        for command in self._machine.handle(event):
            self._execute(command)
        self._tell_waiters(event)

    def elect(
        self, partitions: tuple[TopicPartition, ...], *, unclean: bool
    ) -> Mapping[TopicPartition, int | ApiError]:
        """Begin to elect leaders for at most a chunk of partitions; see `Elected`."""
        results: Mapping[TopicPartition, int | ApiError] = {}
        for command in self._machine.handle(Elect(partitions, unclean)):
            if isinstance(command, Elected):
                results = command.results
            else:
                self._execute(command)
        return results

    def _execute(self, command: Command) -> None:
        match command:
            case Send():
                self._channels.send(command)
            case WriteStates():
                self._begin(self._write_states(command), name="write of partition states")
            case Post():
                self.put(command.event)
            case RemoveTopic():
                self._begin(self._remove_topic(command.name), name="removal of a topic")
            case ForgetMarks():
                for name in command.names:
                    self.gone.end(name, None)
                self._begin(self.store.forget_marks(command.names), name="removal of marks")
            case Report():
                logger.warning("controller epoch %d: %s", self.cluster.epoch, command.text)

    def _begin(self, work: Coroutine[Any, Any, None], *, name: str) -> None:
        """Do something beside the queue; what comes out of it comes back as an event."""

        async def run() -> None:
            try:
                await work
            except OVER:
                return
            except Exception:
                self._failed()
            finally:
                self._under_way -= 1
                self._report_settled()

        self._under_way += 1
        self._tasks.spawn(run(), name=f"controller's {name}")

    def _tell_waiters(self, event: Event) -> None:
        match event:
            case UpdateMetadataAnswered():
                for topic in event.request.topic_states:
                    self.ready.check(topic.topic_name)
            case TopicsGone():
                for name in event.names:
                    self.gone.end(name, None)
                    self.ready.end(name, ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))

    # What commands do

    async def _write_states(self, command: WriteStates) -> None:
        written, failed = await self.store.write_states(command.writes)
        self.put(written)
        if failed:
            logger.warning(
                "states of %s and %d more partitions changed meanwhile; reading them again",
                failed[0],
                len(failed) - 1,
            )
            names = dict.fromkeys(where.topic for where in failed)
            self.put(partial(self._load_partitions, tuple(names)))

    async def _remove_topic(self, name: str) -> None:
        await self.store.remove_topic(name)  # of which the watch on the topics tells
        logger.info("deleted topic %s", name)

    # What the tree says. A step handles what it finds in its own turn, so the next one knows it.

    async def _load_brokers(self) -> None:
        brokers = await self.store.brokers(self._watch(self._load_brokers))
        self._handle(BrokersChanged(brokers))

    async def _load_topics(self) -> None:
        names = await self.store.topic_names(self._watch(self._load_topics))
        known = self.cluster.topics
        there = frozenset(names)
        if gone := tuple(name for name in known if name not in there):
            self._handle(TopicsGone(gone))
        if new := [name for name in names if name not in known]:
            await self._load_partitions(new)

    async def _load_partitions(self, names: Sequence[str]) -> None:
        """Read topics with their partitions, be they new or changed by others."""
        for start in range(0, len(names), CHUNK_PARTITIONS):
            part = names[start : start + CHUNK_PARTITIONS]
            assignments = await self.store.assignments(part, self._topic_changed)
            ids: dict[str, uuid.UUID] = {}
            for name, assignment in assignments.items():
                ids[name] = assignment.topic_id or await self._give_id(name, assignment)
            self._handle(TopicsFound(ids))
            async for found in self.store.partitions(assignments):
                self._handle(found)
                await self._tasks.sleep(0)

    def _topic_changed(self, event: WatchEvent) -> None:
        """A topic's node was written: it has more partitions, or they are to be elsewhere."""
        if event.kind is WatchKind.DATA_CHANGED:  # the watch on all topics tells of a deletion
            name = event.path.rpartition("/")[2]
            self.put(partial(self._load_changes, name))

    async def _load_changes(self, name: str) -> None:
        """Read what is new about one topic; its other partitions go on undisturbed."""
        assignments = await self.store.assignments([name], self._topic_changed)
        changed = {name: self.cluster.changed(name, found) for name, found in assignments.items()}
        async for partitions in self.store.partitions(changed):
            self._handle(partitions)
            await self._tasks.sleep(0)

    async def _give_id(self, name: str, assignment: TopicAssignment) -> uuid.UUID:
        """Store an id for a topic made by a broker from before KIP-516."""
        topic_id = random_uuid(self._random)
        await self.store.set_topic_id(name, replace(assignment, topic_id=topic_id))
        return topic_id

    async def _load_marks(self) -> None:
        names = await self.store.marked_topics(self._watch(self._load_marks))
        if names:
            self._handle(TopicsMarked(tuple(names)))

    async def _load_failed_directories(self) -> None:
        events = await self.store.failed_directories(self._watch(self._load_failed_directories))
        if events:
            self._handle(DirectoriesFailed(tuple(dict.fromkeys(events.values()))))
            await self.store.forget_failed_directories(list(events))

    def _watch(self, step: Step) -> Callable[[WatchEvent], None]:
        return lambda event: self.put(step)
