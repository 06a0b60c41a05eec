"""CreateTopics and DeleteTopics, while this broker is the controller."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from uuid import UUID

from kavka.seams import Random, Tasks
from kavka.server.controller.active_controller import ActiveController
from kavka.server.controller.request_outcomes import TOPICS_PER_STEP, RequestOutcomes, never
from kavka.server.controller.topic_validation import (
    Defaults,
    NewTopic,
    TopicResult,
    ValidateConfigs,
    check_total,
    plan_topic,
)
from kavka.wire.errors import ApiError, ErrorCode
from kavka.zktree.api import NoNode
from kavka.zktree.paths import random_uuid, uuid_text

logger = logging.getLogger(__name__)


class TopicRequests:
    """Handles requests: writes to the tree, and waits until the active controller has acted."""

    def __init__(
        self,
        controller: ActiveController,
        *,
        defaults: Defaults,
        validate_configs: ValidateConfigs,
        tasks: Tasks,
        random: Random,
    ) -> None:
        self._controller = controller
        self._defaults = defaults
        self._validate_configs = validate_configs
        self._tasks = tasks
        self._random = random
        self._creating: dict[RequestOutcomes, dict[str, None]] = {}
        """Topics of pending requests; the active controller may not know them yet."""

    async def create(
        self, topics: Sequence[NewTopic], *, timeout_ms: int, validate_only: bool
    ) -> dict[str, TopicResult]:
        """A result by name; see `Controller.create_topics`."""
        try:
            check_total(topics, self._defaults)
        except ApiError as error:
            return {topic.name: TopicResult(error.code, error.message) for topic in topics}
        results: dict[str, TopicResult] = {}
        with RequestOutcomes(self._controller.ready, self._tasks) as made:
            self._creating[made] = {}
            try:
                for topic in topics:
                    results[topic.name] = self._begin(topic, made, validate_only=validate_only)
                    await self._tasks.sleep(0)
                failed = await made.wait(timeout_ms)
            finally:
                del self._creating[made]
        for name, failure in failed.items():
            topic_id = results[name].topic_id
            results[name] = TopicResult(failure.code, failure.message)
            if failure.code is ErrorCode.REQUEST_TIMED_OUT:  # it was created nevertheless
                results[name] = results[name]._replace(topic_id=topic_id)
        return results

    def _begin(self, topic: NewTopic, made: RequestOutcomes, *, validate_only: bool) -> TopicResult:
        """Check a topic and, unless `validate_only`, start to create it."""
        try:
            replicas = self._plan(topic, made)
        except ApiError as error:
            return TopicResult(error.code, error.message)
        topic_id = random_uuid(self._random)
        if not validate_only:
            configs = {key: value for key, value in topic.configs.items() if value is not None}
            self._creating[made][topic.name] = None
            write = self._create(topic.name, topic_id, replicas, configs)
            made.add(topic.name, partial(self._controller.cluster.is_ready, topic.name), write)
        return TopicResult(ErrorCode.NONE, None, topic_id, len(replicas), len(replicas[0]))

    async def _create(
        self,
        name: str,
        topic_id: UUID,
        replicas: Mapping[int, tuple[int, ...]],
        configs: Mapping[str, str],
    ) -> None:
        await self._controller.store.create_topic(name, topic_id, replicas, configs)
        logger.info(
            "created topic %s with topic id %s: %d partitions, replication factor %d",
            name,
            uuid_text(topic_id),
            len(replicas),
            len(replicas[0]),
        )

    def _plan(self, topic: NewTopic, made: RequestOutcomes) -> dict[int, tuple[int, ...]]:
        cluster = self._controller.cluster
        # As in Apache Kafka 4.3, topics of one request may collide with each other.
        others = [names for request, names in self._creating.items() if request is not made]
        return plan_topic(
            topic,
            existing=cluster.topics,
            pending=others,
            racks={broker_id: broker.info.rack for broker_id, broker in cluster.brokers.items()},
            defaults=self._defaults,
            validate_configs=self._validate_configs,
            random=self._random,
        )

    async def delete(self, names: Sequence[str], timeout_ms: int) -> dict[str, ErrorCode]:
        """A code by name; see `Controller.delete_topics`."""
        results: dict[str, ErrorCode] = {}
        with RequestOutcomes(self._controller.deleted, self._tasks) as marked:
            for number, name in enumerate(dict.fromkeys(names)):
                if number % TOPICS_PER_STEP == TOPICS_PER_STEP - 1:
                    await self._tasks.sleep(0)
                results[name] = ErrorCode.NONE
                marked.add(name, never, self._mark(name))
            failed = await marked.wait(timeout_ms)
        return results | {name: error.code for name, error in failed.items()}

    async def _mark(self, name: str) -> None:
        try:
            await self._controller.store.mark_for_deletion(name)
        except NoNode:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) from None
