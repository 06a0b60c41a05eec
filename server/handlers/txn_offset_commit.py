"""TxnOffsetCommit: commits offsets of a group as part of a transaction (KIP-98, KIP-447).

Promises: as OffsetCommit's; the offsets become visible when the transaction commits, or never.
Before the first ones of a transaction are stored, its coordinator verifies the partition, as for
Produce (KIP-890), while other requests of the connection wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from functools import cache, partial
from typing import Any, Final
from uuid import UUID

from kavka.groupcoord.offsets import Commit, OffsetToCommit
from kavka.groupcoord.shard import GroupShard
from kavka.log.journal import CLIENT_ERRORS, DecisionOrSteps, Producer, ReplyFuture
from kavka.server.auth.authorizer import Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.cluster.metadata_cache import GROUP_TOPIC
from kavka.server.handlers.common.offset_commits import (
    Shape,
    ValidatedOffsets,
    commit,
    release_next,
    when_validated,
)
from kavka.server.handlers.common.transaction_calls import check_id
from kavka.server.handlers.common.transaction_verification import (
    TopicPartition,
    Verdict,
    Verdicts,
    Writer,
    verify,
)
from kavka.server.replica.record_rules import NotVerified
from kavka.server.request.context import RequestContext, Response
from kavka.server.request.sliced_responses import respond
from kavka.wire.apis.txn_offset_commit import (
    API,
    PartitionResponse,
    TopicResponse,
    TxnOffsetCommitResponse,
)
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.record_batches import NO_SEQUENCE

_EPOCHS_SINCE: Final = 2
_LOADING_SINCE: Final = 2
_ABORTABLE_SINCE: Final = 4
_ADDS_SINCE: Final = 5


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    check_id(broker, context, Operation.WRITE, request.transactional_id)
    group_id, version = request.group_id, context.version
    if not broker.authorizer.allows(context, Operation.READ, ResourceType.GROUP, group_id):
        raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    then = partial(_verify, broker, context, request)
    return when_validated(broker, context, _shape(version), request.topics, then)


def _verify(
    broker: Broker, context: RequestContext, request: Any, validated: ValidatedOffsets
) -> Any:
    """Have the transaction coordinator verify that the group's partition is in the transaction."""
    group_id, version = request.group_id, context.version
    if not validated.offsets:
        return validated.response()
    if not group_id:
        return _refuse(broker, context, validated, ErrorCode.INVALID_GROUP_ID)
    writer = Writer(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        version >= _ADDS_SINCE,
        version >= _ABORTABLE_SINCE,
    )
    topic_partition = GROUP_TOPIC, broker.groups.partition_of(group_id)
    found = verify(broker, writer, {topic_partition: NO_SEQUENCE})
    if isinstance(found, Awaitable):
        applied = context.applied = broker.tasks.future()
        return _when_verified(broker, context, request, validated, topic_partition, found, applied)
    return _commit(broker, context, request, validated, found[topic_partition])


@cache
def _shape(version: int) -> Shape:
    return Shape(
        by_id=False,
        with_epochs=version >= _EPOCHS_SINCE,
        with_times=False,
        topic=_of_topic,
        partition=PartitionResponse if version >= _LOADING_SINCE else _of_old,
        whole=TxnOffsetCommitResponse,
    )


def _of_topic(name: str, topic_id: UUID) -> TopicResponse:
    return TopicResponse(name, [])


def _of_old(index: int, code: int) -> PartitionResponse:
    """A result for old producers, which COORDINATOR_LOAD_IN_PROGRESS would end (KAFKA-7296)."""
    if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return PartitionResponse(index, code)


def _refuse(
    broker: Broker, context: RequestContext, validated: ValidatedOffsets, code: ErrorCode
) -> Response | Awaitable[Response]:
    codes = [code] * len(validated.offsets)
    return respond(broker.tasks, API, context, validated.response_in_steps(codes))


async def _when_verified(
    broker: Broker,
    context: RequestContext,
    request: Any,
    validated: ValidatedOffsets,
    topic_partition: TopicPartition,
    found: Awaitable[Verdicts],
    applied: asyncio.Future[None],
) -> Response:
    """Commit when the coordinator has verified the partition."""
    try:
        verdict = (await found)[topic_partition]
        made = _commit(broker, context, request, validated, verdict)
    finally:
        release_next(context, applied)
    return await made if isinstance(made, Awaitable) else made


def _commit(
    broker: Broker,
    context: RequestContext,
    request: Any,
    validated: ValidatedOffsets,
    verdict: Verdict,
) -> Any:
    """Have the group store the offsets, if the verification succeeded."""
    if isinstance(verdict, NotVerified):
        code = CLIENT_ERRORS.get(verdict.code, verdict.code)
        return _refuse(broker, context, validated, code)
    producer = Producer(request.producer_id, request.producer_epoch, verdict)
    group_call = _group_call(context, request, producer, validated.offsets)
    return commit(broker, context, API, request.group_id, validated, group_call)


def _group_call(
    context: RequestContext, request: Any, producer: Producer, offsets: Sequence[OffsetToCommit]
) -> partial[DecisionOrSteps]:
    commit_request = Commit(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id,
        context.version,
        offsets,
    )
    return partial(_call_shard, commit_request, producer)


def _call_shard(
    commit_request: Commit, producer: Producer, shard: GroupShard, future: ReplyFuture, now_ms: int
) -> DecisionOrSteps:
    return shard.offsets.commit_transactional(commit_request, producer, future, now_ms)
