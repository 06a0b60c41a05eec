"""OffsetFetch: how far groups have come.

Promises: what is told is committed; with `require_stable` partitions that an open transaction has
committed say UNSTABLE_OFFSET_COMMIT (KIP-447). Unknown groups, topics and partitions have no
offsets, which is no error; an unknown topic id is one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple
from uuid import UUID

from kavka.groupcoord.shard import GroupShard
from kavka.server import slices
from kavka.server.auth.authorizer import Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.context import RequestContext
from kavka.server.slices import Slices
from kavka.wire.apis.offset_fetch import (
    GROUPS_VERSION,
    NO_TOPIC_ID,
    TOPIC_IDS_VERSION,
    GroupResponse,
    OffsetFetchResponse,
    PartitionResponse,
    TopicResponse,
    group_error,
)
from kavka.wire.errors import ApiError, ErrorCode

OFFSETS_A_STEP: Final = 1_000
"""Offsets that are looked up in one go, at 2 us each; or groups, if there are more of them."""


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    if context.version >= GROUPS_VERSION:
        groups = [
            _Group(broker, context, one.group_id, one.member_id, one.member_epoch, one.topics)
            for one in request.groups
        ]
    else:
        groups = [_Group(broker, context, request.group_id, None, -1, request.topics)]
    done = slices.run(broker.tasks, _fetch(broker, groups, request.require_stable), context)
    if done is None and not any(group.waits for group in groups):
        return _answer(context, request, groups)
    return _later(done, context, request, groups)


async def _later(
    done: Awaitable[None] | None, context: RequestContext, request: Any, groups: list[_Group]
) -> OffsetFetchResponse:
    if done is not None:
        await done
    for group in groups:
        try:
            for wait in group.waits:
                await wait
        except ApiError as refusal:
            group.code = refusal.code
    return _answer(context, request, groups)


def _fetch(broker: Broker, groups: list[_Group], require_stable: bool) -> Slices[None]:
    """Ask all groups; what is found may be told when their `waits` are over."""
    looked_at = 0
    for group in groups:
        for size in group.fetch(broker, require_stable):
            looked_at += size
            if looked_at >= OFFSETS_A_STEP:
                looked_at = 0
                yield


def _answer(context: RequestContext, request: Any, groups: list[_Group]) -> OffsetFetchResponse:
    if context.version >= GROUPS_VERSION:
        return OffsetFetchResponse(groups=[group.answer() for group in groups])
    group = groups[0]
    if group.code:
        return OffsetFetchResponse(*group_error(request, group.code, context.version))
    return OffsetFetchResponse(group.topics + group.refused)


class _Topic(NamedTuple):
    """Partitions of a topic that are looked up; `topic_id` as far as the client told it."""

    name: str
    topic_id: UUID
    partitions: Sequence[int]


class _Lookup(NamedTuple):
    """Some partitions of a topic, and where to put what is found."""

    topic: _Topic
    partitions: Sequence[int]
    answers: list[PartitionResponse]


class _Group:
    """What is asked of one group, and what is found."""

    def __init__(
        self,
        broker: Broker,
        context: RequestContext,
        group_id: str,
        member_id: str | None,
        member_epoch: int,
        topics: Any,
    ) -> None:
        self._group_id = group_id
        self._member = member_id, member_epoch
        self._asked: list[_Topic] | None = None if topics is None else []
        self._exists = False
        self._image = broker.metadata.image
        self._by_id = context.version >= TOPIC_IDS_VERSION
        self._authorizer = broker.authorizer
        self._context = context
        self.code = ErrorCode.NONE
        self.topics: list[TopicResponse] = []
        self.refused: list[TopicResponse] = []
        """They come last, as in Apache Kafka."""

        self.waits: list[Awaitable[None]] = []
        if not broker.authorizer.allows(context, Operation.DESCRIBE, ResourceType.GROUP, group_id):
            self.code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        for topic in topics or ():
            self._sort_out(topic)

    def _sort_out(self, topic: Any) -> None:
        """Look up a topic, or refuse it."""
        name, topic_id = topic.name, NO_TOPIC_ID
        if self._by_id:
            topic_id = topic.topic_id
            name = self._image.names_by_id.get(topic_id)
        if name is None:
            self._refuse(topic, ErrorCode.UNKNOWN_TOPIC_ID)
        elif not self._may_see(name):
            self._refuse(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        else:
            assert self._asked is not None
            self._asked.append(_Topic(name, topic_id, topic.partition_indexes))

    def _may_see(self, topic: str) -> bool:
        allows = self._authorizer.allows
        return allows(self._context, Operation.DESCRIBE, ResourceType.TOPIC, topic)

    def _refuse(self, topic: Any, code: ErrorCode) -> None:
        partitions = [
            PartitionResponse(index, error_code=code) for index in topic.partition_indexes
        ]
        self.refused.append(TopicResponse(topic.name, partitions, topic.topic_id))

    def fetch(self, broker: Broker, require_stable: bool) -> Iterator[int]:
        """Look everything up, and tell how much in each step."""
        if self.code:
            return
        try:
            self._wait_for(broker.groups.read(self._group_id, self._begin))
            yield 1
            for step in self._steps():
                look = partial(self._look, step, require_stable)
                self._wait_for(broker.groups.read(self._group_id, look))
                yield sum(len(topic.partitions) for topic in step)
        except ApiError as refusal:
            self.code = refusal.code

    def _wait_for(self, told: Any) -> None:
        if told is not None:
            self.waits.append(told)

    def _begin(self, shard: GroupShard, now_ms: int) -> None:
        """Whether this member may ask; and for what, if it asks for everything."""
        offsets, group_id = shard.offsets, self._group_id
        self._exists = offsets.check_fetch(group_id, *self._member)
        if self._asked is not None:
            return
        found = offsets.partitions(group_id) if self._exists else {}
        self._asked = [
            _Topic(name, NO_TOPIC_ID, partitions)
            for name, partitions in found.items()
            if self._may_see(name) and (not self._by_id or name in self._image.topics)
        ]

    def _steps(self) -> Iterator[list[_Lookup]]:
        """What is asked, cut where it is much."""
        step: list[_Lookup] = []
        room = OFFSETS_A_STEP
        for topic in self._asked or ():
            answer = self._answer_of(topic)
            self.topics.append(answer)
            left = topic.partitions
            while left:
                step.append(_Lookup(topic, left[:room], answer.partitions))
                taken = len(step[-1].partitions)
                left, room = left[taken:], room - taken
                if not room:
                    yield step
                    step, room = [], OFFSETS_A_STEP
        if step:
            yield step

    def _answer_of(self, topic: _Topic) -> TopicResponse:
        topic_id = topic.topic_id
        if self._by_id and topic_id == NO_TOPIC_ID:
            topic_id = self._image.topics[topic.name].topic_id
        return TopicResponse(topic.name, [], topic_id)

    def _look(
        self, step: list[_Lookup], require_stable: bool, shard: GroupShard, now_ms: int
    ) -> None:
        for (name, topic_id, _), partitions, answers in step:
            if not self._exists:
                answers += map(PartitionResponse, partitions)
                continue
            found = shard.offsets.fetch(
                self._group_id, name, topic_id, partitions, require_stable=require_stable
            )
            answers += [PartitionResponse(*one) for one in found]

    def answer(self) -> GroupResponse:
        """As from version 8 on."""
        if self.code:
            return GroupResponse(self._group_id, error_code=self.code)
        return GroupResponse(self._group_id, self.topics + self.refused)
