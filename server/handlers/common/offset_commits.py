"""What OffsetCommit and TxnOffsetCommit have in common: which offsets of a request a group is asked
to keep, what is refused before, and the answer from both.
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
from kavka.log.journal import DecisionOrSteps, Ticket
from kavka.server.auth.authorizer import QUESTION, Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.cluster.metadata_cache import TopicImage
from kavka.server.request.context import RequestContext, Response
from kavka.server.request.sliced_answers import answer
from kavka.server.runtime import cooperative
from kavka.server.runtime.cooperative import Slices
from kavka.wire.api import Api
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import ITEMS_A_STEP, QUICK_ITEMS_A_STEP, run_to_completion, run_to_first_pause

Question: TypeAlias = Callable[[GroupShard, Ticket, int], DecisionOrSteps]

OFFSETS_A_STEP: Final = 1_000
"""Offsets whose codes are told between two pauses, at 1 us each."""


class Shape(NamedTuple):
    """What a version of one of the two requests holds, and its answer."""

    by_id: bool
    with_epochs: bool
    with_times: bool
    topic: Callable[[str, UUID], Any]
    """The answer for one topic, with an empty list of `partitions`."""

    partition: Callable[[int, int], Any]
    """The answer for one partition: its index and a code."""

    whole: Callable[[list[Any]], Response]
    """The answer for all topics."""


class _Topic(NamedTuple):
    """What of a topic is committed."""

    name: str
    topic_id: UUID
    partitions: list[int]


class SortedOut:
    """What of a request may be committed, and what is refused before a group is asked."""

    def __init__(self, broker: Broker, context: RequestContext, shape: Shape) -> None:
        self._broker: Final = broker
        self._context: Final = context
        self._shape: Final = shape
        self._refused: Final[dict[object, Any]] = {}
        self._accepted: Final[list[_Topic]] = []
        self.offsets: Final[list[OffsetToCommit]] = []
        """In the order of the request."""

    def sort_out(self, topics: Any) -> Slices[None]:
        """All of a request."""
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
            if len(partitions) <= ITEMS_A_STEP:
                self._take(topic, partitions, known, why_not, accepted)
            else:
                for begin in range(0, len(partitions), ITEMS_A_STEP):
                    some = partitions[begin : begin + ITEMS_A_STEP]
                    self._take(topic, some, known, why_not, accepted)
                    yield
            if accepted:
                self._accepted.append(_Topic(topic.name, self._id_of(topic), accepted))
            done += QUESTION + len(partitions)
            if done >= QUICK_ITEMS_A_STEP:
                done = 0
                yield

    def _id_of(self, topic: Any) -> UUID:
        return topic.topic_id if self._shape.by_id else NO_TOPIC_ID

    def _refuse(self, topic: Any, index: int, code: ErrorCode) -> None:
        answer = self._answer_of(topic.name, self._id_of(topic))
        answer.partitions.append(self._shape.partition(index, code))

    def _answer_of(self, name: str, topic_id: UUID) -> Any:
        key = topic_id if self._shape.by_id else name
        found = self._refused.get(key)
        if found is None:
            found = self._refused[key] = self._shape.topic(name, topic_id)
        return found

    def _take(
        self,
        topic: Any,
        partitions: Any,
        known: TopicImage | None,
        why_not: ErrorCode,
        accepted: list[int],
    ) -> None:
        """Some partitions of a topic; those that are not there are refused."""
        if known is None:
            for one in partitions:
                self._refuse(topic, one.partition_index, why_not)
            return
        name, topic_id = known.name, known.topic_id
        _, with_epochs, with_times, *_ = self._shape
        for one in partitions:
            index = one.partition_index
            if known.partition(index) is None:
                self._refuse(topic, index, why_not)
                continue
            accepted.append(index)
            # to ask for what a version does not have takes long
            epoch = one.committed_leader_epoch if with_epochs else NO_EPOCH
            at_ms = one.commit_timestamp if with_times else NO_TIME
            offset, metadata = one.committed_offset, one.committed_metadata
            self.offsets.append(
                OffsetToCommit(name, index, offset, epoch, metadata, topic_id, at_ms)
            )

    def answer(self) -> Response:
        """Where nothing was accepted."""
        return self._shape.whole(list(self._refused.values()))

    def answer_with(self, codes: Sequence[int]) -> Response:
        """With the codes of `offsets`: what was refused comes first, as in Apache Kafka."""
        return run_to_completion(self.answer_slowly(codes))

    def answer_slowly(self, codes: Sequence[int]) -> Slices[Response]:
        """The same where there are many."""
        position = 0
        topics: list[Any] = []
        partition = self._shape.partition
        for name, topic_id, partitions in self._accepted:
            if self._refused:
                answer = self._answer_of(name, topic_id)
            else:  # a topic named twice is answered twice then
                topics.append(answer := self._shape.topic(name, topic_id))
            for index in partitions:
                answer.partitions.append(partition(index, codes[position]))
                position += 1
                if position % OFFSETS_A_STEP == 0:
                    yield
        return self.answer() if self._refused else self._shape.whole(topics)


def when_sorted_out(
    broker: Broker,
    context: RequestContext,
    shape: Shape,
    topics: Any,
    then: Callable[[SortedOut], Any],
) -> Any:
    """What `then` answers, once a request's topics have been sorted out. Until then other requests
    wait, and for what `then` lets them wait for."""
    found = SortedOut(broker, context, shape)
    rest = run_to_first_pause(found.sort_out(topics))
    if rest is None:
        return then(found)
    applied = context.applied = broker.tasks.future()
    return _go_on(broker, context, rest, partial(then, found), applied)


async def _go_on(
    broker: Broker,
    context: RequestContext,
    rest: Slices[None],
    then: Callable[[], Any],
    applied: asyncio.Future[None],
) -> Response:
    try:
        await cooperative.go_on(broker.tasks, rest)
        answer = then()
    finally:
        let_others(context, applied)
    return await answer if isinstance(answer, Awaitable) else answer


def let_others(context: RequestContext, applied: asyncio.Future[None]) -> None:
    """What other requests have waited for is done; unless more has been begun."""
    begun = context.applied
    if begun is None or begun is applied:
        applied.set_result(None)
    else:  # some at a time
        begun.add_done_callback(lambda _: applied.set_result(None))


def commit(
    broker: Broker,
    context: RequestContext,
    api: Api,
    group_id: str,
    sorted_out: SortedOut,
    question: Question,
) -> Any:
    """Have the group asked to keep `sorted_out.offsets`, of which there are some: all of them or
    none. The answer, or something to await."""
    try:
        codes = broker.groups.call(group_id, question)
    except ApiError as refusal:
        codes = [refusal.code] * len(sorted_out.offsets)
    if not isinstance(codes, list):
        return _later(broker, context, api, codes, sorted_out)
    return answer(broker.tasks, api, context, sorted_out.answer_slowly(codes))


async def _later(
    broker: Broker,
    context: RequestContext,
    api: Api,
    waiting: Awaitable[list[int]],
    sorted_out: SortedOut,
) -> Response:
    try:
        codes = await waiting
    except ApiError as refusal:
        codes = [refusal.code] * len(sorted_out.offsets)
    made = answer(broker.tasks, api, context, sorted_out.answer_slowly(codes))
    return await made if isinstance(made, Awaitable) else made
