"""One broker from start to stop, on the caller's event loop.

This file has the order of start-up and shutdown. `kavka start` runs a broker in its own process.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from kavka.log.dir_names import MetaProperties
from kavka.log.errors import LoadingStopped, OrphanedDirectoryError
from kavka.log.fs import FileSystem
from kavka.log.manager import LogManager
from kavka.log.settings import LogSettings
from kavka.seams import Clock, Jobs, Listening, Network, Random, Tasks
from kavka.server.assembly import assemble
from kavka.server.broker import Broker
from kavka.server.broker_lifecycle import BrokerLifecycle
from kavka.server.cluster.broker_overrides import DynamicSettings
from kavka.server.cluster.entity_configs import EntityConfigs
from kavka.server.cluster.feature_levels import Features
from kavka.server.cluster.logger_levels import Loggers, ProcessLoggers
from kavka.server.config import BrokerSettings, log_settings
from kavka.server.config.cluster_rows import ID_TO_GENERATE
from kavka.server.config.listeners import Listener
from kavka.server.config.live import LiveSettings
from kavka.server.config.value_types import BadValue
from kavka.server.connections.connection import Connection
from kavka.server.connections.dispatch import LAZY_MODULES, Dispatcher
from kavka.server.connections.registry import Acceptor, Connections
from kavka.server.coordination.broker_registration import (
    cluster_id,
    generate_broker_id,
    prepare_tree,
    propagate_log_dir_event,
)
from kavka.server.coordination.embedded import open_embedded
from kavka.server.monitoring.health import BrokerState, Health
from kavka.server.replica.controller_requests import ControllerRequests
from kavka.server.replica.log_cleaner import LogCleaner
from kavka.server.replica.log_dirs import claim_directories
from kavka.server.replica.log_maintenance import LogMaintenance
from kavka.server.replica.log_startup import LogStartup, close_logs
from kavka.server.runtime.lazy_imports import BackgroundImports
from kavka.server.start_checks import (
    StartError,
    check_meta,
    check_metadata_directory,
    refuse_foreign_directories,
    refuse_foreign_logs,
)
from kavka.zktree.api import Coordination, OpenCoordination, SessionEvent
from kavka.zktree.paths import BrokerInfo, Endpoint, random_uuid, uuid_text
from kavka.zktree.storage_format import Corrupt

if TYPE_CHECKING:
    from kavka.server.monitoring.pages import Monitor
    from kavka.server.replication.cluster_links import ClusterLinks

logger = logging.getLogger(__name__)

ORPHAN_WAIT_S: Final = 30.0
"""How long a start waits for the process of an earlier, killed broker to end. It may be in the
middle of an fsync."""

ORPHAN_CHECK_S: Final = 0.1

CLOSE_ITERATIONS_MAX: Final = 100
"""Iterations of the loop to wait for aborted sockets to close; they need two or three."""


class Instance:
    """A broker. Call `start` and `stop` once each; `stop` also after a failed start."""

    def __init__(
        self,
        settings: BrokerSettings,
        *,
        clock: Clock,
        tasks: Tasks,
        jobs: Jobs,
        random: Random,
        fs: FileSystem,
        network: Network,
        on_failure: Callable[[], object],
        loggers: Loggers | None = None,
        open_coordination: OpenCoordination = open_embedded,
    ) -> None:
        """`on_failure` is called after a fatal error: the broker must then be stopped. Of `loggers`
        clients may set the levels (default: those of the process)."""
        self._links: ClusterLinks | None = None
        self.live = LiveSettings(settings)
        self.has_failed = False
        self._failure_reason: str | None = None
        self._on_failure = on_failure
        self.addresses: Mapping[str, tuple[str, int]] = {}
        """The advertised addresses, by listener; known after the start."""
        self.bound: Mapping[str, tuple[str, int]] = {}
        """The bound addresses, by listener, with * for all interfaces; known after the start."""
        self._clock = clock
        self._tasks = tasks
        self._jobs = jobs
        self._random = random
        self._fs = fs
        self._network = network
        self._loggers = loggers or ProcessLoggers()
        self._open_session = open_coordination
        self._connections = Connections(self.live, clock=clock, tasks=tasks)
        self._listening: list[tuple[Listener, Listening]] = []
        self._logs: LogManager | None = None
        self._loader: LogStartup | None = None
        self._start_aborted = False
        self._coordination: Coordination | None = None
        self._assembled: Broker | None = None
        self._lifecycle: BrokerLifecycle | None = None
        self._requests: ControllerRequests | None = None
        self._imports = BackgroundImports(tasks, LAZY_MODULES)
        self._maintenance: LogMaintenance | None = None
        self._cleaner: LogCleaner | None = None
        self.broker: Broker | None = None
        """The components, once clients are served."""
        self._monitor: Monitor | None = None
        self.state = BrokerState.NOT_RUNNING
        self.http_port: int | None = None
        """The port of the HTTP server, if there is one; known after the start."""

    @property
    def settings(self) -> BrokerSettings:
        """The current settings."""
        return self.live.now

    async def start(self) -> None:
        """Start serving clients. If that fails: StartError, or StorageError from the log
        directories. LoadingStopped after `abort_start`."""
        settings = self.settings
        self.state = BrokerState.STARTING
        await self._open_monitor()
        logs = LogManager(self._fs, settings.log_dirs, clock=self._clock, random=self._random)
        meta = await self._open(logs)
        self._logs = logs
        coordination = self._coordination = await self._open_coordination(meta)
        coordination.on_session(self._session_event)
        await refuse_foreign_logs(settings, logs, coordination, meta)
        await prepare_tree(coordination)
        cluster = await cluster_id(coordination, uuid_text(random_uuid(self._random)))
        ours = MetaProperties(cluster, await self._broker_id(coordination, meta))
        check_meta(settings, meta, ours)
        lost = settings.lost_log_dirs
        await claim_directories(logs, coordination, ours, declared_lost=lost, random=self._random)
        check_metadata_directory(settings, logs, self._fs)
        topic_configs = EntityConfigs(coordination, tasks=self._tasks)
        await topic_configs.load()
        DynamicSettings(self.live, topic_configs).apply()
        features = Features(self.live, coordination, self._tasks)
        await features.load()
        settings = self.settings
        self._loader = LogStartup(
            logs,
            lambda topic: _topic_log_settings(settings, topic, topic_configs.get(topic)),
            threads=settings.num_recovery_threads_per_data_dir,
            clock=self._clock,
            tasks=self._tasks,
            jobs=self._jobs,
        )
        if self._start_aborted:
            self._loader.give_up()
        await self._loader.load()
        await self._bind()
        broker = self._assemble(logs, coordination, topic_configs, features, cluster)
        await self._join(broker)
        if self._links is not None:
            self._links.start()
        if not self._start_aborted:
            await broker.controller.start()
        if self._start_aborted:
            raise LoadingStopped
        self._maintenance = LogMaintenance(
            self.live,
            fs=self._fs,
            logs=logs,
            replicas=broker.replicas,
            clock=self._clock,
            tasks=self._tasks,
            jobs=self._jobs,
        )
        self._maintenance.start()
        self._cleaner = LogCleaner(
            self.live,
            fs=self._fs,
            replicas=broker.replicas,
            clock=self._clock,
            tasks=self._tasks,
            jobs=self._jobs,
            checkpoint=self._maintenance.checkpoint,
        )
        self._cleaner.start()
        broker.moves.start(self._maintenance.checkpoint, is_alone=self._links is None)
        await self._accept(broker)
        self.broker = broker
        self.state = BrokerState.RUNNING
        self._imports.begin()

    async def _broker_id(self, coordination: Coordination, meta: MetaProperties | None) -> int:
        """The broker's id: the one that is set, that of its log directories, or a new one."""
        settings = self.settings
        if settings.broker_id != ID_TO_GENERATE:
            return settings.broker_id
        if meta is not None:
            broker_id = meta.broker_id
        else:
            broker_id = await generate_broker_id(coordination, settings.reserved_broker_max_id)
            logger.info("generated broker.id %d", broker_id)
        self.live.change(settings.with_generated_id(broker_id))
        return broker_id

    async def _open(self, logs: LogManager) -> MetaProperties | None:
        """Lock the log directories. Only the first, which has the metadata, is created here, unless
        others have an owner; other new ones when the metadata has been read. Waits for the process
        of a killed broker."""
        ends_s = self._clock.monotonic_s() + ORPHAN_WAIT_S
        warned = False
        while True:
            try:
                return logs.open(make=logs.directories[:1])
            except OrphanedDirectoryError as in_use:
                if self._start_aborted or self._clock.monotonic_s() >= ends_s:
                    raise
                if not warned:
                    logger.warning("%s; waiting for that process to end", in_use)
                warned = True
            await self._tasks.sleep(ORPHAN_CHECK_S)

    def _assemble(
        self,
        logs: LogManager,
        coordination: Coordination,
        topic_configs: EntityConfigs,
        features: Features,
        cluster: str,
    ) -> Broker:
        broker, self._requests, self._links = assemble(
            self.live,
            logs,
            coordination,
            topic_configs,
            features,
            self._loggers,
            cluster,
            clock=self._clock,
            tasks=self._tasks,
            jobs=self._jobs,
            random=self._random,
            fs=self._fs,
            network=self._network,
        )
        self._assembled = broker
        broker.replicas.failures.on_failure = self._directory_failed
        return broker

    async def _open_monitor(self) -> None:
        """Start the HTTP server, if configured; it runs until the end of `stop`."""
        at = self.settings.kavka_http_listener
        if at is None:
            return
        from kavka.server.monitoring.pages import Monitor

        bound = await self._listen(at, "kavka.http.listener")
        self.http_port = bound.port
        self._monitor = Monitor(
            health=self.health,
            broker=lambda: self.broker,
            connections=self._connections,
            clock=self._clock,
            tasks=self._tasks,
            fs=self._fs,
        )
        await self._monitor.open(bound)
        logger.info("serving /metrics over HTTP on %s:%d", at.host or "*", bound.port)

    def health(self) -> Health:
        """The broker's health."""
        problems = []
        if self._failure_reason is not None:
            problems.append(self._failure_reason)
        failed = {} if self._logs is None else self._logs.failed_directories
        problems += [f"the log directory {path} failed: {why}" for path, why in failed.items()]
        if self.broker is not None:
            coordinators = self.broker.groups.problem, self.broker.transactions.problem
            problems += [problem for problem in coordinators if problem is not None]
        cluster = None if self.broker is None else self.broker.metadata.image.cluster_id
        return Health(self.state, tuple(problems), self.settings.broker_id, cluster)

    async def _open_coordination(self, meta: MetaProperties | None) -> Coordination:
        assert self._logs is not None
        check_metadata_directory(self.settings, self._logs, self._fs)
        if self._open_session is open_embedded:
            refuse_foreign_directories(self.settings, self._logs, self._fs, meta)
        directory = self.settings.log_dirs[0]
        open_session = partial(
            self._open_session,
            self._fs,
            directory,
            clock=self._clock,
            tasks=self._tasks,
            jobs=self._jobs,
        )
        try:
            session = await open_session()
        except Corrupt as failure:
            raise StartError(
                f"the cluster's metadata is damaged: {failure}; nothing was changed. Check the "
                "disk, and restore log.dirs from a copy made while the broker was stopped"
            ) from failure
        if not self.settings.in_cluster:
            return session
        from kavka.server.coordination.renewed import RenewedSession

        return RenewedSession(session, open_session, self._tasks)

    def _session_event(self, event: SessionEvent) -> None:
        """A broker that has joined a cluster goes on when its session with the coordination service
        has expired: see `BrokerLifecycle`. Another one stops: it can write no metadata any more."""
        joined = self.settings.in_cluster and self.state is not BrokerState.STARTING
        if event is SessionEvent.EXPIRED and not joined:
            self._fail("the metadata can no longer be written")

    def _fail(self, why: str) -> None:
        if not self.has_failed:
            logger.error("%s; stopping", why)
            self.has_failed = True
            self._failure_reason = why
            self._on_failure()

    def _directory_failed(self) -> None:
        """Notify the controller; stop the broker if this was the last log directory."""
        assert self._logs is not None
        if not self._logs.online_directories:
            self._fail("all log directories have failed")
        elif self._coordination is not None:
            report = propagate_log_dir_event(self._coordination, self.settings.broker_id)
            self._tasks.spawn(report, name="report of a failed log directory")

    async def _join(self, broker: Broker) -> None:
        self._lifecycle = BrokerLifecycle(broker, self._links, self._broker_info(), fail=self._fail)
        await self._lifecycle.register()
        if broker.first_metadata is not None:
            await broker.internal_topics.load()
            await broker.first_metadata.begin(broker.coordination)

    # -- listeners ------------------------------------------------------------------------

    async def _bind(self) -> None:
        """Listen. Connections wait in the backlog until the end of the start: a broker of a cluster
        that has registered and refuses connections counts as dead. (Apache Kafka 3.9 listens at the
        end of the start; there nothing counts as dead before its session ends.)"""
        for listener in self.settings.listeners:
            self._listening.append((listener, await self._listen(listener, "listeners")))
        bound_ports = {listener.name: bound.port for listener, bound in self._listening}
        self.bound = {
            listener.name: (listener.host or "*", bound_ports[listener.name])
            for listener, _ in self._listening
        }
        self.addresses = {
            listener.name: (
                listener.host or self._network.host_name(),
                listener.port or bound_ports[listener.name],
            )
            for listener in self.settings.advertised_listeners
        }

    async def _listen(self, listener: Listener, setting: str) -> Listening:
        try:
            return await self._network.bind(listener.host, listener.port)
        except OSError as failure:
            raise StartError(
                f"{listener.name} can't listen on {listener.host}:{listener.port}: "
                f"{failure.strerror or failure}; choose another address in '{setting}'"
            ) from failure

    def _broker_info(self) -> BrokerInfo:
        return BrokerInfo(
            tuple(
                Endpoint(name, "PLAINTEXT", host, port)
                for name, (host, port) in self.addresses.items()
            ),
            self.settings.broker_rack,
        )

    async def _accept(self, broker: Broker) -> None:
        dispatcher = Dispatcher(broker)

        def connection(acceptor: Acceptor, host: str) -> Connection:
            return Connection(
                acceptor,
                host,
                dispatcher,
                self._tasks,
                broker.arenas,
                self._connections,
                self.settings.socket_request_max_bytes,
            )

        try:
            await self._connections.set_limits(self.settings, self._network)
        except OSError as failure:
            raise StartError(f"max.connections.per.ip.overrides: {failure}") from failure
        self._connections.follow_settings(self._network)
        advertised_ports = {
            listener.name: listener.port for listener in self.settings.advertised_listeners
        }
        for listener, bound in self._listening:
            is_dialled = listener.name in self.settings.dialled_listeners
            port = advertised_ports.get(listener.name, 0) if is_dialled else None
            await self._connections.open(Acceptor(listener.name, bound, port), connection)

    # -- shutdown --------------------------------------------------------------------------

    def abort_start(self) -> None:
        """Abort a start that is loading logs, which may take minutes. No effect once clients are
        accepted. In either case `stop` must be called."""
        self._start_aborted = True
        if self._loader is not None:
            self._loader.give_up()
        if self._assembled is not None and self.state is BrokerState.STARTING:
            self._assembled.controller.close()

    async def stop(self) -> None:
        """Shut down cleanly: close connections, finish running work, flush and close the logs."""
        began_s = self._clock.monotonic_s()
        is_well = self.state is BrokerState.RUNNING and not self.has_failed
        if self._links is not None and is_well:
            self.state = BrokerState.PENDING_CONTROLLED_SHUTDOWN
            await self._links.shut_down()
        self.state = BrokerState.SHUTTING_DOWN
        self._stop_listening()
        self._connections.close_all()
        await self._tasks.sleep(0)  # let the transports send the last responses
        self._close_assembled()
        if self._cleaner is not None:
            await self._cleaner.stop()
        if self._assembled is not None:
            await self._assembled.moves.stop()
        if self._maintenance is not None:
            await self._maintenance.stop()
        if self._coordination is not None:
            await self._coordination.close()
        if self._loader is not None:
            await self._loader.ended()
        if self._logs is not None and (self._loader is None or not self._loader.loaded):
            self._logs.unlock()  # not loaded, or not ours: no clean shutdown file
        elif self._logs is not None:
            watermarks = None
            if self._assembled is not None:
                replicas = self._assembled.replicas
                await replicas.close()
                watermarks = self._logs.high_watermarks() | replicas.high_watermarks()
            await close_logs(
                self._logs,
                watermarks,
                threads=self.settings.num_recovery_threads_per_data_dir,
                tasks=self._tasks,
                jobs=self._jobs,
            )
        await self._close_connections()
        if self._monitor is not None:
            self._monitor.close()
        self._restore_loggers()
        if self.broker is not None:
            took_ms = (self._clock.monotonic_s() - began_s) * 1000
            logger.info("broker %d shut down in %d ms", self.settings.broker_id, took_ms)

    def _close_assembled(self) -> None:
        """Close the controller and the coordinators; requests that wait for them fail."""
        if self._assembled is None or self._requests is None:
            return
        if self._lifecycle is not None:
            self._lifecycle.close()
        self._assembled.controller.close()
        self._requests.close()
        if self._links is not None:
            self._links.close()
        if self._assembled.first_metadata is not None:
            self._assembled.first_metadata.end()
        self._assembled.groups.close()
        self._assembled.transactions.close()
        if self._assembled.telemetry is not None:
            self._assembled.telemetry.close()

    def _restore_loggers(self) -> None:
        if self.broker is not None:
            self.broker.logger_levels.restore()

    def _stop_listening(self) -> None:
        self._imports.stop()
        while self._listening:
            _, bound = self._listening.pop()
            bound.close()

    async def _close_connections(self) -> None:
        """Abort the connections of clients that have not read their responses, and wait."""
        self._abort_connections()
        for _ in range(CLOSE_ITERATIONS_MAX):
            if not len(self._connections):
                break
            await self._tasks.sleep(0)

    def _abort_connections(self) -> None:
        """Abort all connections, and close the rate-limited logs."""
        self._connections.abort_all()
        if self._assembled is not None:
            self._assembled.replicas.refusals.close()
            self._assembled.moves.refusals.close()
            self._assembled.refusals.close()

    def kill(self) -> None:
        """End as by SIGKILL, instead of `stop`: no more responses, no more writes.

        The caller must end the tasks and jobs that it has passed in, and then call `release`.
        """
        self.abort_start()
        self._stop_listening()
        self._abort_connections()
        if self._links is not None:
            self._links.close()
        if self._assembled is not None:
            self._assembled.groups.close()
            self._assembled.transactions.close()
        if self._monitor is not None:
            self._monitor.close()

    def release(self) -> None:
        """After `kill`: release files and locks as they are, for another start."""
        self._restore_loggers()
        if self._coordination is not None:
            self._coordination.abandon()
        if self._logs is not None:
            self._logs.abandon()


def _topic_log_settings(
    settings: BrokerSettings, name: str, configs: Mapping[str, str]
) -> LogSettings:
    """A topic's log settings. StartError for an invalid one, as in Apache Kafka: to ignore a bad
    `retention.ms`, say, could delete records that should be kept."""
    try:
        return log_settings(settings, configs)
    except BadValue as failure:
        raise StartError(f"the configs of topic {name} are not valid: {failure}") from failure
