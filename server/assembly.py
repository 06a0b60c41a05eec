"""Creates and connects the components of a broker."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from kavka.log.fs import FileSystem
from kavka.log.manager import LogManager
from kavka.seams import Clock, Jobs, Network, Random, Tasks
from kavka.server.auth.authorizer import AllowAll
from kavka.server.broker import Broker
from kavka.server.cluster.config_writer import ConfigWriter
from kavka.server.cluster.entity_configs import EntityConfigs
from kavka.server.cluster.feature_levels import Features
from kavka.server.cluster.internal_topics import InternalTopics
from kavka.server.cluster.logger_levels import LoggerLevels, Loggers
from kavka.server.cluster.metadata_cache import MetadataCache
from kavka.server.config import BrokerSettings, validate_topic_configs
from kavka.server.config.live import LiveSettings
from kavka.server.connections.dispatch import TELEMETRY, served
from kavka.server.controller.controller import Controller, ControllerSettings
from kavka.server.controller.topic_validation import TopicCreator
from kavka.server.coordinators.group_coordinator import GroupCoordinator
from kavka.server.coordinators.producer_id_allocator import ProducerIdAllocator
from kavka.server.coordinators.transaction_coordinator import TransactionCoordinator
from kavka.server.coordinators.zookeeper_offsets import ZooKeeperOffsets
from kavka.server.replica.controller_requests import ControllerRequests
from kavka.server.replica.fetch_sessions import FetchSessions
from kavka.server.replica.log_dir_moves import ReplicaMoves
from kavka.server.replica.manager import ReplicaManager
from kavka.server.request.quotas import Unlimited
from kavka.server.request.stats import RequestStats
from kavka.server.runtime.purgatory import Purgatory
from kavka.wire.api import Api
from kavka.wire.frame import ArenaPool
from kavka.zktree.api import Coordination

if TYPE_CHECKING:
    from kavka.server.controller.leader_balance import BalanceSettings
    from kavka.server.controller.unclean_elections import UncleanElections
    from kavka.server.replication.broker_clients import BrokerClients
    from kavka.server.replication.cluster_links import ClusterLinks
    from kavka.server.replication.controller_client import ControllerClient
    from kavka.server.telemetry.receiver import Telemetry
    from kavka.txncoord.transaction_requests import WriteMarkers

logger = logging.getLogger(__name__)


def assemble(
    live: LiveSettings,
    logs: LogManager,
    coordination: Coordination,
    topic_configs: EntityConfigs,
    features: Features,
    loggers: Loggers,
    cluster_id: str,
    *,
    clock: Clock,
    tasks: Tasks,
    jobs: Jobs,
    random: Random,
    fs: FileSystem,
    network: Network,
) -> tuple[Broker, ControllerRequests, ClusterLinks | None]:
    """The components as handlers see them, and in a cluster the links to the other brokers."""
    metadata = MetadataCache(cluster_id)
    purgatory = Purgatory(clock, tasks)
    replicas = ReplicaManager(
        logs=logs, metadata=metadata, purgatory=purgatory, clock=clock, tasks=tasks, jobs=jobs
    )
    internal_topics = InternalTopics(coordination, metadata)
    requests = _requests(live, replicas, metadata, topic_configs, internal_topics, fs)
    moves = ReplicaMoves(live, fs=fs, replicas=replicas, clock=clock, tasks=tasks, jobs=jobs)
    arenas = ArenaPool()
    clients = _clients(live.now, metadata, network, clock, tasks, random, arenas)
    unclean = _unclean_elections(live, topic_configs)
    controller = _controller(live, coordination, requests, clients, unclean, clock, tasks, random)
    producer_ids = ProducerIdAllocator(tasks, controller.allocate_producer_ids)
    client = _controller_client(live.now, controller, metadata, clients)
    creator: TopicCreator = client or controller
    shared = live, replicas, metadata, internal_topics, creator
    groups = GroupCoordinator(*shared, topic_configs, random)
    requests.on_metadata.extend([internal_topics.metadata_changed, groups.metadata_changed])
    telemetry = _telemetry(live.now, topic_configs, clock, tasks, jobs, random)
    broker = Broker(
        live=live,
        clock=clock,
        tasks=tasks,
        jobs=jobs,
        random=random,
        authorizer=AllowAll(),
        quotas=Unlimited(),
        coordination=coordination,
        metadata=metadata,
        internal_topics=internal_topics,
        topic_configs=topic_configs,
        config_writer=ConfigWriter(coordination, topic_configs, tasks),
        features=features,
        logger_levels=LoggerLevels(loggers),
        controller=controller,
        topic_creator=creator,
        replicas=replicas,
        moves=moves,
        purgatory=purgatory,
        sessions=_sessions(live.now, clock, random),
        producer_ids=producer_ids,
        groups=groups,
        transactions=TransactionCoordinator(*shared, producer_ids),
        zookeeper_offsets=ZooKeeperOffsets(coordination),
        arenas=arenas,
        requests=RequestStats(clock.monotonic_s),
        telemetry=telemetry,
        apis=_apis(in_cluster=live.now.in_cluster, with_telemetry=telemetry is not None),
        control=requests if live.now.in_cluster else None,
    )
    broker.transactions.on_markers = partial(_start_marker_writer, broker, coordination)
    links = _links(broker, requests, clients, client) if clients and client else None
    return broker, requests, links


def _apis(*, in_cluster: bool, with_telemetry: bool) -> tuple[Api, ...]:
    apis = [api for api, _ in served(in_cluster=in_cluster).values()]
    return tuple(api for api in apis if with_telemetry or api not in TELEMETRY)


def _clients(
    settings: BrokerSettings,
    metadata: MetadataCache,
    network: Network,
    clock: Clock,
    tasks: Tasks,
    random: Random,
    arenas: ArenaPool,
) -> BrokerClients | None:
    """None for a standalone broker."""
    if not settings.in_cluster:
        return None
    # imported in clusters only, as what `_links` imports
    from kavka.client.broker_client import Seams
    from kavka.server.replication.broker_clients import BrokerClients

    seams = Seams(network, clock, tasks, random, arenas)
    return BrokerClients(settings, metadata, seams)


def _controller_client(
    settings: BrokerSettings,
    controller: Controller,
    metadata: MetadataCache,
    clients: BrokerClients | None,
) -> ControllerClient | None:
    """None for a standalone broker."""
    if clients is None:
        return None
    from kavka.server.replication.controller_client import ControllerClient

    return ControllerClient(
        controller,
        metadata,
        settings.broker_id,
        peers=clients.for_controller(),
        isr_peers=clients.for_controller(),
    )


def _links(
    broker: Broker, requests: ControllerRequests, clients: BrokerClients, client: ControllerClient
) -> ClusterLinks:
    from kavka.server.cluster.first_metadata import FirstMetadata
    from kavka.server.replica.replication_quotas import ReplicationQuotas
    from kavka.server.replication.cluster_links import ClusterLinks
    from kavka.server.replication.transaction_peers import TransactionPeers

    broker.first_metadata = FirstMetadata(broker.metadata, broker.tasks)
    requests.on_metadata.append(broker.first_metadata.updated)
    broker.groups.load_once_described(broker.first_metadata)
    quotas = broker.replication_quotas = ReplicationQuotas(broker.live, broker.clock)
    broker.transactions.peers = TransactionPeers(
        broker.settings.broker_id,
        broker.metadata,
        coordinators=clients.for_transactions(),
        leaders=clients.for_transactions(),
        tasks=broker.tasks,
    )
    links = ClusterLinks(
        broker.settings,
        clients,
        client,
        broker.replicas,
        broker.transactions.peers,
        quotas,
        clock=broker.clock,
        tasks=broker.tasks,
    )
    requests.on_metadata.append(links.fetchers.metadata_changed)
    return links


def _requests(
    live: LiveSettings,
    replicas: ReplicaManager,
    metadata: MetadataCache,
    topic_configs: EntityConfigs,
    internal_topics: InternalTopics,
    fs: FileSystem,
) -> ControllerRequests:
    return ControllerRequests(
        live=live,
        replicas=replicas,
        metadata=metadata,
        topic_configs=topic_configs,
        internal_topics=internal_topics,
        fs=fs,
        tasks=replicas.tasks,
        jobs=replicas.jobs,
    )


def _controller(
    live: LiveSettings,
    coordination: Coordination,
    requests: ControllerRequests,
    clients: BrokerClients | None,
    unclean: UncleanElections | None,
    clock: Clock,
    tasks: Tasks,
    random: Random,
) -> Controller:
    controller = Controller(
        _controller_settings(live.now),
        coordination,
        requests,
        connect=None if clients is None else clients.from_controller,
        unclean=unclean,
        validate_configs=lambda configs: validate_topic_configs(configs, live.now, are_new=True),
        clock=clock,
        tasks=tasks,
        random=random,
    )
    if unclean is not None:
        unclean.on_allowed = controller.may_elect_unclean
    return controller


def _unclean_elections(live: LiveSettings, configs: EntityConfigs) -> UncleanElections | None:
    """None for a standalone broker, whose partitions have no other replica to elect."""
    if not live.now.in_cluster:
        return None
    from kavka.server.controller.unclean_elections import UncleanElections

    return UncleanElections(live, configs)


def _telemetry(
    settings: BrokerSettings,
    configs: EntityConfigs,
    clock: Clock,
    tasks: Tasks,
    jobs: Jobs,
    random: Random,
) -> Telemetry | None:
    """The receiver of client metrics, if `/metrics` is served, which shows them."""
    if settings.kavka_http_listener is None:
        return None
    from kavka.server.telemetry.receiver import Telemetry, is_installed

    if not is_installed():
        logger.info("client metrics are not collected: that needs kavka[telemetry]")
        return None
    return Telemetry(configs, clock=clock, tasks=tasks, jobs=jobs, random=random)


def _controller_settings(settings: BrokerSettings) -> ControllerSettings:
    return ControllerSettings(
        settings.broker_id,
        settings.num_partitions,
        settings.default_replication_factor,
        settings.inter_broker_listener_name,
        settings.kavka_fast_failover_enable,
        _balance(settings),
        settings.in_cluster,
    )


def _balance(settings: BrokerSettings) -> BalanceSettings | None:
    if not (settings.in_cluster and settings.auto_leader_rebalance_enable):
        return None
    from kavka.server.controller.leader_balance import BalanceSettings

    return BalanceSettings(
        settings.leader_imbalance_check_interval_seconds,
        settings.leader_imbalance_per_broker_percentage,
    )


def _sessions(settings: BrokerSettings, clock: Clock, random: Random) -> FetchSessions:
    slots = settings.max_incremental_fetch_session_cache_slots
    return FetchSessions(clock, random, slots=slots)


def _start_marker_writer(
    broker: Broker, coordination: Coordination, markers: WriteMarkers, coordinator_epoch: int
) -> None:
    """Create the marker writer, for the first transaction that ends."""
    # imported when there are transactions: see `kavka.server.runtime.lazy_imports`
    from kavka.server.coordinators.marker_writer import MarkerWriter

    transactions = broker.transactions
    writer = MarkerWriter(broker.replicas, broker.groups, transactions, coordination)
    broker.transaction_markers = writer
    transactions.on_markers, transactions.on_resigned = writer.send, writer.resigned
    writer.send(markers, coordinator_epoch)
