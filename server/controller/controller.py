"""Elects the controller, and serves the requests that only the controller can serve.

Topics are created and deleted as in Apache Kafka's ZooKeeper mode: a request writes the topic's
node or its deletion mark, a watch on that node triggers the controller, and the request completes
when the controller's own broker has the new metadata. So topics that another process creates or
marks in the tree are handled the same way, and a deletion continues after a crash.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from kavka.seams import Clock, Random, Tasks
from kavka.server.cluster.control_messages import NO_EPOCH, TopicPartition
from kavka.server.controller import tree_store
from kavka.server.controller.active_controller import ActiveController, Connect, QueuedRead
from kavka.server.controller.channels import BrokerPort
from kavka.server.controller.events import BrokerLeaving, RequestedIsr, StoredState
from kavka.server.controller.partition_requests import PartitionRequests
from kavka.server.controller.partition_validation import NewPartitions
from kavka.server.controller.producer_id_blocks import BLOCK_IDS, next_block
from kavka.server.controller.reassignments import OngoingReassignment, ongoing_reassignments
from kavka.server.controller.request_outcomes import not_controller
from kavka.server.controller.topic_requests import TopicRequests
from kavka.server.controller.topic_validation import (
    Defaults,
    NewTopic,
    TopicResult,
    ValidateConfigs,
)
from kavka.wire.errors import ApiError, ErrorCode
from kavka.zktree import paths
from kavka.zktree.api import SESSION_ENDED, Coordination, SessionEvent, WatchEvent

if TYPE_CHECKING:
    from kavka.server.controller.controller_watch import ControllerWatch
    from kavka.server.controller.leader_balance import BalanceSettings
    from kavka.server.controller.legacy_nodes import LegacyNodes
    from kavka.server.controller.reassignment_requests import Reassignment
    from kavka.server.controller.unclean_elections import UncleanElections

logger = logging.getLogger(__name__)

NO_CONTROLLER: Final = -1


class ControllerSettings(NamedTuple):
    """The broker settings that the controller uses."""

    broker_id: int
    num_partitions: int
    default_replication_factor: int
    inter_broker_listener_name: str
    fast_failover: bool = False
    """Whether brokers that refuse connections count as dead (`kavka.fast.failover.enable`)."""
    balance: BalanceSettings | None = None
    """When preferred replicas are elected automatically; None: never."""
    heeds_legacy_nodes: bool = False
    """Whether the controller reads the nodes with which old tools ask for reassignments and
    elections."""


class Controller:
    """This broker's candidate for controller; it may or may not be the active one."""

    def __init__(
        self,
        settings: ControllerSettings,
        coordination: Coordination,
        port: BrokerPort,
        *,
        connect: Connect | None = None,
        unclean: UncleanElections | None = None,
        validate_configs: ValidateConfigs,
        clock: Clock,
        tasks: Tasks,
        random: Random,
    ) -> None:
        """`connect`: for requests to other brokers; `unclean`: for which topics unclean leader
        elections are enabled. Both are None for a standalone broker."""
        self._settings = settings
        self._unclean = unclean
        self._connect = connect
        self._defaults = Defaults(settings.num_partitions, settings.default_replication_factor)
        self._coordination = coordination
        self._port = port
        self._validate_configs = validate_configs
        self._clock = clock
        self._tasks = tasks
        self._random = random
        self._active_controller: ActiveController | None = None
        self._topics: TopicRequests | None = None
        self._partitions: PartitionRequests | None = None
        self._legacy: LegacyNodes | None = None
        self._closed = False
        self._electing = False
        self._elect_again = False
        self._watched: ControllerWatch | None = None
        self.controller_id = NO_CONTROLLER
        """The active controller's broker id, as last read."""
        coordination.on_session(self._session_event)

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller."""
        return self._active_controller is not None

    @property
    def epoch(self) -> int:
        """The controller epoch while this broker is the controller; 0 while it is not."""
        return 0 if self._active_controller is None else self._active_controller.cluster.epoch

    async def start(self) -> None:
        """Try to become the controller. If elected, wait until this broker has the metadata.

        The broker must be registered already, and serve requests that come through `port`.
        """
        await self._elect()
        if self._active_controller is not None:
            await self._active_controller.wait_until_idle()

    async def rejoin(self) -> None:
        """Try to become the controller, in a new session in which the broker is registered."""
        await self._elect()

    def close(self) -> None:
        """Resign. The broker's registration ends with its session."""
        self._closed = True
        self._watch(None)
        self._resign()

    async def wait_until_idle(self) -> None:
        """Wait until the active controller is idle."""
        if self._active_controller is not None:
            await self._active_controller.wait_until_idle()

    # Election

    def _controller_changed(self, event: WatchEvent) -> None:
        if not self._closed:
            self._tasks.spawn(self._reelect(), name="controller election")

    async def _reelect(self) -> None:
        try:
            await self._elect()
        except SESSION_ENDED:
            return  # the session event handles it

    async def _elect(self) -> None:
        """Elect a controller unless there is one. Only one election runs at a time."""
        self._elect_again = True
        if self._electing:
            return
        self._electing = True
        try:
            while self._elect_again and not self._closed:
                self._elect_again = False
                await self._elect_once()
        finally:
            self._electing = False

    async def _elect_once(self) -> None:
        broker_id = self._settings.broker_id
        current = await tree_store.current_controller(self._coordination, self._controller_changed)
        self._watch(None)
        if current is not None and current.session_id == self._coordination.session_id:
            if self._active_controller is not None:
                return
            await self._coordination.delete(paths.CONTROLLER)  # from an earlier term of this broker
        else:
            self._resign()
            if current is not None:
                self.controller_id = current.broker_id
                if current.broker_id != broker_id:
                    self._watch(current)
                elif self._settings.fast_failover:  # of an earlier process: this one is registered
                    self._elect_again = True
                    await tree_store.depose(self._coordination, current)
                return
        term = await tree_store.elect(self._coordination, broker_id, clock=self._clock)
        if term is None:
            self._elect_again = True  # another broker won
        elif not self._closed:
            logger.info("broker %d became controller with epoch %d", broker_id, term.epoch)
            self._begin_term(term)

    def _begin_term(self, term: tree_store.Term) -> None:
        self.controller_id = self._settings.broker_id
        self._active_controller = ActiveController(
            term,
            self._coordination,
            broker_id=self._settings.broker_id,
            port=self._port,
            connect=self._connect,
            listener=self._settings.inter_broker_listener_name,
            on_moved=self._controller_moved,
            fast_failover=self._settings.fast_failover,
            balance=self._settings.balance,
            unclean=self._unclean,
            first_reads=self._begin_legacy if self._settings.heeds_legacy_nodes else None,
            tasks=self._tasks,
            random=self._random,
        )
        self._partitions = PartitionRequests(
            self._active_controller, tasks=self._tasks, random=self._random
        )
        self._topics = TopicRequests(
            self._active_controller,
            defaults=self._defaults,
            validate_configs=self._validate_configs,
            tasks=self._tasks,
            random=self._random,
        )

    def _begin_legacy(self, active: ActiveController) -> Sequence[QueuedRead]:
        # imported in clusters only
        from kavka.server.controller.legacy_nodes import LegacyNodes

        self._legacy = LegacyNodes(active, self._tasks)
        return self._legacy.load_reassignments, self._legacy.load_elections

    def _watch(self, current: tree_store.ControllerRegistration | None) -> None:
        """Depose the controller, which is another broker, when its address refuses connections."""
        if self._watched is not None:
            self._watched.close()
            self._watched = None
        if current is None or self._connect is None or not self._settings.fast_failover:
            return
        # imported in clusters only
        from kavka.server.controller.controller_watch import ControllerWatch

        self._watched = ControllerWatch(self._coordination, current, self._connect, self._tasks)

    def _controller_moved(self) -> None:
        """Resign, because a write was fenced: another broker has become the controller."""
        if self._active_controller is not None:
            logger.warning(
                "controller epoch %d ended: another broker became controller", self.epoch
            )
            self._resign()
            self._tasks.spawn(self._reelect(), name="controller election")

    def _resign(self) -> None:
        active, self._active_controller = self._active_controller, None
        self._topics = self._partitions = self._legacy = None
        self.controller_id = NO_CONTROLLER
        if active is not None:
            active.close(not_controller())

    def _session_event(self, event: SessionEvent) -> None:
        if event is SessionEvent.EXPIRED:
            self._resign()

    def may_elect_unclean(self, topic: str | None = None) -> None:
        """Unclean leader elections have been enabled in a topic, or (None) by default: elect
        leaders for partitions that have none."""
        if self._active_controller is not None:
            self._active_controller.may_elect_unclean(topic)

    # Requests

    async def create_topics(
        self, topics: Sequence[NewTopic], *, timeout_ms: int, validate_only: bool
    ) -> Mapping[str, TopicResult]:
        """Create topics. Returns a result by topic name.

        NONE: clients of this broker can produce to the topic now. REQUEST_TIMED_OUT: the topic
        was created, but was not ready within `timeout_ms`. Names must be unique.
        """
        try:
            await self._loaded()
        except ApiError as error:
            return {topic.name: TopicResult(error.code, error.message) for topic in topics}
        assert self._topics is not None
        return await self._topics.create(topics, timeout_ms=timeout_ms, validate_only=validate_only)

    async def delete_topics(self, names: Sequence[str], timeout_ms: int) -> Mapping[str, ErrorCode]:
        """Delete topics. Returns an error code by topic name.

        NONE: this broker has deleted its replicas and the topic's nodes, so the name is free.
        After REQUEST_TIMED_OUT the deletion continues.
        """
        try:
            await self._loaded()
        except ApiError as error:
            return dict.fromkeys(names, error.code)
        assert self._topics is not None
        return await self._topics.delete(names, timeout_ms)

    async def create_partitions(
        self, topics: Sequence[NewPartitions], *, timeout_ms: int, validate_only: bool
    ) -> Mapping[str, ApiError | None]:
        """Add partitions to topics. Returns None or an error by topic name.

        None: clients of this broker can produce to the new partitions now. After
        REQUEST_TIMED_OUT they are still created. Names must be unique.
        """
        try:
            await self._loaded()
        except ApiError as error:
            return {topic.name: error for topic in topics}
        assert self._partitions is not None
        return await self._partitions.create(
            topics, timeout_ms=timeout_ms, validate_only=validate_only
        )

    async def elect_leaders(
        self, partitions: Sequence[TopicPartition] | None, *, unclean: bool, timeout_ms: int
    ) -> Mapping[TopicPartition, ApiError | None]:
        """Elect the preferred replica of each partition, or, if `unclean`, any live replica of a
        partition without a leader. `partitions` is None for all.

        Returns None or an error by partition, when this broker's metadata has the new leaders.
        ApiError when this broker is not the controller.
        """
        active = await self._loaded()
        assert self._partitions is not None
        requested = list(active.cluster.all_partitions()) if partitions is None else partitions
        return await self._partitions.elect(requested, unclean=unclean, timeout_ms=timeout_ms)

    async def reassign(
        self, reassignments: Sequence[Reassignment], *, timeout_ms: int
    ) -> Sequence[ApiError | None]:
        """Reassign partitions to other replicas, or cancel that.

        Returns None or an error for each, when the reassignments have begun; after
        REQUEST_TIMED_OUT they begin later. ApiError when this broker is not the controller.
        """
        # imported for the first of these requests
        from kavka.server.controller.reassignment_requests import ReassignmentRequests

        active = await self._loaded()
        requests = ReassignmentRequests(active, self._legacy, tasks=self._tasks)
        return await requests.reassign(reassignments, timeout_ms=timeout_ms)

    async def reassignments(
        self, partitions: Sequence[TopicPartition] | None
    ) -> Sequence[OngoingReassignment]:
        """The ongoing reassignments of these partitions, or of all.

        ApiError when this broker is not the controller.
        """
        return list(ongoing_reassignments((await self._loaded()).cluster, partitions))

    async def topic_ids(self) -> dict[str, UUID]:
        """The ids of all topics, as the controller knows them. ApiError if it is not active."""
        topics = (await self._loaded()).cluster.topics
        return {name: topic.topic_id for name, topic in topics.items()}

    async def alter_isrs(
        self, broker: tuple[int, int], requests: Mapping[TopicPartition, RequestedIsr]
    ) -> Mapping[TopicPartition, StoredState | ApiError]:
        """Change ISRs as their leader asks (AlterPartition): `broker` is its id and epoch. Returns
        the partitions' present states, or errors. ApiError for the whole request: NOT_CONTROLLER,
        STALE_BROKER_EPOCH."""
        active = await self._loaded()
        known = active.cluster.brokers.get(broker[0])
        if known is None or known.epoch != broker[1]:
            raise ApiError(ErrorCode.STALE_BROKER_EPOCH)
        try:
            return await active.alter_isrs(requests)
        except tree_store.TERM_ENDED:
            raise not_controller() from None

    async def shut_down(self, broker_id: int, epoch: int) -> Sequence[TopicPartition]:
        """Controlled shutdown: a broker is going to stop, so other brokers become leaders of its
        partitions, and it leaves the ISRs. Returns the partitions that it still leads, because no
        other replica can. ApiError: NOT_CONTROLLER, BROKER_NOT_AVAILABLE, STALE_BROKER_EPOCH."""
        active = await self._loaded()
        known = active.cluster.brokers.get(broker_id)
        if known is None:
            raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE)
        if epoch != NO_EPOCH and known.epoch != epoch:
            raise ApiError(ErrorCode.STALE_BROKER_EPOCH)
        logger.info("broker %d is going to stop; moving its leaderships", broker_id)
        active.put(BrokerLeaving(broker_id, known.epoch))
        await active.wait_until_idle()
        if active is not self._active_controller:
            raise not_controller()
        return list(active.cluster.led_by(broker_id))

    async def _loaded(self) -> ActiveController:
        """The active controller, when it has read the tree. ApiError NOT_CONTROLLER."""
        active = self._active_controller
        if active is None:
            raise not_controller()
        await active.wait_until_loaded()
        return active

    async def allocate_producer_ids(self) -> tuple[int, int]:
        """Allocate a block of producer ids to this broker: its first id, and its size. ApiError.
        Unlike in Apache Kafka, a broker takes its blocks from the tree even if it is not the
        controller."""
        block = await next_block(self._coordination, self._settings.broker_id)
        return block.first, BLOCK_IDS

    async def allocate_producer_ids_to(self, broker_id: int, epoch: int) -> tuple[int, int]:
        """The same for another broker with this broker epoch. Also ApiError NOT_CONTROLLER,
        BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH."""
        known = (await self._loaded()).cluster.brokers.get(broker_id)
        if known is None:
            raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED)
        if known.epoch != epoch:
            raise ApiError(ErrorCode.STALE_BROKER_EPOCH)
        return (await next_block(self._coordination, broker_id)).first, BLOCK_IDS
