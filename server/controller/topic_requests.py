"""Requests to create and delete topics, while this broker is the controller."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kavka.seams import Random, Tasks, Timer
from kavka.server.controller.messages import NO_TOPIC_ID
from kavka.server.controller.new_topics import (
    Defaults,
    NewTopic,
    TopicResult,
    ValidateConfigs,
    check_total,
    plan_topic,
    random_uuid,
)
from kavka.server.controller.reign import Reign
from kavka.server.controller.store import ControllerMoved
from kavka.server.controller.waiters import Outcome, Waiters
from kavka.server.coordination.api import CoordinationError, NodeExists
from kavka.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Coroutine


def not_controller() -> ApiError:
    """The answer of a broker that is not, or no longer, the controller."""
    return ApiError(ErrorCode.NOT_CONTROLLER, "This broker is not the controller.")


class TopicRequests:
    """Handles requests by writing to the tree and waiting for the reign to act on it."""

    def __init__(
        self,
        reign: Reign,
        *,
        defaults: Defaults,
        validate_configs: ValidateConfigs,
        tasks: Tasks,
        random: Random,
    ) -> None:
        self._reign = reign
        self._defaults = defaults
        self._validate_configs = validate_configs
        self._tasks = tasks
        self._random = random
        self._making: dict[str, None] = {}
        """Topics of requests that are not answered; the reign may not know them yet."""

    async def create(
        self, topics: Sequence[NewTopic], *, timeout_ms: int, validate_only: bool
    ) -> dict[str, TopicResult]:
        """A result by name; see `Controller.create_topics`."""
        try:
            check_total(topics, self._defaults)
        except ApiError as error:
            return {topic.name: TopicResult(error.code, error.message) for topic in topics}
        results: dict[str, TopicResult] = {}
        made = _Outcomes(self._reign.ready, self._tasks)
        times_named = Counter(topic.name for topic in topics)
        try:
            for topic in topics:
                if times_named[topic.name] > 1:
                    message = "Found multiple entries for this topic."
                    results[topic.name] = TopicResult(ErrorCode.INVALID_REQUEST, message)
                    continue
                results[topic.name] = self._begin(topic, None if validate_only else made)
                await self._tasks.sleep(0)
            failed = await made.wait(timeout_ms)
        finally:
            for name in made.names:
                del self._making[name]
        for name, failure in failed.items():
            topic_id = results[name].topic_id
            results[name] = TopicResult(failure.code, failure.message)
            if failure.code is ErrorCode.REQUEST_TIMED_OUT:  # it is there all the same
                results[name] = results[name]._replace(topic_id=topic_id)
        return results

    def _begin(self, topic: NewTopic, made: _Outcomes | None) -> TopicResult:
        """Check a topic and, given where its outcome is to show, begin to make it."""
        try:
            replicas = self._plan(topic)
        except ApiError as error:
            return TopicResult(error.code, error.message)
        topic_id = NO_TOPIC_ID
        if made is not None:
            topic_id = random_uuid(self._random)
            configs = {key: value for key, value in topic.configs.items() if value is not None}
            self._making[topic.name] = None
            write = self._reign.store.create_topic(topic.name, topic_id, replicas, configs)
            made.add(topic.name, write)
        return TopicResult(ErrorCode.NONE, None, topic_id, len(replicas), len(replicas[0]))

    def _plan(self, topic: NewTopic) -> dict[int, tuple[int, ...]]:
        cluster = self._reign.cluster
        return plan_topic(
            topic,
            existing=(cluster.topics, self._making),
            racks={broker_id: broker.info.rack for broker_id, broker in cluster.brokers.items()},
            defaults=self._defaults,
            validate_configs=self._validate_configs,
            random=self._random,
        )

    async def delete(self, names: Sequence[str], timeout_ms: int) -> dict[str, ErrorCode]:
        """A code by name; see `Controller.delete_topics`."""
        results: dict[str, ErrorCode] = {}
        marked = _Outcomes(self._reign.gone, self._tasks)
        for name in dict.fromkeys(names):
            results[name] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if await self._reign.store.topic_exists(name):
                results[name] = ErrorCode.NONE
                marked.add(name, self._reign.store.mark_for_deletion(name))
        failed = await marked.wait(timeout_ms)
        return results | {name: error.code for name, error in failed.items()}


class _Outcomes:
    """What one request writes to the tree, and waits for to come true."""

    def __init__(self, waiters: Waiters, tasks: Tasks) -> None:
        self._waiters = waiters
        self._tasks = tasks
        self._writes: dict[str, asyncio.Task[ApiError | None]] = {}
        self._outcomes: dict[str, Outcome] = {}

    @property
    def names(self) -> list[str]:
        """The topics written so far."""
        return list(self._writes)

    def add(self, name: str, write: Coroutine[object, object, None]) -> None:
        """Write something for a topic; those of one request share a sync of the disk."""
        self._outcomes[name] = self._waiters.add(name)
        self._writes[name] = self._tasks.spawn(_outcome(write), name=f"request for topic {name}")

    async def wait(self, timeout_ms: int) -> dict[str, ApiError]:
        """Wait for all; the errors of those for which it did not come true."""
        failed: dict[str, ApiError] = {}
        timer: Timer | None = None
        try:
            for name, write in self._writes.items():
                if error := await write:
                    failed[name] = error
                    self._waiters.give_up(name, self._outcomes[name])
            if timeout_ms <= 0:
                self._give_up()
            else:
                timer = self._tasks.call_later(timeout_ms / 1000, self._give_up)
            for name, outcome in self._outcomes.items():
                if name not in failed and (error := await outcome):
                    failed[name] = error
        finally:  # also when the client has gone and the request is cancelled
            self._give_up()
            if timer is not None:
                timer.cancel()
        return failed

    def _give_up(self) -> None:
        for name, outcome in self._outcomes.items():
            self._waiters.give_up(name, outcome)


async def _outcome(write: Coroutine[object, object, None]) -> ApiError | None:
    """None when the write was done, else the error for the client."""
    try:
        await write
    except NodeExists as error:
        name = error.path.rpartition("/")[2]
        return ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    except ControllerMoved:
        return not_controller()
    except CoordinationError as error:
        message = f"The coordination service failed: {type(error).__name__}"
        return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, message)
    return None
