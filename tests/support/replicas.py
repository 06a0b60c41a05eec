"""A replica manager on logs in memory, and the controller's requests to it."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from kavka.compat_tests.raw.codec.batches import build
from kavka.log.manager import LogManager
from kavka.log.memfs import MemFs
from kavka.server.cluster.control_messages import (
    LeaderAndIsr,
    LeaderAndIsrPartitionState,
    LeaderAndIsrTopicState,
    StopReplica,
    StopReplicaPartitionState,
    StopReplicaTopicState,
    UpdateMetadata,
    UpdateMetadataPartitionState,
    UpdateMetadataTopicState,
)
from kavka.server.cluster.metadata_cache import INTERNAL_TOPICS, MetadataCache
from kavka.server.config import BrokerSettings
from kavka.server.config.live import LiveSettings
from kavka.server.replica.controller_requests import ControllerRequests
from kavka.server.replica.manager import ReplicaManager
from kavka.server.replica.replica import Replica
from kavka.server.runtime.purgatory import Purgatory
from kavka.wire.record_batches import read_header
from kavka.zktree.paths import TOPIC_CONFIGS
from support import logs
from support.memory_broker import HoldableJobs, LifeTasks
from support.virtual import VirtualClock

DATA = "/data"
US = 1
TOPIC_ID = uuid.UUID("5f7a3c9e-0b1d-4e2f-8a6b-7c8d9e0f1a2b")


class Overrides:
    """Topic settings, as `EntityConfigs` has them."""

    def __init__(self) -> None:
        self.in_tree: dict[str, Mapping[str, str]] = {}
        self._known: dict[str, Mapping[str, str]] = {}
        self._listeners: list[Callable[[str, str], object]] = []

    def get(self, name: str) -> Mapping[str, str]:
        return self._known.get(name, {})

    async def refresh(self, names: Iterable[str]) -> None:
        for name in names:
            self._known[name] = self.in_tree.get(name, {})

    def forget(self, name: str) -> None:
        self._known.pop(name, None)

    def on_change(self, listener: Callable[[str, str], object]) -> None:
        self._listeners.append(listener)

    def change(self, name: str, overrides: Mapping[str, str]) -> None:
        """Set them while the broker runs."""
        self._known[name] = self.in_tree[name] = overrides
        for listener in self._listeners:
            listener(TOPIC_CONFIGS, name)


class NoInternalTopics:
    """`InternalTopics` where this broker leads none of them."""

    async def before_leading(self, topics: Collection[str]) -> None:
        assert not INTERNAL_TOPICS.intersection(topics)


class Hosting:
    """Broker 1 without clients and without a controller."""

    def __init__(
        self,
        fs: MemFs | None = None,
        high_watermarks: Mapping[tuple[str, int], int] | None = None,
        directories: Sequence[str] = (DATA,),
    ) -> None:
        self.fs = fs or MemFs()
        self.clock = VirtualClock()
        self.tasks = LifeTasks(self.clock)
        self.jobs = HoldableJobs()
        self.logs = LogManager(self.fs, directories, clock=self.clock, random=random.Random(1))
        self.logs.open()
        settings = BrokerSettings.load(environ={}, overrides=[f"log.dirs={DATA}"])
        self.live = LiveSettings(settings)
        logs.load_all(self.logs, lambda _: settings.topic_defaults)
        for key, high_watermark in (high_watermarks or {}).items():
            self.logs.keep_high_watermark(key, high_watermark)
        self.metadata = MetadataCache("cluster")
        self.purgatory = Purgatory(self.clock, self.tasks)
        self.overrides = Overrides()
        self.manager = ReplicaManager(
            logs=self.logs,
            metadata=self.metadata,
            purgatory=self.purgatory,
            clock=self.clock,
            tasks=self.tasks,
            jobs=self.jobs,
        )
        overrides: Any = self.overrides
        internal_topics: Any = NoInternalTopics()
        self.port = ControllerRequests(
            live=self.live,
            replicas=self.manager,
            metadata=self.metadata,
            topic_configs=overrides,
            internal_topics=internal_topics,
            fs=self.fs,
            tasks=self.tasks,
            jobs=self.jobs,
        )

    async def lead(self, topic: str = "t", *partitions: int, **values: Any) -> Replica:
        """Become leader of partitions, by default of the first; the first replica."""
        response = await self.port.leader_and_isr(leading(topic, *(partitions or (0,)), **values))
        assert not response.error_code and not response.partition_errors, response
        replica = self.manager.find(topic, (partitions or (0,))[0])
        assert replica is not None
        return replica


def append(replica: Replica, producer: tuple[int, int, int] = (-1, -1, -1)) -> int:
    """Append three records; their base offset."""
    batch = memoryview(build(producer=producer))
    return replica.append(batch, read_header(batch)).base_offset


def leading(
    topic: str = "t",
    *partitions: int,
    leader: int = US,
    epoch: int = 0,
    isr: tuple[int, ...] = (US,),
    replicas: tuple[int, ...] = (US,),
    controller_epoch: int = 1,
    topic_id: uuid.UUID = TOPIC_ID,
    new: bool = True,
) -> LeaderAndIsr:
    """LeaderAndIsr for partitions of one topic, by default the first."""
    states = tuple(
        LeaderAndIsrPartitionState(
            index, controller_epoch, leader, epoch, isr, 0, replicas, (), (), new, 0
        )
        for index in partitions or (0,)
    )
    topics = (LeaderAndIsrTopicState(topic, topic_id, states),)
    return LeaderAndIsr(US, controller_epoch, 1, topics, ())


def stopping(
    topic: str = "t",
    *partitions: int,
    epoch: int = -2,
    delete: bool = True,
    controller_epoch: int = 1,
) -> StopReplica:
    """StopReplica for partitions of one topic, by default the first, which is to be deleted."""
    states = tuple(StopReplicaPartitionState(index, epoch, delete) for index in partitions or (0,))
    return StopReplica(US, controller_epoch, 1, (StopReplicaTopicState(topic, states),))


def metadata_of(
    topic: str = "t", *partitions: int, leader: int = US, controller_epoch: int = 1
) -> UpdateMetadata:
    """UpdateMetadata about partitions of one topic, by default the first."""
    states = tuple(
        UpdateMetadataPartitionState(index, controller_epoch, leader, 0, (US,), 0, (US,), ())
        for index in partitions or (0,)
    )
    topics = (UpdateMetadataTopicState(topic, TOPIC_ID, states),)
    return UpdateMetadata(US, controller_epoch, 1, topics, ())
