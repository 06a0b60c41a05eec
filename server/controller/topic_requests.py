"""Requests to create and delete topics, while this broker is the controller."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kavka.seams import Random, Tasks
from kavka.server.controller.new_topics import (
    Defaults,
    NewTopic,
    TopicResult,
    ValidateConfigs,
    plan_topic,
    random_uuid,
)
from kavka.server.controller.reign import Reign
from kavka.server.controller.store import ControllerMoved
from kavka.server.controller.waiters import Waiters
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
        results: dict[str, TopicResult] = {}
        writes: dict[str, asyncio.Task[ApiError | None]] = {}
        ready: dict[str, asyncio.Future[bool]] = {}
        times_named = Counter(topic.name for topic in topics)
        for topic in topics:
            name = topic.name
            if times_named[name] > 1:
                message = "Found multiple entries for this topic."
                results[name] = TopicResult(ErrorCode.INVALID_REQUEST, message)
                continue
            try:
                replicas = self._plan(topic)
            except ApiError as error:
                results[name] = TopicResult(error.code, error.message)
                continue
            results[name] = TopicResult(
                ErrorCode.NONE, num_partitions=len(replicas), replication_factor=len(replicas[0])
            )
            if not validate_only:
                topic_id = random_uuid(self._random)
                results[name] = results[name]._replace(topic_id=topic_id)
                ready[name] = self._reign.ready.add(name)
                self._making[name] = None
                configs = {key: value for key, value in topic.configs.items() if value is not None}
                make = self._reign.store.create_topic(name, topic_id, replicas, configs)
                writes[name] = self._tasks.spawn(_outcome(make), name=f"creation of topic {name}")
            await self._tasks.sleep(0)
        failed = await self._finish(writes, ready, self._reign.ready, timeout_ms)
        for name, failure in failed.items():
            topic_id = results[name].topic_id
            results[name] = TopicResult(failure.code, failure.message)
            if failure.code is ErrorCode.REQUEST_TIMED_OUT:  # it is there all the same
                results[name] = results[name]._replace(topic_id=topic_id)
        for name in writes:
            del self._making[name]
        return results

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
        writes: dict[str, asyncio.Task[ApiError | None]] = {}
        gone: dict[str, asyncio.Future[bool]] = {}
        for name in dict.fromkeys(names):
            results[name] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if await self._reign.store.topic_exists(name):
                results[name] = ErrorCode.NONE
                gone[name] = self._reign.gone.add(name)
                mark = self._reign.store.mark_for_deletion(name)
                writes[name] = self._tasks.spawn(_outcome(mark), name=f"deletion of topic {name}")
        failed = await self._finish(writes, gone, self._reign.gone, timeout_ms)
        return results | {name: error.code for name, error in failed.items()}

    async def _finish(
        self,
        writes: Mapping[str, asyncio.Task[ApiError | None]],
        outcomes: Mapping[str, asyncio.Future[bool]],
        waiters: Waiters,
        timeout_ms: int,
    ) -> dict[str, ApiError]:
        """Wait for what was written to come true; what became of those for which it did not."""
        failed: dict[str, ApiError] = {}
        for name, write in writes.items():
            error = await write
            if error is not None:
                failed[name] = error
                waiters.give_up(name, outcomes[name])
        waiting = {name: outcome for name, outcome in outcomes.items() if name not in failed}

        def give_up() -> None:
            for name, outcome in waiting.items():
                waiters.give_up(name, outcome)

        if timeout_ms <= 0:
            give_up()
        timer = self._tasks.call_later(timeout_ms / 1000, give_up)
        for name, outcome in waiting.items():
            try:
                if not await outcome:
                    failed[name] = ApiError(ErrorCode.REQUEST_TIMED_OUT)
            except ApiError as error:
                failed[name] = error
        timer.cancel()
        return failed


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
