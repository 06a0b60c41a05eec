"""OffsetFetch: committed offsets of groups.

Promises: offsets in a response are committed; with `require_stable` partitions with offsets pending
in an open transaction get UNSTABLE_OFFSET_COMMIT (KIP-447). Unknown groups, topics and partitions
have no offsets, which is no error; an unknown topic id is one. Version 0 reads offsets from the
coordination tree (see `kavka.server.coordinators.zookeeper_offsets`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple
from uuid import UUID

from kavka.groupcoord.shard import GroupShard
from kavka.server.auth.authorizer import Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.handlers.common.group_calls import GroupCalls
from kavka.server.request.context import RequestContext
from kavka.wire.apis.offset_fetch import (
    API,
    GROUPS_VERSION,
    NO_TOPIC_ID,
    TOPIC_IDS_VERSION,
    GroupResponse,
    GroupTopicResponse,
    OffsetFetchResponse,
    PartitionResponse,
    TopicResponse,
    group_error,
)
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import Steps

OFFSETS_PER_STEP: Final = 1_000
"""Offsets, topics and groups looked up in one slice, at 2 us each."""


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    if context.version == 0:
        if not _may_see_group(broker, context, request.group_id):
            raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        return _out_of_tree(broker, context, request)
    calls = GroupCalls(broker, API)
    groups: list[_Group] = []

    def steps() -> Steps[None]:
        looked_at = 0
        for group in _requested_groups(broker, context, request):
            groups.append(group)
            if group.begin(calls):
                yield from calls.wait_for_results()
            for size in group.fetch(calls, require_stable=request.require_stable):
                looked_at += size
                if looked_at >= OFFSETS_PER_STEP:
                    looked_at = 0
                    yield None

    return calls.run(context, steps(), partial(_response, context, request, groups))


def _requested_groups(broker: Broker, context: RequestContext, request: Any) -> Iterator[_Group]:
    if context.version < GROUPS_VERSION:
        yield _Group(broker, context, request.group_id, None, -1, request.topics)
        return
    for group in request.groups:
        yield _Group(
            broker, context, group.group_id, group.member_id, group.member_epoch, group.topics
        )


async def _out_of_tree(
    broker: Broker, context: RequestContext, request: Any
) -> OffsetFetchResponse:
    """Version 0. A partition without an offset gets the same error as an unknown partition."""
    topics = []
    for topic in request.topics:
        name, responses = topic.name, []
        for index in topic.partition_indexes:
            response = PartitionResponse(index)
            responses.append(response)
            try:
                if not _may_see_topic(broker, context, name):
                    raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                response.committed_offset = await _in_tree(broker, request.group_id, name, index)
            except ApiError as error:
                response.error_code = error.code
        topics.append(TopicResponse(name, responses))
    return OffsetFetchResponse(topics)


async def _in_tree(broker: Broker, group_id: str, name: str, index: int) -> int:
    known = broker.metadata.image.topics.get(name)
    if known is not None and known.partition(index) is not None:
        offset = await broker.zookeeper_offsets.get(group_id, name, index)
        if offset is not None:
            return offset
    raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _response(context: RequestContext, request: Any, groups: list[_Group]) -> OffsetFetchResponse:
    if context.version >= GROUPS_VERSION:
        return OffsetFetchResponse(groups=[group.response() for group in groups])
    group = groups[0]
    if group.code:
        return OffsetFetchResponse(*group_error(request, group.code, context.version))
    topics = [
        TopicResponse(topic.name or "", topic.partitions) for topic in group.topics + group.refused
    ]
    return OffsetFetchResponse(topics)


class _Topic(NamedTuple):
    """Partitions of a topic to look up; `topic_id` if the client sent it."""

    name: str
    topic_id: UUID
    partitions: Sequence[int]


class _Lookup(NamedTuple):
    """Some partitions of a topic, and the list that takes their results."""

    topic: _Topic
    partitions: Sequence[int]
    responses: list[PartitionResponse]


class _Group:
    """One group of the request, and its results."""

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
        self._requested: list[_Topic] | None = None if topics is None else []
        self._all: Iterable[_Topic | None] = ()
        self._is_checked = False
        self._exists = False
        self._image = broker.metadata.image
        self._by_id = context.version >= TOPIC_IDS_VERSION
        self._broker = broker
        self._context = context
        self.code = ErrorCode.NONE
        self.topics: list[GroupTopicResponse] = []
        self.refused: list[GroupTopicResponse] = []
        """Unauthorized and unknown topics, which come last, as in Apache Kafka."""

        if not _may_see_group(broker, context, group_id):
            self.code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        for topic in topics or ():
            self._check_topic(topic)

    def _check_topic(self, topic: Any) -> None:
        """Look up a topic, or refuse it."""
        if self._by_id:
            topic_id = topic.topic_id
            name = self._image.names_by_id.get(topic_id)
        else:
            name, topic_id = topic.name, self._current_id(topic.name)
        if name is None:
            self._refuse(topic, ErrorCode.UNKNOWN_TOPIC_ID)
        elif not self._may_see(name):
            self._refuse(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        else:
            assert self._requested is not None
            self._requested.append(_Topic(name, topic_id, topic.partition_indexes))

    def _current_id(self, name: str) -> UUID:
        """The id that offsets of a topic must have been committed with, unless they have none;
        NO_TOPIC_ID for any. Offsets of a deleted topic may still be there after a crash, and are
        not a new topic's. Only a standalone broker can tell: the metadata of another may be
        behind."""
        known = None if self._broker.settings.in_cluster else self._image.topics.get(name)
        return NO_TOPIC_ID if known is None else known.topic_id

    def _may_see(self, topic: str) -> bool:
        return _may_see_topic(self._broker, self._context, topic)

    def _refuse(self, topic: Any, code: ErrorCode) -> None:
        partitions = [
            PartitionResponse(index, error_code=code) for index in topic.partition_indexes
        ]
        topic_id = topic.topic_id if self._by_id else None
        self.refused.append(GroupTopicResponse(topic.name, topic_id, partitions))

    def begin(self, calls: GroupCalls) -> bool:
        """Have the group check the member, before any lookup. True if the caller must wait for
        that: if all offsets are requested, the check also finds the topics."""
        if not self.code:
            calls.read(self._group_id, self._begin, _nothing, self._failed)
        return self._requested is None and not self._is_checked and not self.code

    def fetch(self, calls: GroupCalls, *, require_stable: bool) -> Iterator[int]:
        """Look up the offsets step by step, yielding each step's size."""
        yield 1
        for step, size in self._steps():
            look = partial(self._read, step, require_stable)
            calls.read(self._group_id, look, _nothing, self._failed)
            yield size
            if self.code:
                break

    def _failed(self, code: ErrorCode) -> None:
        self.code = code

    def _begin(self, shard: GroupShard, now_ms: int) -> None:
        """Check the member, and list the topics if all offsets are requested."""
        self._is_checked = True
        self._exists = shard.offsets.check_fetch(self._group_id, *self._member)
        if self._requested is None and self._exists:
            self._all = self._topics_of(shard)

    def _topics_of(self, shard: GroupShard) -> Iterator[_Topic | None]:
        """All topics of the group, read lazily; None for those that the client may not see."""
        store = shard.offsets.store
        for name in list(store.topics(self._group_id)):
            of_topic = store.topics(self._group_id).get(name)
            if of_topic is None or (self._by_id and name not in self._image.topics):
                yield None
            elif self._may_see(name):
                yield _Topic(name, self._current_id(name), list(of_topic.values))
            else:
                yield None

    def _steps(self) -> Iterator[tuple[list[_Lookup], int]]:
        """The lookups in steps of at most about `OFFSETS_PER_STEP`, with their sizes."""
        if self.code:
            return
        step: list[_Lookup] = []
        size = 0
        for topic in self._all if self._requested is None else self._requested:
            size += 1
            for lookup in self._lookups(topic):
                if size >= OFFSETS_PER_STEP:
                    yield step, size
                    step, size = [], 0
                step.append(lookup)
                size += len(lookup.partitions)
        if step:
            yield step, size

    def _lookups(self, topic: _Topic | None) -> Iterator[_Lookup]:
        if topic is None:
            return
        name, topic_id, partitions = topic
        if self._by_id and topic_id == NO_TOPIC_ID:
            topic_id = self._image.topics[name].topic_id
        responses: list[PartitionResponse] = []
        self.topics.append(GroupTopicResponse(name, topic_id, responses))
        for begin in range(0, len(partitions), OFFSETS_PER_STEP):
            yield _Lookup(topic, partitions[begin : begin + OFFSETS_PER_STEP], responses)

    def _read(
        self, step: list[_Lookup], require_stable: bool, shard: GroupShard, now_ms: int
    ) -> None:
        for (name, topic_id, _), partitions, responses in step:
            if not self._exists:
                responses += map(PartitionResponse, partitions)
                continue
            found = shard.offsets.fetch(
                self._group_id, name, topic_id, partitions, require_stable=require_stable
            )
            responses += [PartitionResponse(*fetched) for fetched in found]

    def response(self) -> GroupResponse:
        """The group's response, in the form of version 8 and later."""
        if self.code:
            return GroupResponse(self._group_id, error_code=self.code)
        return GroupResponse(self._group_id, self.topics + self.refused)


def _may_see_group(broker: Broker, context: RequestContext, name: str) -> bool:
    return broker.authorizer.allows(context, Operation.DESCRIBE, ResourceType.GROUP, name)


def _may_see_topic(broker: Broker, context: RequestContext, name: str) -> bool:
    return broker.authorizer.allows(context, Operation.DESCRIBE, ResourceType.TOPIC, name)


def _nothing(found: object) -> None:
    """The callback has stored the result already."""
