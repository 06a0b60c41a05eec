"""The components of a running broker, as handlers see them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kavka.seams import Clock, Jobs, Random, Tasks
from kavka.server.auth.authorizer import Authorizer
from kavka.server.cluster.config_writer import ConfigWriter
from kavka.server.cluster.entity_configs import EntityConfigs
from kavka.server.cluster.feature_levels import Features
from kavka.server.cluster.internal_topics import InternalTopics
from kavka.server.cluster.logger_levels import LoggerLevels
from kavka.server.cluster.metadata_cache import BrokerImage, MetadataCache
from kavka.server.config import BrokerSettings
from kavka.server.config.cluster_rows import RACK_SELECTOR
from kavka.server.config.live import LiveSettings
from kavka.server.controller.controller import Controller
from kavka.server.controller.topic_validation import TopicCreator
from kavka.server.coordinators.group_coordinator import GroupCoordinator
from kavka.server.coordinators.producer_id_allocator import ProducerIdAllocator
from kavka.server.coordinators.transaction_coordinator import TransactionCoordinator
from kavka.server.coordinators.zookeeper_offsets import ZooKeeperOffsets
from kavka.server.replica.controller_requests import ControllerRequests
from kavka.server.replica.fetch_sessions import FetchSessions
from kavka.server.replica.log_dir_moves import ReplicaMoves
from kavka.server.replica.manager import ReplicaManager
from kavka.server.request.context import Peer
from kavka.server.request.quotas import Quotas
from kavka.server.request.stats import RequestStats
from kavka.server.runtime.purgatory import Purgatory
from kavka.server.runtime.rate_limited_logger import RateLimitedLogger
from kavka.wire.api import Api
from kavka.wire.frame import ArenaPool
from kavka.zktree.api import Coordination

if TYPE_CHECKING:
    from kavka.server.cluster.first_metadata import FirstMetadata
    from kavka.server.coordinators.marker_writer import MarkerWriter
    from kavka.server.replica.replication_quotas import ReplicationQuotas
    from kavka.server.telemetry.receiver import Telemetry

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Broker:
    """One per broker; made by `kavka.server.assembly`, used by every handler."""

    live: LiveSettings
    clock: Clock
    tasks: Tasks
    jobs: Jobs
    random: Random
    authorizer: Authorizer
    quotas: Quotas
    coordination: Coordination
    metadata: MetadataCache
    internal_topics: InternalTopics
    topic_configs: EntityConfigs
    config_writer: ConfigWriter
    features: Features
    logger_levels: LoggerLevels
    controller: Controller
    topic_creator: TopicCreator
    replicas: ReplicaManager
    moves: ReplicaMoves
    purgatory: Purgatory
    sessions: FetchSessions
    producer_ids: ProducerIdAllocator
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    zookeeper_offsets: ZooKeeperOffsets
    arenas: ArenaPool
    requests: RequestStats
    auto_creating: dict[str, None] = field(default_factory=dict)
    """Topics that are being auto-created."""

    apis: Sequence[Api] = ()
    epoch: int = -1
    """The broker epoch: the zxid of this broker's registration, higher at each start."""
    control: ControllerRequests | None = None
    """For requests of the controller over the wire; None for a standalone broker."""
    first_metadata: FirstMetadata | None = None
    """None for a standalone broker: its clients are accepted when it has all metadata."""
    replication_quotas: ReplicationQuotas | None = None
    """How fast throttled partitions are replicated; None for a standalone broker."""
    telemetry: Telemetry | None = None
    """The receiver of client metrics; None if they are not collected."""
    transaction_markers: MarkerWriter | None = None
    """None until there is a first marker to write."""

    refusals: RateLimitedLogger = field(init=False)
    """Rate-limited log of auto-creations that failed."""

    def __post_init__(self) -> None:
        self.refusals = RateLimitedLogger(logger, logging.WARNING, "topics not created", self.tasks)

    @property
    def settings(self) -> BrokerSettings:
        """The current settings, dynamic ones included."""
        return self.live.now

    @property
    def selects_read_replica(self) -> bool:
        """Whether the leader names a preferred read replica to consumers (KIP-392)."""
        settings = self.live.now
        return settings.replica_selector_class == RACK_SELECTOR and settings.in_cluster

    @property
    def broker_id(self) -> int:
        return self.settings.broker_id

    def address_of(self, known: BrokerImage, peer: Peer) -> tuple[str, int] | None:
        """The address of a broker for `peer`: that of the listener on which the peer connected, or
        for this broker the one that the peer dialled; None if it has no such listener."""
        if peer.dialled is not None and known.broker_id == self.broker_id:
            return peer.dialled
        return known.endpoints.get(peer.listener)
