"""A broker as its controller sees it, which only records the requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from kavka.log.memfs import MemFs
from kavka.server.cluster.control_messages import (
    LeaderAndIsr,
    LeaderAndIsrPartitionState,
    LeaderAndIsrResponse,
    StopReplica,
    StopReplicaResponse,
    TopicPartition,
    UpdateMetadata,
)
from kavka.server.cluster.metadata_cache import MetadataCache
from kavka.server.controller.controller import Controller, ControllerSettings
from kavka.server.controller.events import Request
from kavka.server.controller.topic_validation import NewTopic, ValidateConfigs
from kavka.server.coordination.broker_registration import prepare_tree, register_broker
from kavka.server.coordination.embedded import EmbeddedCoordination
from kavka.wire.errors import ErrorCode
from kavka.zktree import paths
from kavka.zktree.api import Delete
from kavka.zktree.paths import BrokerInfo, Endpoint
from support.embedded_coordination import new_fs, open_on
from support.virtual import VirtualClock, VirtualTasks, run_until_idle

LISTENER = "PLAINTEXT"
INFO = BrokerInfo((Endpoint(LISTENER, "PLAINTEXT", "127.0.0.1", 23183),), rack="r1")


class ControlledBroker:
    """A `BrokerPort`. It responds with `errors` for partitions; `gate` holds requests back."""

    def __init__(self) -> None:
        self.metadata = MetadataCache("cluster")
        self.replicas: dict[TopicPartition, LeaderAndIsrPartitionState] = {}
        self.requests: list[LeaderAndIsr | UpdateMetadata | StopReplica] = []
        self.errors: dict[TopicPartition, ErrorCode] = {}
        self.failure: Exception | None = None
        """Raised once by the next request."""
        self.gate = asyncio.Event()
        self.gate.set()
        self.on_request: Callable[[Request], object] = lambda request: None

    async def _take(self, request: LeaderAndIsr | UpdateMetadata | StopReplica) -> None:
        await self.gate.wait()
        self.requests.append(request)
        self.on_request(request)
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure

    async def leader_and_isr(self, request: LeaderAndIsr) -> LeaderAndIsrResponse:
        await self._take(request)
        errors: dict[TopicPartition, ErrorCode] = {}
        for topic in request.topic_states:
            for state in topic.partition_states:
                where = TopicPartition(topic.topic_name, state.partition_index)
                if where in self.errors:
                    errors[where] = self.errors[where]
                else:
                    self.replicas[where] = state
        return LeaderAndIsrResponse(ErrorCode.NONE, errors)

    async def update_metadata(self, request: UpdateMetadata) -> ErrorCode:
        await self._take(request)
        self.metadata.apply(request)
        return ErrorCode.NONE

    async def stop_replica(self, request: StopReplica) -> StopReplicaResponse:
        await self._take(request)
        errors: dict[TopicPartition, ErrorCode] = {}
        for topic in request.topic_states:
            for state in topic.partition_states:
                where = TopicPartition(topic.topic_name, state.partition_index)
                if where in self.errors:
                    errors[where] = self.errors[where]
                elif state.delete_partition:
                    self.replicas.pop(where, None)
        return StopReplicaResponse(ErrorCode.NONE, errors)


def accept_any_configs(configs: object) -> None: ...


@dataclass
class ControlledCluster:
    """One broker with its controller, on a disk in memory that outlives it."""

    fs: MemFs = field(default_factory=new_fs)
    broker_id: int = 0
    seed: int = 1
    num_partitions: int = 1
    validate_configs: ValidateConfigs = accept_any_configs
    heeds_legacy_nodes: bool = False

    async def start(self, *topics: NewTopic) -> None:
        """A broker process starts, after a crash or `stop` again; then topics are created."""
        self.clock = VirtualClock()
        self.tasks = VirtualTasks(self.clock)
        self.broker = ControlledBroker()
        self.session = await open_on(self.fs, clock=self.clock)
        await prepare_tree(self.session)
        await register_broker(self.session, self.broker_id, INFO, clock=self.clock)
        self.controller = self.make_controller(self.session)
        await self.controller.start()
        results = await self.controller.create_topics(topics, timeout_ms=1000, validate_only=False)
        assert all(result.code is ErrorCode.NONE for result in results.values())

    def make_controller(self, session: EmbeddedCoordination) -> Controller:
        return Controller(
            ControllerSettings(
                self.broker_id,
                self.num_partitions,
                1,
                LISTENER,
                heeds_legacy_nodes=self.heeds_legacy_nodes,
            ),
            session,
            self.broker,
            validate_configs=self.validate_configs,
            clock=self.clock,
            tasks=self.tasks,
            random=Random(self.seed),
        )

    async def idle(self) -> None:
        """Watches have fired, and the controller has handled what they led to."""
        await run_until_idle()
        await self.controller.wait_until_idle()

    async def remove_nodes(self, topic: str) -> None:
        """Another process removes a topic's nodes."""
        base = paths.topic(topic)
        below = ("/partitions/0/state", "/partitions/0", "/partitions", "")
        await self.session.multi([Delete(f"{base}{path}") for path in below])
        await self.idle()

    async def stop(self) -> None:
        self.controller.close()
        await self.session.close()
