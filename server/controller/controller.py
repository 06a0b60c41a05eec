"""This broker's part in being the controller: election, and requests that only a controller does.

Topics are created and deleted as in Apache Kafka's ZooKeeper mode: a request writes the topic's
node or its deletion mark, the watch on it sets the controller to work, and the request is answered
when the controller's own broker knows the outcome. So topics that others make or mark in the same
tree are handled alike, and a deletion that a crash cut short goes on after it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from kavka.seams import Clock, Random, Tasks
from kavka.server.cluster.control_messages import TopicPartition
from kavka.server.controller import tree_store
from kavka.server.controller.active_controller import ActiveController
from kavka.server.controller.channels import BrokerPort
from kavka.server.controller.partition_requests import PartitionRequests
from kavka.server.controller.partition_validation import NewPartitions
from kavka.server.controller.producer_id_blocks import BLOCK_IDS, next_block
from kavka.server.controller.reassignments import UnderWay, reassign, under_way
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
from kavka.zktree.api import (
    Coordination,
    SessionEvent,
    SessionExpired,
    WatchEvent,
)

logger = logging.getLogger(__name__)

NO_CONTROLLER: Final = -1


class ControllerSettings(NamedTuple):
    """What of the broker's settings the controller honours."""

    broker_id: int
    num_partitions: int
    default_replication_factor: int
    inter_broker_listener_name: str


class Controller:
    """The controller of this broker, which may or may not be the cluster's."""

    def __init__(
        self,
        settings: ControllerSettings,
        coordination: Coordination,
        port: BrokerPort,
        *,
        validate_configs: ValidateConfigs,
        clock: Clock,
        tasks: Tasks,
        random: Random,
    ) -> None:
        self._settings = settings
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
        self._closed = False
        self._looking = False
        self._look_again = False
        self.controller_id = NO_CONTROLLER
        """The cluster's controller as far as is known."""
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
        """Stand for election. If elected: return when this broker has been told everything.

        The broker is registered already and takes what `port` brings.
        """
        await self._elect()
        if self._active_controller is not None:
            await self._active_controller.settled()

    def close(self) -> None:
        """Be the controller no more; the registration goes with the session."""
        self._closed = True
        self._resign()

    async def settled(self) -> None:
        """Wait until the controller has nothing left to do."""
        if self._active_controller is not None:
            await self._active_controller.settled()

    # Election

    def _controller_changed(self, event: WatchEvent) -> None:
        if not self._closed:
            self._tasks.spawn(self._see_controller(), name="controller election")

    async def _see_controller(self) -> None:
        try:
            await self._elect()
        except SessionExpired:
            return  # which has its own event

    async def _elect(self) -> None:
        """See who the controller is, and become it if there is none; one look at a time."""
        self._look_again = True
        if self._looking:
            return
        self._looking = True
        try:
            while self._look_again and not self._closed:
                self._look_again = False
                await self._look()
        finally:
            self._looking = False

    async def _look(self) -> None:
        current = await tree_store.current_controller(self._coordination, self._controller_changed)
        if current is not None and current.session_id == self._coordination.session_id:
            if self._active_controller is not None:
                return
            await self._coordination.delete(paths.CONTROLLER)  # left by a term that ended
        else:
            self._resign()
            if current is not None:
                self.controller_id = current.broker_id
                return
        broker_id = self._settings.broker_id
        term = await tree_store.elect(self._coordination, broker_id, clock=self._clock)
        if term is None:
            self._look_again = True  # another one was quicker
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
            listener=self._settings.inter_broker_listener_name,
            on_moved=self._moved,
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

    def _moved(self) -> None:
        """A write was refused: somebody has taken over."""
        if self._active_controller is not None:
            logger.warning(
                "controller epoch %d ended: another broker became controller", self.epoch
            )
            self._resign()
            self._tasks.spawn(self._see_controller(), name="controller election")

    def _resign(self) -> None:
        active, self._active_controller = self._active_controller, None
        self._topics = self._partitions = None
        self.controller_id = NO_CONTROLLER
        if active is not None:
            active.close(not_controller())

    def _session_event(self, event: SessionEvent) -> None:
        if event is SessionEvent.EXPIRED:
            self._resign()

    # Requests

    async def create_topics(
        self, topics: Sequence[NewTopic], *, timeout_ms: int, validate_only: bool
    ) -> Mapping[str, TopicResult]:
        """Create topics; a result by name.

        One of NONE comes when clients of this broker can produce to the topic at once. One of
        REQUEST_TIMED_OUT means that the topic is made, but is not ready after `timeout_ms`. No
        name may come twice.
        """
        if self._topics is None:
            error = not_controller()
            return {topic.name: TopicResult(error.code, error.message) for topic in topics}
        return await self._topics.create(topics, timeout_ms=timeout_ms, validate_only=validate_only)

    async def delete_topics(self, names: Sequence[str], timeout_ms: int) -> Mapping[str, ErrorCode]:
        """Delete topics; a code by name.

        NONE comes when this broker has deleted its replicas and the topic's nodes are gone, so the
        name is free. After REQUEST_TIMED_OUT the deletion goes on.
        """
        if self._topics is None:
            return dict.fromkeys(names, ErrorCode.NOT_CONTROLLER)
        return await self._topics.delete(names, timeout_ms)

    async def create_partitions(
        self, topics: Sequence[NewPartitions], *, timeout_ms: int, validate_only: bool
    ) -> Mapping[str, ApiError | None]:
        """Add partitions to topics; None or an error by name.

        None comes when clients of this broker can produce to the new partitions at once. After
        REQUEST_TIMED_OUT they come all the same. No name may come twice.
        """
        if self._partitions is None:
            return {topic.name: not_controller() for topic in topics}
        return await self._partitions.create(
            topics, timeout_ms=timeout_ms, validate_only=validate_only
        )

    async def elect_leaders(
        self, partitions: Sequence[TopicPartition] | None, *, unclean: bool, timeout_ms: int
    ) -> Mapping[TopicPartition, ApiError | None]:
        """Let the preferred replicas lead, or, `unclean`, any where there is no leader.

        Of these partitions, or all. None, which comes when this broker tells clients the new
        leader, or an error by partition. ApiError when this broker is not the controller.
        """
        active = self._active()
        assert self._partitions is not None
        asked = list(active.cluster.all_partitions()) if partitions is None else partitions
        return await self._partitions.elect(asked, unclean=unclean, timeout_ms=timeout_ms)

    def reassign(
        self, targets: Sequence[tuple[TopicPartition, Sequence[int] | None]]
    ) -> Sequence[ApiError | None]:
        """Give partitions other replicas, or, for None, back those before a reassignment.

        None or an error for each. ApiError when this broker is not the controller.
        """
        cluster = self._active().cluster
        results: list[ApiError | None] = []
        for where, target in targets:
            try:
                reassign(cluster, where, target)
            except ApiError as error:
                results.append(error.with_traceback(None))  # else a cycle for each, by its frame
            else:
                results.append(None)
        return results

    def reassignments(self, partitions: Sequence[TopicPartition] | None) -> Sequence[UnderWay]:
        """Those of these partitions, or of all, that are being given other replicas.

        ApiError when this broker is not the controller.
        """
        return list(under_way(self._active().cluster, partitions))

    def _active(self) -> ActiveController:
        if self._active_controller is None:
            raise not_controller()
        return self._active_controller

    async def allocate_producer_ids(self) -> tuple[int, int]:
        """The first id of a fresh block and how many follow on each other; ApiError."""
        if self._active_controller is None:
            raise not_controller()
        block = await next_block(self._coordination, self._settings.broker_id)
        return block.first, BLOCK_IDS
