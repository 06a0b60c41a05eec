"""What the coordinators of groups and of transactions have in common: machines by partition.

A coordinator has a topic of its own. Whatever it coordinates lives in one partition of it, by the
hash of its name, and whoever leads the partition coordinates it, once it has replayed the
partition into a machine.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar

from kavka.server.cluster.metadata_cache import BrokerImage, MetadataCache
from kavka.server.config.live import LiveSettings
from kavka.server.config.lone_broker import not_replicated
from kavka.server.controller.controller import Controller
from kavka.server.controller.topic_validation import NewTopic
from kavka.server.replica.manager import ReplicaManager
from kavka.server.replica.replica import Replica
from kavka.server.runtime.java_hash import java_hash
from kavka.server.runtime.lazy_imports import import_in_turns
from kavka.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from kavka.log.journal import Machine, Made, Ticket
    from kavka.server.coordinators.journal_runner import JournalRunner, Parts

    M = TypeVar("M", bound=Machine)
else:
    M = TypeVar("M")

logger = logging.getLogger(__name__)

T = TypeVar("T")

LOADS_TOLD_S: Final = 30
"""For how long the metrics tell what a load took, as Apache Kafka."""

LOADS_KEPT_MAX: Final = 1000
"""Loads that the metrics go by, the latest."""

CREATE_TIMEOUT_MS: Final = 15_000

REFUSAL_TOLD_S: Final = 300.0
"""How long it is not said again that the topic can't be made; clients ask ten times a second."""

LED_A_STEP: Final = 10
"""Partitions that are taken over before the loop gets a turn."""

_CLOSED: Final = ErrorCode.COORDINATOR_NOT_AVAILABLE


def _nothing() -> None:
    """Nobody wants to know."""


class Coordinator(ABC, Generic[M]):
    """All machines of one kind that this broker runs."""

    topic: ClassVar[str]
    """Where they live."""

    holds: ClassVar[str]
    """What is coordinated, for the log."""

    modules: ClassVar[Sequence[str]]
    """What a machine needs, imported once the topic is made: see `server.runtime.lazy_imports`."""

    factor_setting: ClassVar[str]
    """The setting that says how many replicas the topic has."""

    def __init__(
        self,
        live: LiveSettings,
        replicas: ReplicaManager,
        metadata: MetadataCache,
        controller: Controller,
    ) -> None:
        self._live: Final = live
        self._replicas: Final = replicas
        self._metadata: Final = metadata
        self._controller: Final = controller
        self._parts: Parts | None = None
        self._runners: dict[int, JournalRunner[M]] = {}
        self._loads: deque[tuple[float, int]] = deque(maxlen=LOADS_KEPT_MAX)
        self._closed = False
        self._making: asyncio.Task[None] | None = None
        self._defers = False
        """Whether `modules` are still to be imported before anything is led."""
        self._deferred: dict[int, Replica] = {}
        self._refusal_told_s: float | None = None
        self._problem: str | None = None
        self.on_replayed: Callable[[], object] = _nothing
        """Called after each slice of a partition that is replayed."""
        replicas.role_listeners[self.topic] = self._role_changed

    @abstractmethod
    def _new_topic(self) -> NewTopic:
        """The topic as it is made."""

    @abstractmethod
    def _runner(self, replica: Replica, parts: Parts) -> JournalRunner[M]:
        """What runs the machine of a partition, with `_loaded` as its `on_loaded`."""

    def _resigned(self, partition: int) -> None:
        """Told of a partition that is not coordinated here any more."""

    # -- asking ---------------------------------------------------------------------------

    @property
    def partition_count(self) -> int:
        """Partitions of the topic, also before it is made."""
        topic = self._metadata.image.topics.get(self.topic)
        return len(topic.partitions) if topic else self._new_topic().num_partitions

    def partition_of(self, name: str) -> int:
        """The partition that a name is kept in."""
        return java_hash(name) % self.partition_count

    def call(self, name: str, ask: Callable[[M, Ticket, int], Made]) -> Any:
        """Have the machine of a name asked, with the time in ms. The answer, or, if that comes
        later, something to await. ApiError from here or from there: NOT_COORDINATOR,
        COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, and what the machine refuses."""
        return self._runner_of(name).call(ask)

    def read(self, name: str, look: Callable[[M, int], T]) -> T | Awaitable[T]:
        """What `look` finds in the machine of a name, once all that it rests on is committed. It
        may set deadlines, as it is told the time in ms, but has nothing appended."""
        return self._runner_of(name).read(look)

    def read_at_once(self, name: str, look: Callable[[M, int], T]) -> T | None:
        """The same; None if there is anything to wait for, or to refuse, before it is looked at."""
        runner = self.runner_of(name)
        return None if runner is None else runner.read_at_once(look)

    def runner_of(self, name: str) -> JournalRunner[M] | None:
        """What runs the machine of a name, if that is here: the same as long as it is active and
        the metadata has not changed."""
        return self._runners.get(java_hash(name) % self.partition_count)

    def _runner_of(self, name: str) -> JournalRunner[M]:
        runner = self.runner_of(name)
        if runner is None:
            if self._deferred and self.partition_of(name) in self._deferred:
                raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            raise ApiError(_CLOSED if self._closed else ErrorCode.NOT_COORDINATOR)
        return runner

    @property
    def runners(self) -> Sequence[JournalRunner[M]]:
        """Of the partitions that this broker leads, loaded or not."""
        return list(self._runners.values())

    @property
    def is_loading(self) -> bool:
        """Whether some partition is being loaded."""
        loading = any(not one.is_active and not one.failed for one in self._runners.values())
        return loading or bool(self._deferred)

    def shards(self) -> Sequence[M]:
        """The machines of all partitions of this broker; ApiError while some are being loaded."""
        if self.is_loading:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return [runner.machine for runner in self._runners.values() if runner.is_active]

    # -- the topic ------------------------------------------------------------------------

    def coordinator_of(self, name: str) -> BrokerImage | None:
        """Who leads the partition of a name; None while that is not known."""
        image = self._metadata.image
        topic = image.topics.get(self.topic)
        partition = None if topic is None else topic.partition(self.partition_of(name))
        return None if partition is None else image.brokers.get(partition.leader)

    @property
    def problem(self) -> str | None:
        """Why nothing is coordinated: the topic could not be made when it was needed, and is still
        not there."""
        return None if self.topic in self._metadata.image.topics else self._problem

    async def make_topic(self) -> None:
        """Have the topic made, if it is not there. That it can't be now is for the log: whoever
        needs it asks again."""
        if self._making is None:
            self._making = self._replicas.tasks.spawn(
                self._make_topic(), name=f"topic of the {self.holds}"
            )
        await asyncio.shield(self._making)

    async def _make_topic(self) -> None:
        self._defers = True
        try:
            results = await self._controller.create_topics(
                [self._new_topic()], timeout_ms=CREATE_TIMEOUT_MS, validate_only=False
            )
            code, message, *_ = results[self.topic]
            if code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                self._problem = self._refusal_told_s = None
                await import_in_turns(self._replicas.tasks, self.modules)
            else:
                self._refused(code, message or code.name)
        finally:
            self._defers = False
            self._making = None
        await self._lead_deferred()

    def _refused(self, code: ErrorCode, why: str) -> None:
        """The topic could not be made."""
        if code == ErrorCode.INVALID_REPLICATION_FACTOR:
            factor = self._new_topic().replication_factor
            why = not_replicated(self.factor_setting, factor)
        self._problem = f"{self.holds} are not served, as {self.topic} can't be created: {why}"
        now_s = self._replicas.clock.monotonic_s()
        told_s = self._refusal_told_s
        if told_s is None or now_s - told_s >= REFUSAL_TOLD_S:
            self._refusal_told_s = now_s
            logger.error("%s", self._problem)

    async def _lead_deferred(self) -> None:
        """Lead what this broker was made the leader of in the meantime."""
        while self._deferred:
            for index in list(self._deferred)[:LED_A_STEP]:
                self._role_changed(self._deferred.pop(index))
            await self._replicas.tasks.sleep(0)

    def _replication_factor(self, setting: str, value: int) -> int:
        """Of the topic: the setting's value if it was given one, else 1."""
        # where it was not there is no second broker, nor will there be one
        return value if setting in self._live.now.given else 1

    # -- leading --------------------------------------------------------------------------

    def _role_changed(self, replica: Replica) -> None:
        """A partition of the topic is led by this broker now, or not any more."""
        index = replica.log.partition
        runner = self._runners.get(index)
        if runner is not None:
            if runner.leads:
                return
            del self._runners[index]
            runner.close(ErrorCode.NOT_COORDINATOR)
            logger.info(
                "%s-%d: unloaded its %s, this broker is no longer their coordinator",
                *replica.key,
                self.holds,
            )
            self._resigned(index)
        if not self._closed and replica.partition.is_leader and not replica.offline:
            self._lead(replica)

    def _lead(self, replica: Replica) -> None:
        if self._defers:
            self._deferred[replica.log.partition] = replica
            return
        # not before there is something to coordinate: see `kavka.server.runtime.lazy_imports`
        from kavka.server.coordinators.journal_runner import parts_of

        if self._parts is None:
            self._parts = parts_of(self._replicas, lambda: self.on_replayed())
        runner = self._runners[replica.log.partition] = self._runner(replica, self._parts)
        runner.begin()

    def _loaded(self, runner: JournalRunner[M]) -> None:
        loaded = runner.loaded
        if loaded is not None:
            self._loads.append((self._replicas.clock.monotonic_s(), loaded.took_ms))
        if loaded is not None and loaded.records:
            logger.info(
                "%s-%d: loaded %d records of %s, %d bytes, in %d ms (%d ms queued)",
                *runner.replica.key,
                loaded.records,
                self.holds,
                loaded.size_bytes,
                loaded.took_ms,
                loaded.waited_ms,
            )

    def load_ms(self, now_s: float) -> list[int]:
        """How many ms each partition took that was loaded lately; `now_s` is monotonic."""
        return [took_ms for at_s, took_ms in self._loads if now_s - at_s <= LOADS_TOLD_S]

    def close(self) -> None:
        """The broker stops: nobody is answered any more."""
        self._closed = True
        runners, self._runners = self._runners, {}
        for index, runner in runners.items():
            runner.close(_CLOSED)
            self._resigned(index)
