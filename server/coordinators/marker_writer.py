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
from collections.abc import Callable, Container, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from kavka.log.partition_log import Appended
from kavka.seams import Clock, Tasks, Timer
from kavka.server.cluster.metadata_cache import GROUP_TOPIC
from kavka.server.coordinators.group_coordinator import GroupCoordinator
from kavka.server.coordinators.transaction_coordinator import TransactionCoordinator
from kavka.server.replica.batch_admission import check_in_sync
from kavka.server.replica.manager import ReplicaManager
from kavka.server.replica.replica import Replica
from kavka.server.runtime.purgatory import Purgatory
from kavka.server.runtime.rate_limited_log import LogLimit
from kavka.wire.control_records import Marker
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import Slices, each
from kavka.zktree import paths
from kavka.zktree.api import Coordination, CoordinationError, NoNode, WatchEvent

if TYPE_CHECKING:
    from kavka.txncoord.requests import Markers

logger = logging.getLogger(__name__)

SLICE_S: Final = 0.002
"""How long markers are written before the loop gets a turn."""

PLACES_A_STEP: Final = 50
"""Partitions that are looked at again before it is asked whether the slice is over."""

_OVER: Final = object()

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


class _Leadership:
    """The time that this broker has the coordinators of one partition of their topic."""

    __slots__ = ("endings", "is_over")

    def __init__(self) -> None:
        self.endings: dict[str, _Ending] = {}
        """By transactional id."""
        self.is_over = False


class _Ending:
    """A transaction that ends."""

    __slots__ = ("_is_replaced", "coordinator_epoch", "left", "markers", "leadership", "written")

    def __init__(self, markers: Markers, coordinator_epoch: int, leadership: _Leadership) -> None:
        self.markers = markers
        self.coordinator_epoch = coordinator_epoch
        self.leadership = leadership
        self.left: Final = dict.fromkeys(markers.partitions)
        """The partitions that have no marker yet that is safe."""
        self.written: dict[Place, Written] = {}
        """Markers that are not safe yet."""
        self._is_replaced = False

    @property
    def is_dropped(self) -> bool:
        """Whether nobody cares any more."""
        return self._is_replaced or self.leadership.is_over

    def drop(self) -> None:
        self._is_replaced = True
        self.forget()

    def forget(self) -> None:
        """It has ended, or is dropped."""
        del self.leadership.endings[self.markers.transactional_id]


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
        self._leaderships: Final[dict[int, _Leadership]] = {}
        """By partition of the coordinators' topic."""
        self._queue: Final[deque[Slices[None]]] = deque()
        """What there is to do, one after the other."""
        self._is_scheduled = False
        self._waiting: Final[dict[Place, dict[_Ending, None]]] = {}
        self.waiting = 0
        """Markers that can't be written yet, or are not safe yet."""
        self._watches: Final[dict[Place, asyncio.Future[Any]]] = {}
        self._asked: Final[dict[str, None]] = {}
        self._retries: dict[Place, None] = {}
        self._timer: Timer | None = None
        self._delays: Final = LogLimit(logger, logging.INFO, "markers that wait", self._tasks)

    def send(self, markers: Markers, coordinator_epoch: int) -> None:
        """Write markers, in the next turn of the loop, and tell the coordinator when all are safe.
        What else was to be written for the transactional id is not any more."""
        name = markers.transactional_id
        partition = self._transactions.partition_of(name)
        leadership = self._leaderships.get(partition)
        if leadership is None:
            leadership = self._leaderships[partition] = _Leadership()
        if (before := leadership.endings.get(name)) is not None:
            self._drop(before)
        ending = leadership.endings[name] = _Ending(markers, coordinator_epoch, leadership)
        self._do(self._write(ending))

    def resigned(self, partition: int) -> None:
        """The coordinators of this partition are elsewhere now: so are their markers."""
        leadership = self._leaderships.pop(partition, None)
        if leadership is not None:
            leadership.is_over = True
            self._do(self._forget(leadership.endings.values()))

    def _drop(self, ending: _Ending) -> None:
        ending.drop()
        self._do(self._forget([ending]))

    def _forget(self, endings: Iterable[_Ending]) -> Slices[None]:
        """Let nothing wait for some that are dropped."""
        for ending in endings:
            for place in ending.markers.partitions:
                waiting = self._waiting.get(place)
                if waiting is not None and ending in waiting:
                    del waiting[ending]
                    self.waiting -= 1
                    if not waiting:
                        self._unwatch(place)
                yield

    # -- writing --------------------------------------------------------------------------

    def _do(self, work: Slices[None]) -> None:
        """Do something in the next turn of the loop, behind what there is to do already."""
        self._queue.append(work)
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._tasks.call_soon(self._work)

    def _work(self) -> None:
        self._is_scheduled = False
        ends_s = self._clock.monotonic_s() + SLICE_S
        queue = self._queue
        while queue:
            try:
                is_over = next(queue[0], _OVER) is _OVER
            except Exception:  # what is behind it has to be done all the same
                logger.exception("work on markers of transactions failed")
                is_over = True
            if is_over:
                queue.popleft()
            if queue and self._clock.monotonic_s() >= ends_s:
                self._schedule()
                return

    def _write(self, ending: _Ending) -> Slices[None]:
        if not ending.left:
            self._complete(ending)
        for place in ending.markers.partitions:
            if ending.is_dropped:
                return
            self._see_to(ending, place)
            if ending.left:
                yield

    def _see_to(self, ending: _Ending, place: Place) -> None:
        """Write a marker, or see whether it has become safe. Whatever fails, it is seen to until
        the transaction has ended there."""
        try:
            self._try(ending, place)
        except Exception:
            name = ending.markers.transactional_id
            logger.exception("the marker of %r for %s-%d could not be seen to", name, *place)
            self._tasks.call_later(RETRY_S, self._do, self._see_again(place, [ending]))

    def _try(self, ending: _Ending, place: Place) -> None:
        if place not in ending.left:
            return
        written = ending.written.pop(place, None)
        if written is None or written.is_lost:
            markers = ending.markers
            producer = markers.producer_id, markers.producer_epoch
            marker = Marker(markers.committed, ending.coordinator_epoch, self._clock.now_ms())
            try:
                written = write_marker(
                    self._replicas, self._groups, place, producer, marker, markers.version
                )
            except Exception as failure:
                self._refused(ending, place, refusal_of(failure, place))
                return
        if written.is_safe:
            self._done(ending, place)
        else:
            ending.written[place] = written
            self._wait(ending, place)

    def _refused(self, ending: _Ending, place: Place, refusal: ApiError) -> None:
        name = ending.markers.transactional_id
        if refusal.code == ErrorCode.TRANSACTION_COORDINATOR_FENCED:
            logger.error("marker of transaction %r is fenced in %s-%d: %s", name, *place, refusal)
            self._drop(ending)
            return
        if refusal.code == ErrorCode.INVALID_PRODUCER_EPOCH:
            # its producer goes on with a newer epoch there: nothing of this transaction is open
            logger.warning("transaction %r needs no marker in %s-%d: %s", name, *place, refusal)
            self._done(ending, place)
            return
        self._delays.line(
            "can't write marker of transaction %r to %s-%d; retrying: %s", name, *place, refusal
        )
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
        if place in ending.left:
            del ending.left[place]
            if not ending.left:
                self._complete(ending)

    def _complete(self, ending: _Ending) -> None:
        """Have the coordinator take down that all markers are written."""
        markers = ending.markers
        if ending.is_dropped:
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
        if ending.is_dropped:
            return
        name = ending.markers.transactional_id
        if failure is None:
            ending.forget()
            return
        logger.warning(
            "can't write completion of transaction %r; retrying: %s",
            name,
            failure,
            exc_info=None if isinstance(failure, ApiError) else failure,
        )
        self._tasks.call_later(RETRY_S, self._complete, ending)

    # -- waiting --------------------------------------------------------------------------

    def _wait(self, ending: _Ending, place: Place) -> None:
        waiting = self._waiting.setdefault(place, {})
        if ending not in waiting:
            waiting[ending] = None
            self.waiting += 1
        if place not in self._watches:
            self._watches[place] = self._purgatory.watch(place, partial(self._changed, place))

    def _changed(self, place: Place) -> None:
        """Something has happened to a partition, or some time has passed."""
        if place in self._waiting:
            self._do(self._see_again(place, self._unwatch(place)))

    def _see_again(self, place: Place, endings: Iterable[_Ending]) -> Slices[None]:
        for ending in endings:
            if not ending.is_dropped:
                self._see_to(ending, place)
            yield

    def _unwatch(self, place: Place) -> Iterable[_Ending]:
        """Who has waited for a partition."""
        endings = self._waiting.pop(place)
        self.waiting -= len(endings)
        self._retries.pop(place, None)
        if (watch := self._watches.pop(place, None)) is not None:
            watch.cancel()
        return endings

    def _retry_later(self, place: Place) -> None:
        self._retries[place] = None
        if self._timer is None:
            self._timer = self._tasks.call_later(RETRY_S, self._retry)

    def _retry(self) -> None:
        self._timer = None
        retries, self._retries = self._retries, {}
        self._do(each(retries, self._changed, PLACES_A_STEP))

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
        except (CoordinationError, ValueError, KeyError) as failure:  # perhaps the node is damaged
            logger.warning("can't find out whether topic %s was deleted: %s", topic, failure)
            self._do(self._with_places_of(topic, self._retry_later))
            return
        finally:
            del self._asked[topic]
        self._do(self._with_places_of(topic, partial(self._look_at, there)))

    def _topic_changed(self, event: WatchEvent) -> None:
        topic = event.path.removeprefix(paths.topic(""))
        self._do(self._with_places_of(topic, self._changed))

    def _with_places_of(self, topic: str, do: Callable[[Place], object]) -> Slices[None]:
        for place in list(self._waiting):
            if place[0] == topic and place in self._waiting:
                do(place)
            yield

    def _look_at(self, there: Container[int], place: Place) -> None:
        is_new = self._replicas.find(*place) is not None  # made since the tree was asked
        if place[1] not in there and not is_new:
            self._do(self._give_up(place, self._unwatch(place)))

    def _give_up(self, place: Place, endings: Iterable[_Ending]) -> Slices[None]:
        for ending in endings:
            if not ending.is_dropped:
                name = ending.markers.transactional_id
                logger.warning(
                    "skipped marker of transaction %r in %s-%d: the topic was deleted", name, *place
                )
                self._done(ending, place)
            yield


def refusal_of(failure: Exception, place: Place) -> ApiError:
    """A failure as that of one marker: the others are written."""
    if isinstance(failure, ApiError):
        return failure
    logger.error("writing a transaction marker to %s-%d failed", *place, exc_info=failure)
    return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
