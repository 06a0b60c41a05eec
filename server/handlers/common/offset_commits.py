"""Shared by OffsetCommit and TxnOffsetCommit: validates a request's topics, has the group commit
the valid offsets, and builds the response.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from kavka.groupcoord.offset_records import NO_EPOCH, NO_TIME, NO_TOPIC_ID
from kavka.groupcoord.offsets import OffsetToCommit
from kavka.groupcoord.shard import GroupShard
from kavka.log.journal import DecisionOrSteps, ReplyFuture
from kavka.server.auth.authorizer import CHECK_ITEMS, Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.cluster.metadata_cache import TopicImage
from kavka.server.request.context import RequestContext, Response
from kavka.server.request.sliced_responses import respond
from kavka.server.runtime import cooperative
from kavka.wire.api import Api
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import (
    ITEMS_PER_STEP,
    QUICK_ITEMS_PER_STEP,
    Steps,
)

GroupCall: TypeAlias = Callable[[GroupShard, ReplyFuture, int], DecisionOrSteps]

OFFSETS_PER_STEP: Final = 1_000
"""Offsets put into the response in one slice, at 1 us each."""


class Shape(NamedTuple):
    """The fields of a version of one of the two requests, and constructors of its response."""

    by_id: bool
    with_epochs: bool
    with_times: bool
    topic: Callable[[str, UUID], Any]
    """The response for one topic, with an empty list of `partitions`."""

    partition: Callable[[int, int], Any]
    """The response for one partition: its index and a code."""

    whole: Callable[[list[Any]], Response]
    """The response for all topics."""


class _Topic(NamedTuple):
    """The valid partitions of a topic."""

    name: str
    topic_id: UUID
    partitions: list[int]


class ValidatedOffsets:
    """A request's offsets that may be committed, and errors of the others."""

    def __init__(self, broker: Broker, context: RequestContext, shape: Shape) -> None:
        self._broker: Final = broker
        self._context: Final = context
        self._shape: Final = shape
        self._refused: Final[dict[object, Any]] = {}
        self._accepted: Final[list[_Topic]] = []
        self.offsets: Final[list[OffsetToCommit]] = []
        """In the order of the request."""

    def validate(self, topics: Any) -> Steps[None]:
        """Validate all topics of a request."""
        by_id, context, done = self._shape.by_id, self._context, 0
        image, authorizer = self._broker.metadata.image, self._broker.authorizer
        for topic in topics:
            name = image.names_by_id.get(topic.topic_id) if by_id else topic.name
            known, why_not = None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if name is None:
                why_not = ErrorCode.UNKNOWN_TOPIC_ID
            elif not authorizer.allows(context, Operation.READ, ResourceType.TOPIC, name):
                why_not = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            else:
                known = image.topics.get(name)
            partitions = topic.partitions
            accepted: list[int] = []
            if len(partitions) <= ITEMS_PER_STEP:
                self._validate_partitions(topic, partitions, known, why_not, accepted)
            else:
                for begin in range(0, len(partitions), ITEMS_PER_STEP):
                    some = partitions[begin : begin + ITEMS_PER_STEP]
                    self._validate_partitions(topic, some, known, why_not, accepted)
                    yield None
            if accepted:
                self._accepted.append(_Topic(topic.name, self._id_of(topic), accepted))
            done += CHECK_ITEMS + len(partitions)
            if done >= QUICK_ITEMS_PER_STEP:
                done = 0
                yield None

    def _id_of(self, topic: Any) -> UUID:
        return topic.topic_id if self._shape.by_id else NO_TOPIC_ID

    def _refuse(self, topic: Any, index: int, code: ErrorCode) -> None:
        topic_response = self._topic_response(topic.name, self._id_of(topic))
        topic_response.partitions.append(self._shape.partition(index, code))

    def _topic_response(self, name: str, topic_id: UUID) -> Any:
        key = topic_id if self._shape.by_id else name
        found = self._refused.get(key)
        if found is None:
            found = self._refused[key] = self._shape.topic(name, topic_id)
        return found

    def _validate_partitions(
        self,
        topic: Any,
        partitions: Any,
        known: TopicImage | None,
        why_not: ErrorCode,
        accepted: list[int],
    ) -> None:
        """Validate some partitions of a topic; unknown ones are refused."""
        if known is None:
            for partition in partitions:
                self._refuse(topic, partition.partition_index, why_not)
            return
        name, topic_id = known.name, known.topic_id
        _, with_epochs, with_times, *_ = self._shape
        for partition in partitions:
            index = partition.partition_index
            if known.partition(index) is None:
                self._refuse(topic, index, why_not)
                continue
            accepted.append(index)
            # reading a field that the version does not have is slow
            epoch = partition.committed_leader_epoch if with_epochs else NO_EPOCH
            at_ms = partition.commit_timestamp if with_times else NO_TIME
            offset, metadata = partition.committed_offset, partition.committed_metadata
            self.offsets.append(
                OffsetToCommit(name, index, offset, epoch, metadata, topic_id, at_ms)
            )

    def response(self) -> Response:
        """The response if no offset was valid."""
        return self._shape.whole(list(self._refused.values()))

    def response_in_steps(self, codes: Sequence[int]) -> Steps[Response]:
        """The same for many offsets."""
        position = 0
        topics: list[Any] = []
        partition = self._shape.partition
        for name, topic_id, partitions in self._accepted:
            if self._refused:
                topic_response = self._topic_response(name, topic_id)
            else:  # here a topic named twice gets two responses
                topics.append(topic_response := self._shape.topic(name, topic_id))
            for index in partitions:
                topic_response.partitions.append(partition(index, codes[position]))
                position += 1
                if position % OFFSETS_PER_STEP == 0:
                    yield None
        return self.response() if self._refused else self._shape.whole(topics)


def when_validated(
    broker: Broker,
    context: RequestContext,
    shape: Shape,
    topics: Any,
    then: Callable[[ValidatedOffsets], Any],
) -> Any:
    """The result of `then`, called when a request's topics have been validated. The connection's
    next request waits until then, and until `context.applied` that `then` may set is done."""
    found = ValidatedOffsets(broker, context, shape)
    validating = cooperative.run(broker.tasks, found.validate(topics))
    if validating is None:
        return then(found)
    applied = context.applied = broker.tasks.future()
    return _when_validated(context, validating, partial(then, found), applied)


async def _when_validated(
    context: RequestContext,
    validating: Awaitable[None],
    then: Callable[[], Any],
    applied: asyncio.Future[None],
) -> Response:
    try:
        await validating
        result = then()
    finally:
        release_next(context, applied)
    return await result if isinstance(result, Awaitable) else result


def release_next(context: RequestContext, applied: asyncio.Future[None]) -> None:
    """Let the connection's next request run; if `context.applied` was replaced meanwhile, only
    when that future is done."""
    replaced = context.applied
    if replaced is None or replaced is applied:
        applied.set_result(None)
    else:
        replaced.add_done_callback(lambda _: applied.set_result(None))


def commit(
    broker: Broker,
    context: RequestContext,
    api: Api,
    group_id: str,
    validated: ValidatedOffsets,
    call: GroupCall,
) -> Any:
    """Have the group commit `validated.offsets` (not empty), all or none. The response, or an
    awaitable of it."""
    try:
        codes = broker.groups.call(group_id, call)
    except ApiError as error:
        codes = [error.code] * len(validated.offsets)
    if not isinstance(codes, list):
        return _await_response(broker, context, api, codes, validated)
    return respond(broker.tasks, api, context, validated.response_in_steps(codes))


async def _await_response(
    broker: Broker,
    context: RequestContext,
    api: Api,
    waiting: Awaitable[list[int]],
    validated: ValidatedOffsets,
) -> Response:
    try:
        codes = await waiting
    except ApiError as error:
        codes = [error.code] * len(validated.offsets)
    made = respond(broker.tasks, api, context, validated.response_in_steps(codes))
    return await made if isinstance(made, Awaitable) else made
