"""OffsetCommit: commits offsets of a group.

Promises: members commit in their generation or epoch, other clients only while the group is empty;
a commit is atomic; if it does not fit into a batch of `max.message.bytes` it is refused with
UNKNOWN_SERVER_ERROR, as in Apache Kafka.
Version 0 stores offsets in the coordination tree (see
`kavka.server.coordinators.zookeeper_offsets`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cache, partial
from typing import Any
from uuid import UUID

from kavka.groupcoord.offset_records import NO_TIME
from kavka.groupcoord.offsets import Commit, OffsetToCommit, is_too_long
from kavka.groupcoord.shard import GroupShard
from kavka.log.journal import DecisionOrSteps, ReplyFuture
from kavka.server.auth.authorizer import Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.handlers.common.offset_commits import (
    Shape,
    ValidatedOffsets,
    commit,
    when_validated,
)
from kavka.server.request.context import RequestContext
from kavka.server.runtime import cooperative
from kavka.wire.apis.offset_commit import (
    API,
    EPOCHS_VERSION,
    INSTANCES_VERSION,
    RETENTION_VERSIONS,
    TIMES_VERSION,
    TOPIC_IDS_VERSION,
    OffsetCommitResponse,
    PartitionResponse,
    TopicResponse,
)
from kavka.wire.errors import ApiError, ErrorCode


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    group_id = request.group_id
    if not broker.authorizer.allows(context, Operation.READ, ResourceType.GROUP, group_id):
        raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    then = partial(_commit, broker, context, request)
    return when_validated(broker, context, _shape(context.version), request.topics, then)


def _commit(
    broker: Broker, context: RequestContext, request: Any, validated: ValidatedOffsets
) -> Any:
    if not validated.offsets:
        return validated.response()
    group_id = request.group_id
    if context.version == 0:
        context.applied = broker.tasks.future()
        return _in_tree(broker, group_id, validated, context.applied)
    group_call = _group_call(context, request, validated.offsets)
    return commit(broker, context, API, group_id, validated, group_call)


@cache
def _shape(version: int) -> Shape:
    return Shape(
        by_id=version >= TOPIC_IDS_VERSION,
        with_epochs=version >= EPOCHS_VERSION,
        with_times=version == TIMES_VERSION,
        topic=_of_topic,
        partition=PartitionResponse,
        whole=OffsetCommitResponse,
    )


def _of_topic(name: str, topic_id: UUID) -> TopicResponse:
    return TopicResponse(name, topic_id, [])


def _group_call(
    context: RequestContext, request: Any, offsets: Sequence[OffsetToCommit]
) -> partial[DecisionOrSteps]:
    version = context.version
    # reading a field that the version does not have is slow
    commit_request = Commit(
        request.group_id,
        request.member_id,
        request.group_instance_id if version >= INSTANCES_VERSION else None,
        request.generation_id_or_member_epoch,
        version,
        offsets,
        request.retention_time_ms if version in RETENTION_VERSIONS else NO_TIME,
    )
    return partial(_call_shard, commit_request)


def _call_shard(
    commit_request: Commit, shard: GroupShard, future: ReplyFuture, now_ms: int
) -> DecisionOrSteps:
    return shard.offsets.commit(commit_request, future, now_ms)


async def _in_tree(
    broker: Broker, group_id: str, validated: ValidatedOffsets, applied: asyncio.Future[None]
) -> Any:
    """Version 0."""
    codes: list[int] = []
    longest = broker.settings.offset_metadata_max_bytes
    try:
        for offset in validated.offsets:
            if is_too_long(offset.metadata or "", longest):
                codes.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
                continue
            try:
                await broker.zookeeper_offsets.put(
                    group_id, offset.topic, offset.partition, offset.offset
                )
                codes.append(0)
            except ApiError as error:
                codes.append(error.code)
    finally:
        applied.set_result(None)
    return await cooperative.run_rest(broker.tasks, validated.response_in_steps(codes))
