"""The group coordinator: which of this broker's machines a group is in, and how it is asked.

A group lives in one partition of `__consumer_offsets`, by the hash of its id. Whoever leads the
partition is the group's coordinator, once it has replayed it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from operator import mul
from struct import unpack
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kavka.groupcoord.counts import Counts
from kavka.seams import Random
from kavka.server.controller.messages import LEADER_DURING_DELETE, UpdateMetadata
from kavka.server.controller.runner import Controller
from kavka.server.group_topics import KnownTopics, create_group_topic
from kavka.server.later import GROUPS, import_in_turns
from kavka.server.live_settings import LiveSettings
from kavka.server.metadata_cache import BrokerImage, MetadataCache
from kavka.server.replica.manager import Replica, ReplicaManager
from kavka.server.topic_configs import TopicConfigs
from kavka.server.topics import GROUP_TOPIC
from kavka.wire.compression import Codec
from kavka.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from kavka.groupcoord.shard import GroupShard
    from kavka.log.journal import Decision, Ticket
    from kavka.server.journal_runner import JournalRunner, Parts

    Runner = JournalRunner[GroupShard]

logger = logging.getLogger(__name__)

T = TypeVar("T")

HASHES_KEPT_MAX: Final = 10_000
"""Group ids whose hash is remembered."""

HASHED_CHARACTERS_MAX: Final = 255
"""Longer ids are not remembered: all of them together would take hundreds of megabytes."""

LOADS_TOLD_S: Final = 30
"""For how long the metrics tell what a load took, as Apache Kafka."""

LOADS_KEPT_MAX: Final = 1000
"""Loads that the metrics go by, the latest."""


def java_hash(text: str) -> int:
    """Java's `String.hashCode` without its sign, as clients and tools count partitions with it;
    0 for the least integer, which has no counterpart. It takes up to 0.1 us a character."""
    return _kept_hash(text) if len(text) <= HASHED_CHARACTERS_MAX else _hash(text)


def _hash(text: str) -> int:
    data = text.encode("utf-16-be", "surrogatepass")
    units = unpack(f">{len(data) // 2}H", data)
    value = 0
    for begin in range(0, len(units), _BLOCK):
        block = units[begin : begin + _BLOCK]
        before, *weights = _POWERS[_BLOCK - len(block) :]
        value = (value * before + sum(map(mul, block, weights))) % 2**32
    return value if value < 2**31 else -value % 2**31


_BLOCK: Final = 256
_POWERS: Final = [pow(31, exponent, 2**32) for exponent in range(_BLOCK, -1, -1)]
_kept_hash: Final = lru_cache(maxsize=HASHES_KEPT_MAX)(_hash)


class GroupCoordinator:
    """All groups of which this broker is the coordinator."""

    def __init__(
        self,
        live: LiveSettings,
        replicas: ReplicaManager,
        metadata: MetadataCache,
        controller: Controller,
        configs: TopicConfigs,
        random: Random,
    ) -> None:
        self._live = live
        self._metadata = metadata
        self._configs = configs
        self._random = random
        self._topics = KnownTopics(metadata)
        self._replicas = replicas
        self._parts: Parts | None = None
        self._runners: dict[int, Runner] = {}
        self._loads: deque[tuple[float, int]] = deque(maxlen=LOADS_KEPT_MAX)
        self._closed = False
        self._controller = controller
        self.counts: Final = Counts()
        """What has happened to groups, for the metrics."""
        self._making: asyncio.Task[None] | None = None
        self.on_replayed: Callable[[], object] = _nothing
        """Called after each slice of groups that are loaded."""
        replicas.on_role[GROUP_TOPIC] = self._role_changed

    # -- asking ---------------------------------------------------------------------------

    @property
    def partition_count(self) -> int:
        """Partitions of `__consumer_offsets`, also before it is made."""
        topic = self._metadata.image.topics.get(GROUP_TOPIC)
        return len(topic.partitions) if topic else self._live.now.offsets_topic_num_partitions

    def partition_of(self, group_id: str) -> int:
        """The partition that a group is kept in."""
        return java_hash(group_id) % self.partition_count

    def call(self, group_id: str, ask: Callable[[GroupShard, Ticket, int], Decision]) -> Any:
        """Have the group's machine asked, with the time in ms. The answer, or, if that comes
        later, something to await. ApiError from here or from there: NOT_COORDINATOR,
        COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, and what the machine refuses."""
        return self._runner_of(group_id).call(ask)

    def read(self, group_id: str, look: Callable[[GroupShard, int], T]) -> T | Awaitable[T]:
        """What `look` finds in the group's machine, once all that it rests on is committed. It
        may set deadlines, as it is told the time in ms, but has nothing appended."""
        return self._runner_of(group_id).read(look)

    def read_at_once(self, group_id: str, look: Callable[[GroupShard, int], T]) -> T | None:
        """The same; None if there is anything to wait for, or to refuse, before it is looked at."""
        runner = self._runners.get(java_hash(group_id) % self.partition_count)
        return None if runner is None else runner.read_at_once(look)

    def _runner_of(self, group_id: str) -> Runner:
        runner = self._runners.get(java_hash(group_id) % self.partition_count)
        if runner is None:
            code = _CLOSED if self._closed else ErrorCode.NOT_COORDINATOR
            raise ApiError(code)
        return runner

    @property
    def runners(self) -> Sequence[Runner]:
        """Of the partitions that this broker leads, loaded or not."""
        return list(self._runners.values())

    @property
    def is_loading(self) -> bool:
        """Whether some partition is being loaded."""
        return any(not one.is_active and not one.failed for one in self._runners.values())

    def shards(self) -> Sequence[GroupShard]:
        """The machines of all groups of this broker; ApiError while some are being loaded."""
        if self.is_loading:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return [runner.machine for runner in self._runners.values() if runner.is_active]

    # -- the topic ------------------------------------------------------------------------

    def coordinator_of(self, group_id: str) -> BrokerImage | None:
        """Who leads the group's partition; None while that is not known."""
        image = self._metadata.image
        topic = image.topics.get(GROUP_TOPIC)
        partition = None if topic is None else topic.partition(self.partition_of(group_id))
        return None if partition is None else image.brokers.get(partition.leader)

    async def make_topic(self) -> None:
        """Have `__consumer_offsets` made. That it can't be now is for the log: whoever needs it
        asks again."""
        if self._making is None:
            self._making = self._replicas.tasks.spawn(
                self._make_topic(), name="topic of the groups"
            )
        await asyncio.shield(self._making)

    async def _make_topic(self) -> None:
        try:
            await import_in_turns(self._replicas.tasks, GROUPS)
            await create_group_topic(self._controller, self._live.now)
        finally:
            self._making = None

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
            logger.info("%s-%d: its groups are not coordinated here any more", *replica.key)
        if not self._closed and replica.partition.is_leader and not replica.offline:
            self._lead(replica)

    def _lead(self, replica: Replica) -> None:
        # not before there are groups: see `kavka.server.later`
        from kavka.groupcoord.shard import GroupShard
        from kavka.groupcoord.state import GroupsState
        from kavka.server.journal_runner import JournalRunner, Settings, parts_of

        if self._parts is None:
            self._parts = parts_of(self._replicas, lambda: self.on_replayed())
        now = self._live.now
        state = GroupsState(
            lambda: self._live.now,
            self._topics,
            self._random,
            self._configs.group,
            self.counts,
        )
        settings = Settings(
            commit_timeout_ms=now.offsets_commit_timeout_ms,
            codec=Codec(now.offsets_topic_compression_codec),
            load_bytes=now.offsets_load_buffer_size,
        )
        self._runners[replica.log.partition] = runner = JournalRunner(
            replica, GroupShard(state), settings, self._parts, on_loaded=self._loaded
        )
        runner.begin()

    def _loaded(self, runner: Runner) -> None:
        loaded = runner.loaded
        if loaded is not None:
            self._loads.append((self._replicas.clock.monotonic_s(), loaded.took_ms))
        if loaded is not None and loaded.records:
            logger.info(
                "%s-%d: %d records of groups, %d bytes, are loaded; it took %d ms, %d of them "
                "waiting for its turn",
                *runner.replica.key,
                loaded.records,
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
        for runner in runners.values():
            runner.close(_CLOSED)

    # -- changes elsewhere ----------------------------------------------------------------

    def metadata_changed(self, update: UpdateMetadata) -> None:
        """The cluster's topics have changed: groups learn of those that they read, in slices."""
        runners = [runner for runner in self._runners.values() if runner.is_active]
        if runners and update.topic_states:
            self._replicas.tasks.spawn(self._tell(runners, update), name="groups learn of topics")

    async def _tell(self, runners: Sequence[Runner], update: UpdateMetadata) -> None:
        topics = [topic.topic_name for topic in update.topic_states]
        deleted = [
            (topic.topic_name, topic.topic_id)
            for topic in update.topic_states
            if all(state.leader == LEADER_DURING_DELETE for state in topic.partition_states)
        ]
        for runner in runners:
            if not runner.is_active or not runner.machine.state.groups:
                continue
            now_ms = runner.now_ms()
            if deleted:
                runner.machine.topics_deleted(deleted, now_ms)
            await runner.carry_out(runner.machine.metadata_changed(topics, now_ms))
            await self._replicas.tasks.sleep(0)


def _nothing() -> None:
    """Nobody wants to know."""


_CLOSED: Final = ErrorCode.COORDINATOR_NOT_AVAILABLE
