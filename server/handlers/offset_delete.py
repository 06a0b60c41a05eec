"""OffsetDelete: deletes committed offsets of a group (KIP-496).

Promises: offsets of topics that members subscribe to are kept (GROUP_SUBSCRIBED_TO_TOPIC); all are
kept if the group is not empty and its subscriptions are unknown (NON_EMPTY_GROUP). The deletion of
a request is atomic.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from kavka.groupcoord.shard import GroupShard
from kavka.log.journal import DecisionOrSteps, ReplyFuture
from kavka.server.auth.authorizer import CHECK_ITEMS, Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.handlers.common.group_calls import GroupCalls, Topics, check_group
from kavka.server.request.context import RequestContext
from kavka.wire.apis.offset_delete import (
    API,
    OffsetDeleteResponse,
    PartitionResponse,
    TopicResponse,
)
from kavka.wire.errors import ErrorCode
from kavka.wire.steps import PauseCounter, Steps, each

OFFSETS_PER_STEP: Final = 1_000
"""Partitions checked, or put into the response, in one slice."""


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    group_id = request.group_id
    check_group(broker, context, Operation.DELETE, group_id)
    deletion = _Deletion(broker, context, request)
    return deletion.calls.run(context, deletion.steps(), deletion.response)


class _Deletion:
    """One request, and its results so far."""

    def __init__(self, broker: Broker, context: RequestContext, request: Any) -> None:
        self.calls: Final = GroupCalls(broker, API)
        self._group_id: Final = request.group_id
        self._code = ErrorCode.NONE
        self._codes: Sequence[int] = ()
        self._responses: Final[dict[str, list[PartitionResponse]]] = {}
        self._accepted: Final[list[tuple[str, Sequence[int]]]] = []
        self._broker: Final = broker
        self._context: Final = context
        self._topics: Final = request.topics

    def _check_topic(self, topic: Any) -> Steps[None]:
        """Accept a topic's partitions, or add their errors."""
        broker, context, name = self._broker, self._context, topic.name
        known = broker.metadata.image.topics.get(name)
        why_not = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if not broker.authorizer.allows(context, Operation.READ, ResourceType.TOPIC, name):
            known, why_not = None, ErrorCode.TOPIC_AUTHORIZATION_FAILED
        there: list[int] = []

        def check_partition(partition: Any) -> None:
            index = partition.partition_index
            if known is not None and known.partition(index) is not None:
                there.append(index)
            else:
                self._respond(name, [index], why_not)

        if known is None:
            self._respond(name, [], why_not)
        yield from each(topic.partitions, check_partition, OFFSETS_PER_STEP)
        if there:
            self._accepted.append((name, there))

    def _respond(self, name: str, partitions: Sequence[int], code: int) -> None:
        responses = self._responses.setdefault(name, [])
        responses += [PartitionResponse(index, code) for index in partitions]

    def steps(self) -> Steps[None]:
        """Call the group even without valid partitions, to check that it exists."""
        pauses = PauseCounter()
        for topic in self._topics:
            yield from self._check_topic(topic)
            if pauses.is_due(CHECK_ITEMS + 2 * len(topic.partitions)):
                yield None
        ask = partial(_call_shard, self._group_id, self._accepted)
        self.calls.call(self._group_id, ask, self._deleted, self._failed)

    def _deleted(self, codes: Sequence[int]) -> None:
        """Store the result: a code for each accepted topic."""
        self._codes = codes

    def _failed(self, code: ErrorCode) -> None:
        self._code = code

    def response(self) -> Steps[OffsetDeleteResponse]:
        """The response for all partitions."""
        if self._code:
            return OffsetDeleteResponse(self._code)
        pauses = PauseCounter()
        for (name, partitions), code in zip(self._accepted, self._codes, strict=True):
            for begin in range(0, len(partitions), OFFSETS_PER_STEP):
                some = partitions[begin : begin + OFFSETS_PER_STEP]
                self._respond(name, some, code)
                if pauses.is_due(CHECK_ITEMS + 2 * len(some)):
                    yield None
        topics = [TopicResponse(name, found) for name, found in self._responses.items()]
        return OffsetDeleteResponse(topics=topics)


def _call_shard(
    group_id: str, topics: Topics, shard: GroupShard, future: ReplyFuture, now_ms: int
) -> DecisionOrSteps:
    return shard.offsets.delete(group_id, topics, future)
