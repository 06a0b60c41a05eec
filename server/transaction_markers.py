"""Ends transactions where they wrote: a marker in each of their partitions (KIP-98).

The coordinator hands over what it has decided; once each marker is as safe as what it ends, the
coordinator is told. A marker that can't be written waits for its partition: for a leader, say, or
for replicas in sync. It is given up only when the partition is known to be deleted, which the
coordination tree tells: what this broker has been told of the cluster so far may not be all of it.

Nothing of this outlives the process: who leads a partition of coordinators' state hands over
again all that was decided and not completed. There is no limit of its own, as each transaction is
one of those that the coordinator keeps, and each marker here once.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from kavka.log.partition_log import Appended
from kavka.seams import Clock, Tasks, Timer
from kavka.server.coordination import paths
from kavka.server.coordination.api import Coordination, CoordinationError, NoNode, WatchEvent
from kavka.server.delayed import Purgatory
from kavka.server.groups import GroupCoordinator
from kavka.server.log_limit import LogLimit
from kavka.server.replica.admission import check_in_sync
from kavka.server.replica.manager import Replica, ReplicaManager
from kavka.server.topics import GROUP_TOPIC
from kavka.server.transactions import TransactionCoordinator
from kavka.wire.control_records import Marker
from kavka.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from kavka.txncoord.requests import Markers

logger = logging.getLogger(__name__)

SLICE_S: Final = 0.002
"""How long markers are written before the loop gets a turn."""

RETRY_S: Final = 1.0
"""When to try again what nobody tells the end of: that too many files are open, say."""

Place: TypeAlias = tuple[str, int]
"""Topic and partition."""


class Written(NamedTuple):
    """A marker in a log."""

    replica: Replica
    leader_epoch: int
    last_offset: int

    @property
    def is_safe(self) -> bool:
        """Whether no fail-over can take it back."""
        return self.replica.partition.high_watermark > self.last_offset

    @property
    def is_lost(self) -> bool:
        """Whether it may have been taken back: another has led since, or leads."""
        partition = self.replica.partition
        leads = partition.is_leader and partition.leader_epoch == self.leader_epoch
        return self.replica.offline or not leads


def write_marker(
    replicas: ReplicaManager,
    groups: GroupCoordinator,
    place: Place,
    producer: tuple[int, int],
    marker: Marker,
    version: int,
) -> Written:
    """End the transaction of a producer (id and epoch) in one partition, which this broker leads.
    `version`: that of the protocol of the transaction. ApiError."""
    replica = replicas.leader(*place)
    check_in_sync(replica)
    appended: Appended = replica.append_marker(*producer, marker, version)
    topic, index = place
    if topic == GROUP_TOPIC:
        groups.marked(index, *producer, marker.committed)
    return Written(replica, replica.partition.leader_epoch, appended.last_offset)


class _Ending:
    """A transaction that ends."""

    __slots__ = ("coordinator_epoch", "dropped", "left", "markers", "partition")

    def __init__(self, markers: Markers, coordinator_epoch: int, partition: int) -> None:
        self.markers = markers
        self.coordinator_epoch = coordinator_epoch
        self.partition = partition
        """Of the coordinators' topic."""
        self.left: dict[Place, Written | None] = dict.fromkeys(markers.partitions)
        """Where there is no marker yet that is safe."""
        self.dropped = False


class TransactionMarkers:
    """All transactions that end and whose coordinator is here."""

    def __init__(
        self,
        replicas: ReplicaManager,
        groups: GroupCoordinator,
        transactions: TransactionCoordinator,
        coordination: Coordination,
    ) -> None:
        self._replicas: Final = replicas
        self._groups: Final = groups
        self._transactions: Final = transactions
        self._coordination: Final = coordination
        self._clock: Final[Clock] = replicas.clock
        self._tasks: Final[Tasks] = replicas.tasks
        self._purgatory: Final[Purgatory] = replicas.purgatory
        self._endings: Final[dict[str, _Ending]] = {}
        self._queue: Final[deque[tuple[_Ending, Iterator[Place]]]] = deque()
        self._is_scheduled = False
        self._waiting: Final[dict[Place, dict[_Ending, None]]] = {}
        self._watches: Final[dict[Place, asyncio.Future[Any]]] = {}
        self._asked: Final[dict[str, None]] = {}
        self._retries: dict[Place, None] = {}
        self._timer: Timer | None = None
        self._delays: Final = LogLimit(logger, logging.INFO, "markers that wait", self._tasks)

    @property
    def waiting(self) -> int:
        """Markers that can't be written yet, or are not safe yet."""
        return sum(map(len, self._waiting.values()))

    def send(self, markers: Markers, coordinator_epoch: int) -> None:
        """Write markers, in the next turn of the loop, and tell the coordinator when all are safe.
        What else was to be written for the transactional id is not any more."""
        name = markers.transactional_id
        if (before := self._endings.get(name)) is not None:
            self._drop(before)
        ending = _Ending(markers, coordinator_epoch, self._transactions.partition_of(name))
        self._endings[name] = ending
        if not ending.left:
            self._complete(ending)
            return
        self._queue.append((ending, iter(markers.partitions)))
        self._schedule()

    def resigned(self, partition: int) -> None:
        """The coordinators of this partition are elsewhere now: so are their markers."""
        for ending in list(self._endings.values()):
            if ending.partition == partition:
                self._drop(ending)

    def _drop(self, ending: _Ending) -> None:
        ending.dropped = True
        del self._endings[ending.markers.transactional_id]
        for place in ending.left:
            waiting = self._waiting.get(place, {})
            if ending in waiting:
                del waiting[ending]
                if not waiting:
                    self._unwatch(place)

    # -- writing --------------------------------------------------------------------------

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._tasks.call_soon(self._work)

    def _work(self) -> None:
        self._is_scheduled = False
        ends_s = self._clock.monotonic_s() + SLICE_S
        queue = self._queue
        while queue:
            ending, places = queue[0]
            place = None if ending.dropped else next(places, None)
            if place is None:
                queue.popleft()
            else:
                self._see_to(ending, place)
            if queue and self._clock.monotonic_s() >= ends_s:
                self._schedule()
                return

    def _see_to(self, ending: _Ending, place: Place) -> None:
        """Write a marker, or see whether it has become safe."""
        written = ending.left[place]
        if written is None or written.is_lost:
            markers = ending.markers
            producer = markers.producer_id, markers.producer_epoch
            marker = Marker(markers.committed, ending.coordinator_epoch, self._clock.now_ms())
            try:
                written = write_marker(
                    self._replicas, self._groups, place, producer, marker, markers.version
                )
            except Exception as failure:
                ending.left[place] = None
                self._refused(ending, place, refusal_of(failure, place))
                return
            ending.left[place] = written
        if written.is_safe:
            self._done(ending, place)
        else:
            self._wait(ending, place)

    def _refused(self, ending: _Ending, place: Place, refusal: ApiError) -> None:
        name = ending.markers.transactional_id
        if refusal.code == ErrorCode.TRANSACTION_COORDINATOR_FENCED:
            logger.error("%r is coordinated elsewhere, as %s-%d knows: %s", name, *place, refusal)
            self._drop(ending)
            return
        if refusal.code == ErrorCode.INVALID_PRODUCER_EPOCH:
            # its producer goes on with a newer epoch there: nothing of this transaction is open
            logger.warning("%r needs no marker in %s-%d: %s", name, *place, refusal)
            self._done(ending, place)
            return
        self._delays.line("the marker of %r for %s-%d waits: %s", name, *place, refusal)
        self._wait(ending, place)
        if refusal.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self._ask_for(place[0])
        elif self._leads(place):
            self._retry_later(place)

    def _leads(self, place: Place) -> bool:
        """Whether it is not for want of a leader that a marker can't be written."""
        replica = self._replicas.find(*place)
        return replica is not None and replica.partition.is_leader and not replica.offline

    def _done(self, ending: _Ending, place: Place) -> None:
        del ending.left[place]
        if not ending.left:
            self._complete(ending)

    def _complete(self, ending: _Ending) -> None:
        """Have the coordinator take down that all markers are written."""
        markers = ending.markers
        if ending.dropped:
            return
        try:
            answer = self._transactions.call(
                markers.transactional_id,
                lambda shard, ticket, now_ms: shard.markers_written(markers, ticket, now_ms),
            )
        except Exception as failure:
            self._told(ending, failure)
        else:
            if asyncio.isfuture(answer):
                answer.add_done_callback(lambda _: self._told(ending, answer.exception()))
            else:
                self._told(ending, None)

    def _told(self, ending: _Ending, failure: BaseException | None) -> None:
        """The coordinator has taken it down, or will (see `kavka.txncoord.ending`); or can't be
        asked now, and has to be told again."""
        if ending.dropped:
            return
        name = ending.markers.transactional_id
        if failure is None:
            del self._endings[name]
            return
        logger.warning(
            "that %r has ended is not taken down now: %s",
            name,
            failure,
            exc_info=None if isinstance(failure, ApiError) else failure,
        )
        self._tasks.call_later(RETRY_S, self._complete, ending)

    # -- waiting --------------------------------------------------------------------------

    def _wait(self, ending: _Ending, place: Place) -> None:
        self._waiting.setdefault(place, {})[ending] = None
        if place not in self._watches:
            self._watches[place] = self._purgatory.watch(place, partial(self._changed, place))

    def _changed(self, place: Place) -> None:
        """Something has happened to a partition, or some time has passed."""
        waiting = self._waiting.get(place, {})
        self._queue.extend((ending, iter((place,))) for ending in waiting)
        if waiting:
            self._unwatch(place)
            self._schedule()

    def _unwatch(self, place: Place) -> None:
        del self._waiting[place]
        self._retries.pop(place, None)
        self._watches.pop(place).cancel()

    def _retry_later(self, place: Place) -> None:
        self._retries[place] = None
        if self._timer is None:
            self._timer = self._tasks.call_later(RETRY_S, self._retry)

    def _retry(self) -> None:
        self._timer = None
        retries, self._retries = self._retries, {}
        for place in retries:
            self._changed(place)

    # -- deleted topics -------------------------------------------------------------------

    def _ask_for(self, topic: str) -> None:
        """Find out whether a topic is not known yet, or not any more."""
        if topic not in self._asked:
            self._asked[topic] = None
            self._tasks.spawn(self._look_for(topic), name=f"partitions of {topic} to be marked")

    async def _look_for(self, topic: str) -> None:
        try:
            node = await self._coordination.get(paths.topic(topic), self._topic_changed)
            there = paths.decode_topic(node.data).replicas.keys()
        except NoNode:
            there = {}.keys()
        except CoordinationError as failure:
            logger.warning("whether %s has been deleted can't be told: %s", topic, failure)
            for place in self._places_of(topic):
                self._retry_later(place)
            return
        finally:
            del self._asked[topic]
        for place in self._places_of(topic):
            if place[1] not in there:
                self._give_up(place)

    def _topic_changed(self, event: WatchEvent) -> None:
        for place in self._places_of(event.path.removeprefix(paths.topic(""))):
            self._changed(place)

    def _places_of(self, topic: str) -> list[Place]:
        return [place for place in self._waiting if place[0] == topic]

    def _give_up(self, place: Place) -> None:
        endings = list(self._waiting[place])
        self._unwatch(place)
        for ending in endings:
            name = ending.markers.transactional_id
            logger.warning("%r ends without a marker in %s-%d, which is deleted", name, *place)
            self._done(ending, place)


def refusal_of(failure: Exception, place: Place) -> ApiError:
    """A failure as that of one marker: the others are written."""
    if isinstance(failure, ApiError):
        return failure
    logger.error("a marker can't be written to %s-%d", *place, exc_info=failure)
    return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
