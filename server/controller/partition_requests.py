"""CreatePartitions and ElectLeaders, while this broker is the controller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from kavka.seams import Random, Tasks
from kavka.server.cluster.control_messages import TopicPartition
from kavka.server.controller.active_controller import ActiveController
from kavka.server.controller.partition_machine import chunks
from kavka.server.controller.partition_validation import NewPartitions, plan_partitions
from kavka.server.controller.request_outcomes import TOPICS_PER_STEP, RequestOutcomes, tree_failed
from kavka.server.controller.topic_validation import PARTITIONS_PER_REQUEST_MAX, too_many_partitions
from kavka.server.controller.tree_store import ControllerMoved
from kavka.wire.errors import ApiError, ErrorCode
from kavka.zktree.api import BadVersion, CoordinationError, NoNode
from kavka.zktree.paths import TopicAssignment


class PartitionRequests:
    """Handles requests: writes to the tree, and waits until the active controller has acted."""

    def __init__(self, controller: ActiveController, *, tasks: Tasks, random: Random) -> None:
        self._controller = controller
        self._tasks = tasks
        self._random = random

    # More partitions

    async def create(
        self, topics: Sequence[NewPartitions], *, timeout_ms: int, validate_only: bool
    ) -> dict[str, ApiError | None]:
        """None or an error by name; see `Controller.create_partitions`."""
        results: dict[str, ApiError | None] = {}
        added = 0
        planned: list[tuple[NewPartitions, TopicAssignment, int]] = []
        with RequestOutcomes(self._controller.ready, self._tasks) as made:
            for number, topic in enumerate(topics):
                if number % TOPICS_PER_STEP == TOPICS_PER_STEP - 1:
                    await self._tasks.sleep(0)
                try:
                    before, version = await self._current(topic.name)
                    if topic.count - len(before.replicas) > PARTITIONS_PER_REQUEST_MAX - added:
                        raise too_many_partitions()
                    after = self._plan(topic, before)
                except ApiError as error:
                    results[topic.name] = error
                    continue
                added += len(after.replicas) - len(before.replicas)
                results[topic.name] = None
                planned.append((topic, after, version))
            # Written after all reads: a read of what is being written has to wait for its fsync.
            for topic, after, version in [] if validate_only else planned:
                ready = partial(self._controller.cluster.is_ready, topic.name, topic.count)
                made.add(topic.name, ready, self._write(topic, after, version))
            return results | await made.wait(timeout_ms)

    async def _current(self, name: str) -> tuple[TopicAssignment, int]:
        """The topic's assignment, and the version of its node. ApiError."""
        known = self._controller.cluster.topics.get(name)
        if known is not None and known.deleting:
            message = "The topic is queued for deletion."
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, message)
        if known is None:  # also if no node can have that name
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        try:
            return await self._controller.store.topic(name)
        except NoNode:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) from None
        except (ControllerMoved, CoordinationError) as error:
            raise tree_failed(error) from None

    def _plan(self, topic: NewPartitions, before: TopicAssignment) -> TopicAssignment:
        brokers = self._controller.cluster.brokers
        racks = {broker_id: broker.info.rack for broker_id, broker in brokers.items()}
        added = plan_partitions(topic, before, racks=racks, random=self._random)
        return replace(before, replicas={**before.replicas, **added})

    async def _write(self, topic: NewPartitions, after: TopicAssignment, version: int) -> None:
        """Write the assignment; if another request has changed it, plan again and retry."""
        while True:
            try:
                await self._controller.store.set_assignment(topic.name, after, version)
                return
            except BadVersion:
                before, version = await self._current(topic.name)
                after = self._plan(topic, before)
            except NoNode:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) from None

    # Elections

    async def elect(
        self, partitions: Sequence[TopicPartition], *, unclean: bool, timeout_ms: int
    ) -> dict[TopicPartition, ApiError | None]:
        """None or an error by partition; see `Controller.elect_leaders`."""
        results: dict[TopicPartition, ApiError | None] = {}
        leaders: dict[str, dict[TopicPartition, int]] = {}
        for chunk in chunks(list(dict.fromkeys(partitions))):
            for tp, result in self._controller.elect(chunk, unclean=unclean).items():
                if isinstance(result, ApiError):
                    results[tp] = result
                else:
                    results[tp] = None
                    leaders.setdefault(tp.topic, {})[tp] = result
            await self._tasks.sleep(0)
        failed = await self._visible(leaders, timeout_ms)
        for topic, error in failed.items():
            results |= dict.fromkeys(leaders[topic], error)
        return results

    async def _visible(
        self, leaders: Mapping[str, Mapping[TopicPartition, int]], timeout_ms: int
    ) -> dict[str, ApiError]:
        """Wait until this broker's metadata has these leaders. Returns errors by topic."""
        with RequestOutcomes(self._controller.ready, self._tasks) as elected:
            for topic, expected in leaders.items():
                elected.add(topic, partial(self._controller.cluster.is_led_by, expected))
            return await elected.wait(timeout_ms)
