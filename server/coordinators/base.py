"""The common base of the group coordinator and the transaction coordinator.

A coordinator keeps its state in an internal topic. Each group or transactional id belongs to one
partition, by the hash of its name. The leader of that partition is its coordinator, once it has
loaded the partition into a state machine.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar

from kavka.server.cluster.internal_topics import InternalTopics
from kavka.server.cluster.metadata_cache import BrokerImage, MetadataCache
from kavka.server.config.live import LiveSettings
from kavka.server.config.standalone_broker import not_replicated
from kavka.server.controller.topic_validation import NewTopic, TopicCreator
from kavka.server.replica.manager import ReplicaManager
from kavka.server.replica.replica import Replica
from kavka.server.runtime.java_hash import java_hash
from kavka.server.runtime.lazy_imports import import_one_by_one
from kavka.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from kavka.log.journal import DecisionOrSteps, Machine, ReplyFuture
    from kavka.server.coordinators.journal_runner import JournalRunner, RunnerResources

    M = TypeVar("M", bound=Machine)
else:
    M = TypeVar("M")

logger = logging.getLogger(__name__)

T = TypeVar("T")

LOAD_METRICS_WINDOW_S: Final = 30
"""The time window of the load time metrics, as in Apache Kafka."""

LOADS_KEPT_MAX: Final = 1000
"""The number of latest loads that the metrics are computed from."""

CREATE_TIMEOUT_MS: Final = 15_000

CREATE_FAILURE_LOG_PERIOD_S: Final = 300.0
"""How often a failed creation of the topic is logged; clients retry ten times a second."""

LOADS_PER_STEP: Final = 10
"""Partitions whose load is started between two yields to the event loop."""

_CLOSED: Final = ErrorCode.COORDINATOR_NOT_AVAILABLE


def _ignore() -> None:
    """The default callback."""


class Coordinator(ABC, Generic[M]):
    """All state machines of one kind that this broker runs."""

    topic: ClassVar[str]
    """The internal topic."""

    entities: ClassVar[str]
    """What is coordinated, in the plural, for log lines."""

    modules: ClassVar[Sequence[str]]
    """Modules that are imported when the topic is created; see `server.runtime.lazy_imports`."""

    factor_setting: ClassVar[str]
    """The setting with the topic's replication factor."""

    def __init__(
        self,
        live: LiveSettings,
        replicas: ReplicaManager,
        metadata: MetadataCache,
        internal_topics: InternalTopics,
        creator: TopicCreator,
    ) -> None:
        self._live: Final = live
        self._replicas: Final = replicas
        self._metadata: Final = metadata
        self._internal_topics: Final = internal_topics
        self._creator: Final = creator
        self._resources: RunnerResources | None = None
        self._runners: dict[int, JournalRunner[M]] = {}
        self._loads: deque[tuple[float, int]] = deque(maxlen=LOADS_KEPT_MAX)
        self._closed = False
        self._creation: asyncio.Task[None] | None = None
        self._importing = False
        """Whether `modules` are being imported; partitions are loaded afterwards."""
        self._deferred: dict[int, Replica] = {}
        self._failure_level = logging.NOTSET
        """The level at which a failed creation of the topic was last logged, if it has failed."""
        self._failure_logged_s = 0.0
        self._problem: str | None = None
        self.on_replayed: Callable[[], object] = _ignore
        """Called after each slice of a load."""
        replicas.role_listeners[self.topic] = self._role_changed

    @abstractmethod
    def _new_topic(self) -> NewTopic:
        """The topic to create."""

    @abstractmethod
    def _runner(self, replica: Replica, resources: RunnerResources) -> JournalRunner[M]:
        """A runner for a partition's state machine, with `_loaded` as its `on_loaded`."""

    def _on_resignation(self, partition: int) -> None:
        """Called when this broker is no longer the coordinator of a partition."""

    # -- operations ------------------------------------------------------------------------

    @property
    def partition_count(self) -> int:
        """The number of partitions of the topic, also before it is created."""
        count = self._internal_topics.partition_count(self.topic)
        return count or self._new_topic().num_partitions

    def partition_of(self, name: str) -> int:
        """The partition that a name belongs to."""
        return java_hash(name) % self.partition_count

    def call(self, name: str, operation: Callable[[M, ReplyFuture, int], DecisionOrSteps]) -> Any:
        """Run an operation on the state machine of a name, with the time in ms. Returns the result,
        or an awaitable of it. Raises ApiError, or the awaitable does: NOT_COORDINATOR,
        COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, and errors of the operation."""
        return self._require_runner(name).call(operation)

    def read(self, name: str, query: Callable[[M, int], T]) -> T | Awaitable[T]:
        """The result of a query on the state machine of a name, once the state that it has read is
        committed. A query may set deadlines, as it gets the time in ms, but appends nothing."""
        return self._require_runner(name).read(query)

    def try_read(self, name: str, query: Callable[[M, int], T]) -> T | None:
        """The same; None, without running it, if it would have to wait or would fail."""
        runner = self.runner_for(name)
        return None if runner is None else runner.try_read(query)

    def runner_for(self, name: str) -> JournalRunner[M] | None:
        """The runner of a name's partition, if this broker leads it. Valid as long as the runner is
        active and the metadata has not changed."""
        return self._runners.get(java_hash(name) % self.partition_count)

    def _require_runner(self, name: str) -> JournalRunner[M]:
        runner = self.runner_for(name)
        if runner is None:
            if self._deferred and self.partition_of(name) in self._deferred:
                raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            raise ApiError(_CLOSED if self._closed else ErrorCode.NOT_COORDINATOR)
        return runner

    @property
    def runners(self) -> Sequence[JournalRunner[M]]:
        """The runners of all partitions that this broker leads, loaded or not."""
        return list(self._runners.values())

    @property
    def is_loading(self) -> bool:
        """Whether some partition is being loaded."""
        return any(runner.is_loading for runner in self._runners.values()) or bool(self._deferred)

    def shards(self) -> Sequence[M]:
        """The state machines of all partitions led here; ApiError while some are being loaded."""
        if self.is_loading:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return [runner.machine for runner in self._runners.values() if runner.is_active]

    # -- the topic ------------------------------------------------------------------------

    def coordinator_of(self, name: str) -> BrokerImage | None:
        """The broker that leads the partition of a name; None if there is no known leader."""
        image = self._metadata.image
        topic = image.topics.get(self.topic)
        partition = None if topic is None else topic.partition(self.partition_of(name))
        return None if partition is None else image.brokers.get(partition.leader)

    @property
    def problem(self) -> str | None:
        """Why the coordinator can't serve: the topic could not be created when it was needed, and
        still does not exist."""
        return None if self.topic in self._metadata.image.topics else self._problem

    async def create_topic(self) -> None:
        """Create the topic, if it does not exist. A failure is only logged: the client retries."""
        if self._creation is None:
            self._creation = self._replicas.tasks.spawn(
                self._create_topic(), name=f"topic of the {self.entities}"
            )
        await asyncio.shield(self._creation)

    async def _create_topic(self) -> None:
        self._importing = True
        try:
            results = await self._creator.create_topics(
                [self._new_topic()], timeout_ms=CREATE_TIMEOUT_MS, validate_only=False
            )
            code, message, *_ = results[self.topic]
            if code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                self._problem, self._failure_level = None, logging.NOTSET
                await import_one_by_one(self._replicas.tasks, self.modules)
            else:
                self._topic_not_created(code, message or code.name)
        finally:
            self._importing = False
            self._creation = None
        await self._load_deferred()

    def _topic_not_created(self, code: ErrorCode, why: str) -> None:
        """Log why the topic could not be created. Without a controller, as in a failover, that
        needs no attention: the topic may even exist, in metadata that have not come yet."""
        if code == ErrorCode.INVALID_REPLICATION_FACTOR and not self._live.now.in_cluster:
            factor = self._new_topic().replication_factor
            why = not_replicated(self.factor_setting, factor)
        self._problem = f"{self.entities} are not served, as {self.topic} can't be created: {why}"
        level = logging.WARNING if code.retriable else logging.ERROR
        now_s = self._replicas.clock.monotonic_s()
        is_old = now_s - self._failure_logged_s >= CREATE_FAILURE_LOG_PERIOD_S
        if level > self._failure_level or is_old:
            self._failure_level, self._failure_logged_s = level, now_s
            logger.log(level, "%s", self._problem)

    @property
    def _may_load(self) -> bool:
        """Whether partitions may be loaded; until then they are deferred."""
        return not self._importing

    async def _load_deferred(self) -> None:
        """Load the partitions that this broker became the leader of in the meantime."""
        while self._deferred and self._may_load:
            for index in list(self._deferred)[:LOADS_PER_STEP]:
                self._role_changed(self._deferred.pop(index))
            await self._replicas.tasks.sleep(0)

    def _replication_factor(self, setting: str, value: int) -> int:
        """The topic's replication factor: the setting's value. A standalone broker could never meet
        its default, so there it is 1 unless set."""
        settings = self._live.now
        return value if settings.in_cluster or setting in settings.given else 1

    # -- leading --------------------------------------------------------------------------

    def _role_changed(self, replica: Replica) -> None:
        """Start or close the runner of a partition of the topic, when this broker became its leader
        or is its leader no longer."""
        index = replica.log.partition
        self._deferred.pop(index, None)
        runner = self._runners.get(index)
        if runner is not None:
            if runner.leads:
                return
            del self._runners[index]
            runner.close(ErrorCode.NOT_COORDINATOR)
            logger.info(
                "%s-%d: unloaded its %s, this broker is no longer their coordinator",
                *replica.key,
                self.entities,
            )
            self._on_resignation(index)
        if not self._closed and replica.partition.is_leader and not replica.offline:
            self._start_runner(replica)

    def _start_runner(self, replica: Replica) -> None:
        if not self._may_load:
            self._deferred[replica.log.partition] = replica
            return
        # imported when first needed: see `kavka.server.runtime.lazy_imports`
        from kavka.server.coordinators.journal_runner import resources_of

        if self._resources is None:
            self._resources = resources_of(self._replicas, lambda: self.on_replayed())
        runner = self._runners[replica.log.partition] = self._runner(replica, self._resources)
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
                self.entities,
                loaded.size_bytes,
                loaded.took_ms,
                loaded.queued_ms,
            )

    def load_ms(self, now_s: float) -> list[int]:
        """The load times in ms of recently loaded partitions; `now_s` is monotonic."""
        return [took_ms for at_s, took_ms in self._loads if now_s - at_s <= LOAD_METRICS_WINDOW_S]

    def close(self) -> None:
        """Shut down: fail all pending requests and unload all partitions."""
        self._closed = True
        runners, self._runners = self._runners, {}
        for index, runner in runners.items():
            runner.close(_CLOSED)
            self._on_resignation(index)
