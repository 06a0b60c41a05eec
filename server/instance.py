"""One broker from start to stop, on the caller's event loop.

The order of both is on this page. `kavka start` runs one in a process of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from kavka.log.dir_names import Meta
from kavka.log.errors import LoadingStopped, OrphanedDirectoryError
from kavka.log.fs import FileSystem
from kavka.log.manager import LogManager
from kavka.log.settings import LogSettings
from kavka.seams import Clock, Jobs, Listening, Network, Random, Tasks
from kavka.server.assembly import assemble
from kavka.server.broker import Broker
from kavka.server.cluster import logger_levels
from kavka.server.cluster.broker_overrides import DynamicSettings
from kavka.server.cluster.entity_configs import TopicConfigs
from kavka.server.cluster.feature_levels import Features
from kavka.server.config import BrokerSettings, log_settings
from kavka.server.config.listeners import Listener
from kavka.server.config.live import LiveSettings
from kavka.server.config.value_types import BadValue
from kavka.server.connections.connection import Connection
from kavka.server.connections.dispatch import IMPORTED_LATER, Dispatcher
from kavka.server.connections.registry import Connections, Gate
from kavka.server.coordination.broker_registration import (
    cluster_id,
    prepare_tree,
    register_broker,
    tell_directory_failed,
)
from kavka.server.coordination.embedded import open_embedded
from kavka.server.monitoring.health import BrokerState, Health
from kavka.server.replica.controller_requests import ControllerRequests
from kavka.server.replica.log_cleaner import LogCleaner
from kavka.server.replica.log_dirs import claim_directories
from kavka.server.replica.log_maintenance import LogMaintenance
from kavka.server.replica.log_startup import LogStartup, close_logs
from kavka.server.runtime.lazy_imports import Imports
from kavka.zktree.api import Coordination, SessionEvent
from kavka.zktree.paths import CLUSTER_ID, BrokerInfo, Endpoint, random_uuid, uuid_text
from kavka.zktree.storage_format import Corrupt

if TYPE_CHECKING:
    from kavka.server.monitoring.pages import Monitor

logger = logging.getLogger(__name__)

ORPHAN_WAIT_S: Final = 30.0
"""How long a start waits for a process of the broker before, which was killed, to end. It may be in
the middle of an fsync."""

ORPHAN_CHECK_S: Final = 0.1

HANG_UP_TURNS_MAX: Final = 100
"""Turns of the loop in which sockets that were cut get closed; it takes them two or three."""


class StartError(Exception):
    """The broker can't start; the message says why and what to do."""


class Instance:
    """A broker. `start` and `stop` are called once each; `stop` also after a failed start."""

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
    ) -> None:
        """`on_failure` is called when the broker can't go on and is to be stopped."""
        self.live = LiveSettings(settings)
        self.has_failed = False
        self._why_failed: str | None = None
        self._on_failure = on_failure
        self.addresses: Mapping[str, tuple[str, int]] = {}
        """Where clients are told to connect, by listener; known after the start."""
        self.bound: Mapping[str, tuple[str, int]] = {}
        """Where it listens, by listener, with * for all interfaces; known after the start."""
        self._clock = clock
        self._tasks = tasks
        self._jobs = jobs
        self._random = random
        self._fs = fs
        self._network = network
        self._connections = Connections(self.live, clock=clock, tasks=tasks)
        self._listening: list[tuple[Listener, Listening]] = []
        self._logs: LogManager | None = None
        self._loader: LogStartup | None = None
        self._given_up = False
        self._coordination: Coordination | None = None
        self._parts: Broker | None = None
        self._requests: ControllerRequests | None = None
        self._imports = Imports(tasks, IMPORTED_LATER)
        self._maintenance: LogMaintenance | None = None
        self._cleaner: LogCleaner | None = None
        self.broker: Broker | None = None
        """The parts, once clients are served."""
        self._monitor: Monitor | None = None
        self.state = BrokerState.NOT_RUNNING
        self.http_port: int | None = None
        """Where pages are served over HTTP, if they are; known after the start."""

    @property
    def settings(self) -> BrokerSettings:
        """The settings in force."""
        return self.live.now

    async def start(self) -> None:
        """Serve clients. StartError, or StorageError of the log directories, when that can't be;
        LoadingStopped after `give_up`."""
        settings = self.settings
        self.state = BrokerState.STARTING
        await self._open_monitor()
        logs = LogManager(self._fs, settings.log_dirs, clock=self._clock, random=self._random)
        meta = await self._open(logs)
        self._logs = logs
        coordination = self._coordination = await self._open_coordination()
        coordination.on_session(self._session_event)
        await self._refuse_logs_of_others(coordination, meta)
        await prepare_tree(coordination)
        cluster = await cluster_id(coordination, uuid_text(random_uuid(self._random)))
        ours = self._checked(meta, Meta(cluster, settings.broker_id))
        lost = settings.lost_log_dirs
        await claim_directories(logs, coordination, ours, declared_lost=lost, random=self._random)
        self._check_first_directory()
        topic_configs = TopicConfigs(coordination, tasks=self._tasks)
        await topic_configs.load()
        DynamicSettings(self.live, topic_configs).apply()
        features = Features(self.live, coordination, self._tasks)
        await features.load()
        settings = self.settings
        self._loader = LogStartup(
            logs,
            lambda topic: _of_topic(settings, topic, topic_configs.get(topic)),
            threads=settings.num_recovery_threads_per_data_dir,
            clock=self._clock,
            tasks=self._tasks,
            jobs=self._jobs,
        )
        if self._given_up:
            self._loader.give_up()
        await self._loader.load()
        await self._bind()
        broker = self._assemble(logs, coordination, topic_configs, features, cluster)
        broker.epoch = await register_broker(
            coordination, settings.broker_id, self._info(), clock=self._clock
        )
        if not self._given_up:
            await broker.controller.start()
        if self._given_up:
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
        broker.moves.start(self._maintenance.checkpoint)
        await self._accept(broker)
        self.broker = broker
        self.state = BrokerState.RUNNING
        self._imports.begin()

    async def _open(self, logs: LogManager) -> Meta | None:
        """Lock the directories. The first has the metadata; others that are new are made when those
        were asked about them. A process of a broker that was killed is waited for."""
        ends_s = self._clock.monotonic_s() + ORPHAN_WAIT_S
        told = False
        while True:
            try:
                return logs.open(make=logs.directories[:1])
            except OrphanedDirectoryError as in_use:
                if self._given_up or self._clock.monotonic_s() >= ends_s:
                    raise
                if not told:
                    logger.warning("%s; waiting for its end", in_use)
                told = True
            await self._tasks.sleep(ORPHAN_CHECK_S)

    def _assemble(
        self,
        logs: LogManager,
        coordination: Coordination,
        topic_configs: TopicConfigs,
        features: Features,
        cluster: str,
    ) -> Broker:
        broker, self._requests = assemble(
            self.live,
            logs,
            coordination,
            topic_configs,
            features,
            cluster,
            clock=self._clock,
            tasks=self._tasks,
            jobs=self._jobs,
            random=self._random,
            fs=self._fs,
        )
        self._parts = broker
        broker.replicas.failures.on_failure = self._directory_failed
        return broker

    async def _open_monitor(self) -> None:
        """Serve pages over HTTP, if they are asked for, from now on to the end of the stop."""
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
        """How the broker is."""
        problems = []
        if self._why_failed is not None:
            problems.append(self._why_failed)
        failed = {} if self._logs is None else self._logs.failed_directories
        problems += [f"the log directory {path} failed: {why}" for path, why in failed.items()]
        if self.broker is not None:
            coordinators = self.broker.groups.problem, self.broker.transactions.problem
            problems += [problem for problem in coordinators if problem is not None]
        cluster = None if self.broker is None else self.broker.metadata.image.cluster_id
        return Health(self.state, tuple(problems), self.settings.broker_id, cluster)

    def _check_first_directory(self) -> None:
        assert self._logs is not None
        failure = self._logs.failed_directories.get(self._logs.directories[0])
        if failure is not None:
            raise StartError(
                f"{self.settings.log_dirs[0]}, the first in log.dirs, holds the cluster's metadata "
                f"and can't be used: {failure}"
            )

    async def _open_coordination(self) -> Coordination:
        self._check_first_directory()
        assert self._logs is not None
        directory = self.settings.log_dirs[0]
        try:
            return await open_embedded(
                self._fs, directory, clock=self._clock, tasks=self._tasks, jobs=self._jobs
            )
        except Corrupt as failure:
            raise StartError(
                f"the cluster's metadata is damaged: {failure}; nothing was changed. Check the "
                "disk, and bring log.dirs back from a copy made while the broker was stopped"
            ) from failure

    async def _refuse_logs_of_others(self, coordination: Coordination, meta: Meta | None) -> None:
        """A directory that has an owner, but no metadata of ours, was served by Apache Kafka."""
        if meta is None or await coordination.exists(CLUSTER_ID) is not None:
            return
        assert self._logs is not None
        first = self.settings.log_dirs[0]
        if self._logs.absolute(first) in self._logs.unclaimed_directories:
            raise StartError(
                f"{first}, the first in log.dirs, has neither meta.properties nor metadata, but "
                f"others in log.dirs belong to cluster {meta.cluster_id}: is a disk not mounted? "
                "Mount it or put the directory back, or name the one first that was first before"
            )
        raise StartError(
            f"{first} belongs to cluster {meta.cluster_id}, of whose topics there is no metadata "
            "here: Kavka keeps it in the first of log.dirs, which may be another one, and Apache "
            "Kafka in ZooKeeper, from where `kavka storage import` brings it. What a KRaft broker "
            "wrote can't be taken over: take another directory"
        )

    def _session_event(self, event: SessionEvent) -> None:
        """Without a session nothing can be decided or remembered any more: better no broker."""
        if event is SessionEvent.EXPIRED:
            self._fail("the metadata can't be written any more")

    def _fail(self, why: str) -> None:
        if not self.has_failed:
            logger.error("%s; stopping", why)
            self.has_failed = True
            self._why_failed = why
            self._on_failure()

    def _directory_failed(self) -> None:
        """Others go on; without any there is nothing to serve."""
        assert self._logs is not None
        if not self._logs.online_directories:
            self._fail("no log directory can be used any more")
        elif self._coordination is not None:
            told = tell_directory_failed(self._coordination, self.settings.broker_id)
            self._tasks.spawn(told, name="report of a failed log directory")

    def _checked(self, found: Meta | None, ours: Meta) -> Meta:
        """The directories must be this broker's, of this cluster."""
        if found is None or found == ours:
            return ours
        raise StartError(
            f"{self.settings.log_dirs[0]} belongs to broker {found.broker_id} of cluster "
            f"{found.cluster_id}, this is broker {ours.broker_id} of cluster {ours.cluster_id}; "
            "set broker.id, or use another directory in log.dirs"
        )

    # -- listeners ------------------------------------------------------------------------

    async def _bind(self) -> None:
        """Take the addresses; clients are let in at the end of the start."""
        for listener in self.settings.listeners:
            self._listening.append((listener, await self._listen(listener, "listeners")))
        bound_ports = {listener.name: bound.port for listener, bound in self._listening}
        self.bound = {
            one.name: (one.host or "*", bound_ports[one.name]) for one, _ in self._listening
        }
        self.addresses = {
            told.name: (told.host or self._network.host_name(), told.port or bound_ports[told.name])
            for told in self.settings.advertised_listeners
        }

    async def _listen(self, listener: Listener, setting: str) -> Listening:
        try:
            return await self._network.bind(listener.host, listener.port)
        except OSError as failure:
            raise StartError(
                f"{listener.name} can't listen on {listener.host}:{listener.port}: "
                f"{failure.strerror or failure}; choose another address in '{setting}'"
            ) from failure

    def _info(self) -> BrokerInfo:
        return BrokerInfo(
            tuple(
                Endpoint(name, "PLAINTEXT", host, port)
                for name, (host, port) in self.addresses.items()
            ),
            self.settings.broker_rack,
        )

    async def _accept(self, broker: Broker) -> None:
        dispatcher = Dispatcher(broker)

        def connection(gate: Gate, host: str) -> Connection:
            return Connection(
                gate,
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
        told_ports = {told.name: told.port for told in self.settings.advertised_listeners}
        for listener, bound in self._listening:
            is_dialled = listener.name in self.settings.dialled_listeners
            port = told_ports.get(listener.name, 0) if is_dialled else None
            await self._connections.open(Gate(listener.name, bound, port), connection)

    # -- the end --------------------------------------------------------------------------

    def give_up(self) -> None:
        """Have a start fail soon: to load all logs may take minutes. One that lets clients in
        already goes on. In either case `stop` is to be called."""
        self._given_up = True
        if self._loader is not None:
            self._loader.give_up()
        if self._parts is not None and self.state is BrokerState.STARTING:
            self._parts.controller.close()

    async def stop(self) -> None:
        """Let nobody in, finish what runs, and leave the files as after a clean shutdown."""
        began_s = self._clock.monotonic_s()
        self.state = BrokerState.SHUTTING_DOWN
        self._stop_listening()
        self._connections.close_all()
        await self._tasks.sleep(0)  # what was answered leaves the transports
        self._close_parts()
        if self._cleaner is not None:
            await self._cleaner.stop()
        if self._parts is not None:
            await self._parts.moves.stop()
        if self._maintenance is not None:
            await self._maintenance.stop()
        if self._coordination is not None:
            await self._coordination.close()
        if self._loader is not None:
            await self._loader.ended()
        if self._logs is not None and (self._loader is None or not self._loader.loaded):
            self._logs.unlock()  # what they hold was not looked at, or isn't ours: nothing is said
        elif self._logs is not None:
            watermarks = None
            if self._parts is not None:
                replicas = self._parts.replicas
                await replicas.flusher.wait_idle()
                watermarks = self._logs.high_watermarks() | replicas.high_watermarks()
            await close_logs(
                self._logs,
                watermarks,
                threads=self.settings.num_recovery_threads_per_data_dir,
                tasks=self._tasks,
                jobs=self._jobs,
            )
        await self._hang_up()
        if self._monitor is not None:
            self._monitor.close()
        self._restore_loggers()
        if self.broker is not None:
            took_ms = (self._clock.monotonic_s() - began_s) * 1000
            logger.info("broker %d shut down in %d ms", self.settings.broker_id, took_ms)

    def _close_parts(self) -> None:
        """Nothing is decided any more, and who waits for a coordinator is told."""
        if self._parts is None or self._requests is None:
            return
        self._parts.controller.close()
        self._requests.close()
        self._parts.groups.close()
        self._parts.transactions.close()
        if self._parts.telemetry is not None:
            self._parts.telemetry.close()

    def _restore_loggers(self) -> None:
        if self.broker is not None:
            logger_levels.restore(self.broker.loggers_before)

    def _stop_listening(self) -> None:
        self._imports.stop()
        while self._listening:
            _, bound = self._listening.pop()
            bound.close()

    async def _hang_up(self) -> None:
        """Cut off who has not read the last answers by now, and see all sockets closed."""
        self._cut_off()
        for _ in range(HANG_UP_TURNS_MAX):
            if not len(self._connections):
                break
            await self._tasks.sleep(0)

    def _cut_off(self) -> None:
        """Close all connections at once; there is nobody left to make lines for the log."""
        self._connections.abort_all()
        if self._parts is not None:
            self._parts.replicas.refusals.close()
            self._parts.moves.refusals.close()
            self._parts.refusals.close()

    def kill(self) -> None:
        """End as by SIGKILL: from now on nobody is answered and nothing is written.

        In place of `stop`. Ending the tasks and jobs is up to who handed them in; when none runs
        any more, `release` is to be called.
        """
        self.give_up()
        self._stop_listening()
        self._cut_off()
        if self._parts is not None:
            self._parts.groups.close()
            self._parts.transactions.close()
        if self._monitor is not None:
            self._monitor.close()

    def release(self) -> None:
        """After `kill`: let go of files and locks as they are, for another start."""
        self._restore_loggers()
        if self._coordination is not None:
            self._coordination.abandon()
        if self._logs is not None:
            self._logs.abandon()


def _of_topic(settings: BrokerSettings, name: str, configs: Mapping[str, str]) -> LogSettings:
    """As Apache Kafka, no guesses: who leaves out a bad `retention.ms` may delete what was kept."""
    try:
        return log_settings(settings, configs)
    except BadValue as failure:
        raise StartError(f"the configs of topic {name} are not valid: {failure}") from failure
