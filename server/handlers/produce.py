"""Produce: append batches to the partitions that this broker leads.

Promises: a batch is checked (size, magic, CRC, count, and what its topic asks for beyond that) and
appended whole or refused with its partition's code, and with what is wrong with which record where
that is it (KIP-467); a repeated batch of an idempotent producer is acknowledged with its first
offset; with acks=all the answer waits for the high watermark. With acks=0 there is no answer, and
an error closes the connection, as in Apache Kafka. Of a partition named twice the last batch
counts, and an unreadable first batch spoils the whole request, as there.
A batch of a transaction must belong to it: before its first one in a partition is appended, the
coordinator is asked (KIP-890; see `kavka.server.handlers.common.transaction_verification`), and
other requests of the connection wait.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kavka.server.auth.authorizer import Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.cluster.metadata_cache import INTERNAL_TOPICS
from kavka.server.handlers.common.produce_request import (
    each_once,
    is_transactional,
    kept,
    last_of_each,
)
from kavka.server.replica.batch_admission import (
    ALL,
    InlineBudget,
    PendingBatch,
    Prepared,
    check_in_sync,
    prepare,
)
from kavka.server.replica.record_rules import NotVerified, RecordsRefused
from kavka.server.replica.replica import Replica
from kavka.server.request.context import BadRequest, RequestContext
from kavka.server.runtime.cooperative import Slices, go_on
from kavka.wire.apis.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionResponse,
    ProduceResponse,
    TopicResponse,
)
from kavka.wire.errors import ApiError, ErrorCode, forget_frames
from kavka.wire.records import (
    LOG_APPEND_TIME,
    Unacceptable,
)
from kavka.wire.steps import begun

if TYPE_CHECKING:
    from kavka.log.txn_guards import Guard
    from kavka.server.handlers.common.transaction_verification import Verdict, Verdicts

logger = logging.getLogger(__name__)

NO_ANSWER: Final = 0
LEADER_ONLY: Final = 1

BATCHES_A_STEP: Final = 200
"""Batches that are appended before the loop gets a turn, at up to 15 us each."""

_TOPIC_IDS_SINCE: Final = 13
_CURRENT_LEADER_SINCE: Final = 10

_NOTHING_TO_VERIFY: Final[Verdicts] = {}

_START_UNTOLD: Final = (
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.KAFKA_STORAGE_ERROR,
)
"""With any other refusal by the log comes its start offset, as in Apache Kafka."""


class _Waiting(NamedTuple):
    """An appended batch that may not be acknowledged yet."""

    replica: Replica
    last_offset: int
    answer: PartitionResponse
    needs_commit: bool
    needs_flush: bool

    def is_settled(self) -> bool:
        """Whether there is nothing left to wait for."""
        partition = self.replica.partition
        if self.replica.offline or not partition.is_leader:
            return True
        if self.needs_commit and partition.high_watermark <= self.last_offset:
            return False
        return not self.needs_flush or partition.is_safe_here(self.last_offset)

    def settle(self) -> None:
        """Put what became of the batch into the answer."""
        if self.replica.offline:
            self.answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        elif not self.replica.partition.is_leader:
            self.answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif not self.is_settled():
            self.answer.error_code = ErrorCode.REQUEST_TIMED_OUT


class _Opened(NamedTuple):
    """A batch that is looked into, and the place for what becomes of it."""

    replica: Replica
    opening: PendingBatch
    sent_bytes: int
    answer: PartitionResponse
    guard: Guard | None


class _Unfinished(NamedTuple):
    """What of a request can't be answered at once, and how much still can."""

    waiting: list[_Waiting]
    opened: list[_Opened]
    budget: InlineBudget
    verdicts: Verdicts
    """On what is written in a transaction."""


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    asked = request.topic_data
    if not each_once(asked):
        asked = last_of_each(asked)
    verdicts = _NOTHING_TO_VERIFY
    try:
        if is_transactional(request, asked):
            found = _verify(broker, context, request, asked)
            if isinstance(found, Coroutine):
                context.applied = broker.tasks.future()
                return _when_verified(broker, context, request, kept(context, asked), found)
            verdicts = found
    except ApiError as refusal:
        return _refuse_whole(request, asked, refusal)
    unfinished = _Unfinished([], [], InlineBudget(context.own), verdicts)
    topics = begun(_append_all(broker, context, request, asked, unfinished))
    if not isinstance(topics, list) or unfinished.opened:
        context.applied = broker.tasks.future()
        return _finish(broker, context, request, topics, unfinished)
    if request.acks == NO_ANSWER:
        if reason := _reason_to_hang_up(topics):
            raise reason
        return None
    response = ProduceResponse(topics, node_endpoints=_endpoints(broker, context, topics))
    if unfinished.waiting:
        return _wait(broker, context, response, unfinished.waiting, request.timeout_ms)
    return response


def _append_all(
    broker: Broker, context: RequestContext, request: Any, asked: Any, unfinished: _Unfinished
) -> Slices[list[TopicResponse]]:
    """Append what can be appended at once; the answer, as far as it is known."""
    acks = request.acks
    append = _append if acks in (ALL, NO_ANSWER, LEADER_ONLY) else _refuse_acks
    by_id = context.version >= _TOPIC_IDS_SINCE
    topics: list[TopicResponse] = []
    done = 0
    for topic in asked:
        name, refusal_code = _resolve(broker, context, topic, by_id)
        partitions: list[PartitionResponse] = []
        for data in topic.partition_data:
            if done == BATCHES_A_STEP:
                context.keep_frame()
                yield
                done = 0
            done += 1
            partitions.append(
                append(broker, context, name, data, acks, unfinished)
                if refusal_code is None
                else PartitionResponse(data.index, refusal_code)
            )
        topics.append(TopicResponse(name, topic.topic_id if by_id else None, partitions))
    return topics


async def _when_verified(
    broker: Broker,
    context: RequestContext,
    request: Any,
    asked: Any,
    verdicts: Coroutine[Any, Any, Verdicts],
) -> ProduceResponse | BadRequest | None:
    """Append once the coordinator has said what belongs to the transaction."""
    applied = context.applied
    assert applied is not None, "others wait for it"
    try:
        unfinished = _Unfinished([], [], InlineBudget(_as_it_is), await verdicts)
        topics = begun(_append_all(broker, context, request, asked, unfinished))
    except BaseException:
        applied.set_result(None)
        raise
    return await _finish(broker, context, request, topics, unfinished)


def _as_it_is(records: memoryview) -> memoryview:
    """What is kept, or copied, already may be looked at later: see `kept`."""
    return records


async def _finish(
    broker: Broker,
    context: RequestContext,
    request: Any,
    topics: list[TopicResponse] | Slices[list[TopicResponse]],
    unfinished: _Unfinished,
) -> ProduceResponse | BadRequest | None:
    """Append what is left, and the batches that take their time; the answer after all of them, if
    there is one."""
    applied = context.applied
    assert applied is not None, "others wait for it"
    try:
        if not isinstance(topics, list):
            topics = await go_on(broker.tasks, topics)
        for opened in unfinished.opened:
            await _append_opened(broker, context, opened, request.acks, unfinished.waiting)
    finally:
        applied.set_result(None)
    if request.acks == NO_ANSWER:
        return _reason_to_hang_up(topics)
    response = ProduceResponse(topics, node_endpoints=_endpoints(broker, context, topics))
    if unfinished.waiting:
        return await _wait(broker, context, response, unfinished.waiting, request.timeout_ms)
    return response


# -- the request as a whole ---------------------------------------------------------------


def _verify(
    broker: Broker, context: RequestContext, request: Any, topics: Any
) -> Verdicts | Coroutine[Any, Any, Verdicts]:
    """The verdicts on what is written in a transaction, or something to await. ApiError."""
    # not before there are transactions
    from kavka.server.handlers.common.transaction_verification import verify_writes

    name = request.transactional_id
    kind = ResourceType.TRANSACTIONAL_ID
    if not broker.authorizer.allows(context, Operation.WRITE, kind, name):
        raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    by_id = context.version >= _TOPIC_IDS_SINCE
    writes = []
    for topic in topics:
        topic_name, refusal_code = _resolve(broker, context, topic, by_id)
        if refusal_code is None:
            writes += [((topic_name, data.index), data.records) for data in topic.partition_data]
    return verify_writes(broker, name, context.version, writes)


def _refuse_whole(request: Any, topics: Any, refusal: ApiError) -> ProduceResponse:
    if request.acks == NO_ANSWER:
        raise BadRequest(f"Produce with acks=0 failed: {refusal}")
    return ProduceResponse(
        [
            TopicResponse(
                topic.name,
                topic.topic_id,
                [
                    PartitionResponse(data.index, refusal.code, error_message=refusal.message)
                    for data in topic.partition_data
                ],
            )
            for topic in topics
        ]
    )


def _endpoints(
    broker: Broker, context: RequestContext, topics: list[TopicResponse]
) -> list[NodeEndpoint]:
    """Where the leaders are that the answer names (KIP-951)."""
    leaders: dict[int, None] = {}
    for topic in topics:
        for partition in topic.partition_responses:
            if partition.current_leader is not None:
                leaders[partition.current_leader.leader_id] = None
    if not leaders:
        return []
    brokers = broker.metadata.image.brokers
    return [
        NodeEndpoint(known.broker_id, *address, known.rack)
        for known in (brokers[leader] for leader in leaders if leader in brokers)
        if (address := broker.address_of(known, context.peer)) is not None
    ]


# -- topics and partitions ----------------------------------------------------------------


def _resolve(
    broker: Broker, context: RequestContext, topic: Any, by_id: bool
) -> tuple[str, ErrorCode | None]:
    """The topic's name, and why nothing may be written to it."""
    if by_id:
        name = broker.metadata.image.names_by_id.get(topic.topic_id)
        if name is None:
            return "", ErrorCode.UNKNOWN_TOPIC_ID
    else:
        name = topic.name
    if not broker.authorizer.allows(context, Operation.WRITE, ResourceType.TOPIC, name):
        return name, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if name in INTERNAL_TOPICS and name in broker.metadata.image.topics:
        return name, ErrorCode.INVALID_TOPIC_EXCEPTION
    return name, None


def _append(
    broker: Broker,
    context: RequestContext,
    name: str,
    data: Any,
    acks: int,
    unfinished: _Unfinished,
) -> PartitionResponse:
    """Append one partition's batch; its place in the answer."""
    answer = PartitionResponse(data.index)
    replica: Replica | None = None
    try:
        replica = broker.replicas.leader(name, data.index)
        records = data.records
        if records is None:
            raise Unacceptable(ErrorCode.INVALID_RECORD, "there must be a record batch")
        guard = None
        if unfinished.verdicts:
            guard = _guard_of(unfinished.verdicts.get(replica.key))
        prepared = prepare(replica, records, context.version, acks, unfinished.budget)
        if isinstance(prepared, PendingBatch):
            unfinished.opened.append(_Opened(replica, prepared, len(records), answer, guard))
            return answer
        _append_prepared(replica, prepared, guard, len(records), acks, answer, unfinished.waiting)
    except Exception as failure:
        _fail(broker, context, name, answer, replica, len(data.records or b""), failure)
    return answer


def _guard_of(verdict: Verdict) -> Guard | None:
    """What is to be shown with a batch; NotVerified if it can't be appended."""
    if isinstance(verdict, NotVerified):
        raise verdict
    return verdict


async def _append_opened(
    broker: Broker, context: RequestContext, opened: _Opened, acks: int, waiting: list[_Waiting]
) -> None:
    """The same once the batch is ready, if its partition is still there to take it."""
    replica, opening, sent_bytes, answer, guard = opened
    name, index = replica.key
    try:
        prepared = await opening.finish(broker.replicas.opener)
        if broker.replicas.leader(name, index) is not replica:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if acks == ALL:
            check_in_sync(replica)
        _append_prepared(replica, prepared, guard, sent_bytes, acks, answer, waiting)
    except Exception as failure:
        _fail(broker, context, name, answer, replica, sent_bytes, failure)


def _fail(
    broker: Broker,
    context: RequestContext,
    name: str,
    answer: PartitionResponse,
    replica: Replica | None,
    sent_bytes: int,
    failure: Exception,
) -> None:
    """Count and answer a batch that is not appended."""
    refusal = _refusal_of(failure, name, answer.index)
    if (hosted := replica or broker.replicas.find(name, answer.index)) is not None:
        hosted.traffic.refuse(refusal.code, sent_bytes)
    _refuse(broker, context, name, answer, replica, refusal)
    forget_frames(failure)


def _refusal_of(failure: Exception, name: str, index: int) -> ApiError:
    """A failure as that of one partition: the others of the request have their own answers."""
    if isinstance(failure, ApiError):
        return failure
    logger.error("appending a batch to %s-%d failed", name, index, exc_info=failure)
    return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)


def _append_prepared(
    replica: Replica,
    prepared: Prepared,
    guard: Guard | None,
    sent_bytes: int,
    acks: int,
    answer: PartitionResponse,
    waiting: list[_Waiting],
) -> None:
    batch, header, converted = prepared
    if not batch:
        return  # an old request without a whole message: nothing is wrong with it
    appended = replica.append(batch, header, guard)
    if converted:
        replica.traffic.converted += header.record_count
        replica.traffic.bytes_in += sent_bytes - len(batch)  # what came counts, not what is kept
    answer.base_offset = appended.base_offset
    answer.log_append_time_ms = (
        header.max_timestamp
        if header.attributes & LOG_APPEND_TIME and not appended.duplicate
        else appended.log_append_time_ms
    )
    answer.log_start_offset = replica.log.start_offset
    needs_commit = acks == ALL and replica.partition.high_watermark <= appended.last_offset
    needs_flush = acks == LEADER_ONLY and not replica.partition.is_safe_here(appended.last_offset)
    if needs_commit or needs_flush:
        waiting.append(_Waiting(replica, appended.last_offset, answer, needs_commit, needs_flush))


def _refuse_acks(
    broker: Broker,
    context: RequestContext,
    name: str,
    data: Any,
    acks: int,
    unfinished: _Unfinished,
) -> PartitionResponse:
    """In the place of `_append`, for a number of acks that there is not."""
    answer = PartitionResponse(data.index, ErrorCode.INVALID_REQUIRED_ACKS)
    try:
        broker.replicas.leader(name, data.index)
    except ApiError as refusal:
        _refuse(broker, context, name, answer, None, refusal)
    return answer


def _refuse(
    broker: Broker,
    context: RequestContext,
    name: str,
    answer: PartitionResponse,
    replica: Replica | None,
    refusal: ApiError,
) -> None:
    """Put a refusal into its place in the answer. The reason is for the log: Apache Kafka has a
    text only for records refused one by one."""
    answer.error_code = refusal.code
    if replica is not None:
        broker.replicas.refusals.line(
            "refused a batch of %s for %s-%d: %s",
            context.peer.address,
            name,
            answer.index,
            refusal,
        )
        if isinstance(refusal, NotVerified):
            answer.error_message = refusal.message
        elif refusal.code not in _START_UNTOLD and not isinstance(refusal, Unacceptable):
            answer.log_start_offset = replica.log.start_offset
        if isinstance(refusal, RecordsRefused):
            answer.record_errors = refusal.record_errors
            answer.error_message = refusal.message
            replica.traffic.keyless += refusal.keyless
    if (
        refusal.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        and context.version >= _CURRENT_LEADER_SINCE
    ):
        topic = broker.metadata.image.topics.get(name)  # it may have gone while a batch was open
        known = None if topic is None else topic.partition(answer.index)
        if known is not None:
            answer.current_leader = LeaderIdAndEpoch(known.leader, known.leader_epoch)


def _reason_to_hang_up(topics: list[TopicResponse]) -> BadRequest | None:
    """With acks=0 the only way to tell a producer of a failure is to hang up."""
    for topic in topics:
        for partition in topic.partition_responses:
            if partition.error_code:
                code = ErrorCode(partition.error_code)
                return BadRequest(
                    f"Produce with acks=0 to {topic.name}-{partition.index} failed: {code.name}"
                )
    return None


def _wait(
    broker: Broker,
    context: RequestContext,
    response: ProduceResponse,
    waiting: list[_Waiting],
    timeout_ms: int,
) -> Coroutine[Any, Any, ProduceResponse]:
    """Wait for the replicas in sync (acks=all) and the disk (`flush.messages`), or the timeout.
    What changes from now on counts, even before the coroutine gets its first turn."""

    def settled() -> bool:
        return all(batch.is_settled() for batch in waiting)

    keys = [batch.replica.key for batch in waiting]
    woken = broker.purgatory.wait(keys, settled, timeout_ms / 1000, "Produce")
    return _when_settled(response, waiting, context.wait(woken))


async def _when_settled(
    response: ProduceResponse, waiting: list[_Waiting], woken: asyncio.Future[Any]
) -> ProduceResponse:
    await woken
    for batch in waiting:
        batch.settle()
    return response
