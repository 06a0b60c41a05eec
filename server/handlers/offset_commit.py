"""OffsetCommit: keep how far a group has come.

Promises: members commit in their generation or epoch, anyone else while nobody is in the group; a
commit of up to `OFFSETS_A_STEP` partitions is kept whole or not at all, a bigger one in parts.
Version 0 keeps offsets in the coordination tree (see `kavka.server.tree_offsets`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple
from uuid import UUID

from kavka.groupcoord.offset_records import NO_EPOCH, NO_TIME
from kavka.groupcoord.offsets import Commit, OffsetToCommit, is_too_long
from kavka.groupcoord.shard import GroupShard
from kavka.log.journal import Decision, Ticket
from kavka.server.auth.authorizer import Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.context import RequestContext
from kavka.server.group_calls import GroupCalls
from kavka.server.metadata_cache import TopicImage
from kavka.server.slices import Slices
from kavka.wire.apis.offset_commit import (
    API,
    EPOCHS_VERSION,
    TIMES_VERSION,
    TOPIC_IDS_VERSION,
    OffsetCommitResponse,
    PartitionResponse,
    TopicResponse,
)
from kavka.wire.errors import ApiError, ErrorCode

OFFSETS_A_STEP: Final = 1_000
"""Offsets that are committed in one batch, at 3 us each."""


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    group_id = request.group_id
    if not broker.authorizer.allows(context, Operation.READ, ResourceType.GROUP, group_id):
        raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    sorted_out = _SortedOut(broker, context, request)
    offsets = sorted_out.offsets
    if not offsets:
        return sorted_out.answer()
    if context.version == 0:
        context.applied = broker.tasks.future()
        return _in_tree(broker, group_id, sorted_out, context.applied)
    if len(offsets) > OFFSETS_A_STEP:
        return _in_steps(broker, context, request, sorted_out)
    try:
        ask = partial(_ask, _commit(context, request, offsets))
        codes = broker.groups.call(group_id, ask)
    except ApiError as refusal:
        codes = [refusal.code] * len(offsets)
    if isinstance(codes, list):
        return sorted_out.answer_with(codes)
    return _later(codes, sorted_out)


async def _later(codes: Awaitable[list[int]], sorted_out: _SortedOut) -> OffsetCommitResponse:
    try:
        return sorted_out.answer_with(await codes)
    except ApiError as refusal:
        return sorted_out.answer_with([refusal.code] * len(sorted_out.offsets))


def _commit(context: RequestContext, request: Any, offsets: Sequence[OffsetToCommit]) -> Commit:
    return Commit(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
        context.version,
        offsets,
        request.retention_time_ms,
    )


def _ask(commit: Commit, shard: GroupShard, ticket: Ticket, now_ms: int) -> Decision:
    return shard.offsets.commit(commit, ticket, now_ms)


def _in_steps(broker: Broker, context: RequestContext, request: Any, sorted_out: _SortedOut) -> Any:
    """Commit many offsets, some at a time, and let others have a turn between."""
    calls, offsets = GroupCalls(broker, API), sorted_out.offsets
    codes = [0] * len(offsets)

    def steps() -> Slices[None]:
        for begin in range(0, len(offsets), OFFSETS_A_STEP):
            part = slice(begin, min(begin + OFFSETS_A_STEP, len(offsets)))
            ask = partial(_ask, _commit(context, request, offsets[part]))
            calls.call(
                request.group_id, ask, partial(_note, codes, part), partial(_fail, codes, part)
            )
            yield

    return calls.run(context, steps(), lambda: sorted_out.answer_with(codes))


def _note(codes: list[int], part: slice, found: list[int]) -> None:
    codes[part] = found


def _fail(codes: list[int], part: slice, code: ErrorCode) -> None:
    codes[part] = [code] * (part.stop - part.start)


async def _in_tree(
    broker: Broker, group_id: str, sorted_out: _SortedOut, applied: asyncio.Future[None]
) -> OffsetCommitResponse:
    """Version 0."""
    codes: list[int] = []
    longest = broker.settings.offset_metadata_max_bytes
    try:
        for one in sorted_out.offsets:
            if is_too_long(one.metadata or "", longest):
                codes.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
                continue
            try:
                await broker.tree_offsets.put(group_id, one.topic, one.partition, one.offset)
                codes.append(0)
            except ApiError as refusal:
                codes.append(refusal.code)
    finally:
        applied.set_result(None)
    return sorted_out.answer_with(codes)


class _Topic(NamedTuple):
    """What of a topic is committed."""

    name: str
    topic_id: UUID
    partitions: list[int]


class _SortedOut:
    """What of a request may be committed, and what is refused before a group is asked."""

    def __init__(self, broker: Broker, context: RequestContext, request: Any) -> None:
        self._by_id: Final = context.version >= TOPIC_IDS_VERSION
        self._with_epochs: Final = context.version >= EPOCHS_VERSION
        self._with_times: Final = context.version == TIMES_VERSION
        self._refused: Final[dict[object, TopicResponse]] = {}
        self._accepted: Final[list[_Topic]] = []
        self.offsets: Final[list[OffsetToCommit]] = []
        """In the order of the request."""

        image, authorizer = broker.metadata.image, broker.authorizer
        for topic in request.topics:
            name = image.names_by_id.get(topic.topic_id) if self._by_id else topic.name
            if name is None:
                self._refuse(topic, ErrorCode.UNKNOWN_TOPIC_ID)
            elif not authorizer.allows(context, Operation.READ, ResourceType.TOPIC, name):
                self._refuse(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            elif (known := image.topics.get(name)) is None:
                self._refuse(topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            else:
                self._take(topic, known)

    def _refuse(self, topic: Any, code: ErrorCode) -> None:
        for one in topic.partitions:
            self._refuse_partition(topic, one.partition_index, code)

    def _refuse_partition(self, topic: Any, index: int, code: ErrorCode) -> None:
        answer = self._answer_of(topic.name, topic.topic_id)
        answer.partitions.append(PartitionResponse(index, code))

    def _answer_of(self, name: str, topic_id: UUID) -> TopicResponse:
        key = topic_id if self._by_id else name
        found = self._refused.get(key)
        if found is None:
            found = self._refused[key] = TopicResponse(name, topic_id, [])
        return found

    def _take(self, topic: Any, known: TopicImage) -> None:
        partitions: list[int] = []
        name, topic_id = known.name, known.topic_id
        with_epochs, with_times = self._with_epochs, self._with_times
        for one in topic.partitions:
            index = one.partition_index
            if known.partition(index) is None:
                self._refuse_partition(topic, index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                continue
            partitions.append(index)
            # to ask for what a version does not have takes long
            epoch = one.committed_leader_epoch if with_epochs else NO_EPOCH
            at_ms = one.commit_timestamp if with_times else NO_TIME
            offset, metadata = one.committed_offset, one.committed_metadata
            self.offsets.append(
                OffsetToCommit(name, index, offset, epoch, metadata, topic_id, at_ms)
            )
        if partitions:
            self._accepted.append(_Topic(topic.name, topic.topic_id, partitions))

    def answer(self) -> OffsetCommitResponse:
        """Where nothing was accepted."""
        return OffsetCommitResponse(list(self._refused.values()))

    def answer_with(self, codes: Sequence[int]) -> OffsetCommitResponse:
        """With the codes of `offsets`: what was refused comes first, as in Apache Kafka."""
        position = 0
        topics: list[TopicResponse] = []
        for name, topic_id, partitions in self._accepted:
            if self._refused:
                answer = self._answer_of(name, topic_id)
            else:  # a topic named twice is answered twice then
                topics.append(answer := TopicResponse(name, topic_id, []))
            for index in partitions:
                answer.partitions.append(PartitionResponse(index, codes[position]))
                position += 1
        return self.answer() if self._refused else OffsetCommitResponse(topics)
