"""Produce: appends batches to the partitions that this broker leads.

Promises: a batch is validated (size, magic, CRC, count, and the rules of its topic) and appended
whole, or refused with its partition's code and, for invalid records, errors by record (KIP-467); a
duplicate batch of an idempotent producer is acknowledged with its original offset; with acks=all
the response waits for the high watermark. With acks=0 there is no response, and an error closes
the connection, as in Apache Kafka. As there, of a partition named twice the last batch is used,
and an unreadable first batch fails the whole request.
Before the first batch of a transaction is appended to a partition, the transaction coordinator
verifies the partition (KIP-890; see `kavka.server.handlers.common.transaction_verification`), and
other requests of the connection wait.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kavka.server.auth.authorizer import Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.cluster.metadata_cache import INTERNAL_TOPICS
from kavka.server.handlers.common.leader_endpoints import leader_endpoints
from kavka.server.handlers.common.produce_request import (
    is_transactional,
    last_of_each,
    names_each_once,
    retained,
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
from kavka.server.request.context import BadRequest, RequestContext, Response
from kavka.server.request.results import DelayedResponse
from kavka.server.runtime.cooperative import run
from kavka.server.runtime.purgatory import Wait
from kavka.wire.apis.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionResponse,
    ProduceResponse,
    TopicResponse,
)
from kavka.wire.errors import ApiError, ErrorCode, clear_tracebacks
from kavka.wire.record_batches import (
    LOG_APPEND_TIME,
    Unacceptable,
)
from kavka.wire.steps import Steps

if TYPE_CHECKING:
    from kavka.log.txn_guards import Guard
    from kavka.server.handlers.common.transaction_verification import Verdict, Verdicts

logger = logging.getLogger(__name__)

NO_RESPONSE: Final = 0
LEADER_ONLY: Final = 1

BATCHES_PER_STEP: Final = 200
"""Batches appended in one slice, at up to 15 us each."""

_TOPIC_IDS_SINCE: Final = 13
_CURRENT_LEADER_SINCE: Final = 10

_NOTHING_TO_VERIFY: Final[Verdicts] = {}

_WITHOUT_LOG_START: Final = (
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.KAFKA_STORAGE_ERROR,
)
"""Errors without a log start offset in the response; other refusals by the log have it, as in
Apache Kafka."""


class _Unacknowledged(NamedTuple):
    """An appended batch that may not be acknowledged yet."""

    replica: Replica
    last_offset: int
    response: PartitionResponse
    led_since_epoch: int
    needs_commit: bool
    needs_flush: bool

    @property
    def is_lost(self) -> bool:
        """Whether the batch may have been truncated: another broker has led meanwhile."""
        partition = self.replica.partition
        return not partition.is_leader or partition.led_since_epoch != self.led_since_epoch

    def is_complete(self) -> bool:
        """Whether the batch needs no further waiting: it is acknowledged or has failed."""
        partition = self.replica.partition
        if self.replica.offline or self.is_lost:
            return True
        if self.needs_commit and partition.high_watermark <= self.last_offset:
            return False
        return not self.needs_flush or partition.is_safe_here(self.last_offset)

    def complete(self) -> None:
        """Put the batch's result into the response."""
        if self.replica.offline:
            self.response.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        elif self.is_lost:
            self.response.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif not self.is_complete():
            self.response.error_code = ErrorCode.REQUEST_TIMED_OUT
        elif self.needs_commit and not self.replica.partition.has_enough_in_sync:
            self.response.error_code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


class _Opened(NamedTuple):
    """A batch that is being decompressed to validate its records, and its response."""

    replica: Replica
    opening: PendingBatch
    sent_bytes: int
    response: PartitionResponse
    guard: Guard | None


class _Unfinished(NamedTuple):
    """The batches of a request that are not acknowledged or not appended yet."""

    waiting: list[_Unacknowledged]
    opened: list[_Opened]
    budget: InlineBudget
    verdicts: Verdicts
    """On transactional batches."""


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    requested = request.topic_data
    if not names_each_once(requested):
        requested = last_of_each(requested)
    verdicts = _NOTHING_TO_VERIFY
    try:
        if is_transactional(request, requested):
            found = _verify(broker, context, request, requested)
            if isinstance(found, Coroutine):
                context.applied = broker.tasks.future()
                return _when_verified(broker, context, request, retained(context, requested), found)
            verdicts = found
    except ApiError as error:
        return _refuse_whole(request, requested, error)
    unfinished = _Unfinished([], [], InlineBudget(context.retain), verdicts)
    topics = run(broker.tasks, _append_all(broker, context, request, requested, unfinished))
    if not isinstance(topics, list) or unfinished.opened:
        context.applied = broker.tasks.future()
        return _finish(broker, context, request, topics, unfinished)
    if request.acks == NO_RESPONSE:
        if reason := _reason_to_close(topics):
            raise reason
        if waiting := unfinished.waiting:
            wait = _wait(broker, context, waiting, request.timeout_ms)
            return _when_flushed(topics, waiting, wait.future())
        return None
    response = ProduceResponse(topics, node_endpoints=_endpoints(broker, context, topics))
    if waiting := unfinished.waiting:
        wait = _wait(broker, context, waiting, request.timeout_ms)
        return _when_complete(response, waiting, wait)
    return response


def acknowledge(
    broker: Broker,
    replica: Replica,
    last_offset: int,
    partition_response: PartitionResponse,
    timeout_ms: int,
    respond: Callable[[], Response],
) -> DelayedResponse:
    """Wait until all replicas in sync have a batch that the fast path has appended. Then `respond`
    makes the response, with `partition_response` as it is by then."""
    since = replica.partition.led_since_epoch
    batch = _Unacknowledged(replica, last_offset, partition_response, since, True, False)

    def complete(_: bool) -> Response:
        batch.complete()
        return respond()

    wait_s = timeout_ms / 1000
    wait = broker.purgatory.begin((replica.key,), batch.is_complete, wait_s, "Produce")
    return DelayedResponse(wait, complete)


def _append_all(
    broker: Broker, context: RequestContext, request: Any, requested: Any, unfinished: _Unfinished
) -> Steps[list[TopicResponse]]:
    """Append what needs no waiting; the response as far as it is known."""
    acks = request.acks
    append = _append if acks in (ALL, NO_RESPONSE, LEADER_ONLY) else _refuse_acks
    by_id = context.version >= _TOPIC_IDS_SINCE
    topics: list[TopicResponse] = []
    done = 0
    for topic in requested:
        name, error_code = _resolve(broker, context, topic, by_id)
        partitions: list[PartitionResponse] = []
        for data in topic.partition_data:
            if done == BATCHES_PER_STEP:
                context.keep_frame()
                yield None
                done = 0
            done += 1
            partitions.append(
                append(broker, context, name, data, acks, unfinished)
                if error_code is None
                else PartitionResponse(data.index, error_code)
            )
        topics.append(TopicResponse(name, topic.topic_id if by_id else None, partitions))
    return topics


async def _when_verified(
    broker: Broker,
    context: RequestContext,
    request: Any,
    requested: Any,
    verdicts: Coroutine[Any, Any, Verdicts],
) -> ProduceResponse | BadRequest | None:
    """Append when the transaction coordinator has verified the partitions."""
    applied = context.applied
    assert applied is not None, "the connection's next request waits for it"
    try:
        unfinished = _Unfinished([], [], InlineBudget(_already_retained), await verdicts)
        topics = run(broker.tasks, _append_all(broker, context, request, requested, unfinished))
    except BaseException:
        applied.set_result(None)
        raise
    return await _finish(broker, context, request, topics, unfinished)


def _already_retained(records: memoryview) -> memoryview:
    """The records as they are: they stay valid already, see `retained`."""
    return records


async def _finish(
    broker: Broker,
    context: RequestContext,
    request: Any,
    topics: list[TopicResponse] | Awaitable[list[TopicResponse]],
    unfinished: _Unfinished,
) -> ProduceResponse | BadRequest | None:
    """Append the rest, and the batches being decompressed; then the response, if there is one."""
    applied = context.applied
    assert applied is not None, "the connection's next request waits for it"
    try:
        if not isinstance(topics, list):
            topics = await topics
        for opened in unfinished.opened:
            await _append_opened(broker, context, opened, request.acks, unfinished.waiting)
    finally:
        applied.set_result(None)
    if request.acks == NO_RESPONSE:
        if waiting := unfinished.waiting:
            wait = _wait(broker, context, waiting, request.timeout_ms)
            return await _when_flushed(topics, waiting, wait.future())
        return _reason_to_close(topics)
    response = ProduceResponse(topics, node_endpoints=_endpoints(broker, context, topics))
    if waiting := unfinished.waiting:
        wait = _wait(broker, context, waiting, request.timeout_ms)
        response = await _when_complete(response, waiting, wait)
    return response


# -- the request as a whole ---------------------------------------------------------------


def _verify(
    broker: Broker, context: RequestContext, request: Any, topics: Any
) -> Verdicts | Coroutine[Any, Any, Verdicts]:
    """The verdicts on transactional batches, or an awaitable of them. ApiError."""
    # lazy import: not before there are transactions
    from kavka.server.handlers.common.transaction_verification import verify_writes

    name = request.transactional_id
    kind = ResourceType.TRANSACTIONAL_ID
    if not broker.authorizer.allows(context, Operation.WRITE, kind, name):
        raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    by_id = context.version >= _TOPIC_IDS_SINCE
    writes = []
    for topic in topics:
        topic_name, error_code = _resolve(broker, context, topic, by_id)
        if error_code is None:
            writes += [((topic_name, data.index), data.records) for data in topic.partition_data]
    return verify_writes(broker, name, context.version, writes)


def _refuse_whole(request: Any, topics: Any, error: ApiError) -> ProduceResponse:
    if request.acks == NO_RESPONSE:
        raise BadRequest(f"Produce with acks=0 failed: {error}")
    return ProduceResponse(
        [
            TopicResponse(
                topic.name,
                topic.topic_id,
                [
                    PartitionResponse(data.index, error.code, error_message=error.message)
                    for data in topic.partition_data
                ],
            )
            for topic in topics
        ]
    )


def _endpoints(
    broker: Broker, context: RequestContext, topics: list[TopicResponse]
) -> list[NodeEndpoint]:
    """Endpoints of the leaders that the response names (KIP-951)."""
    leaders: dict[int, None] = {}
    for topic in topics:
        for partition in topic.partition_responses:
            if partition.current_leader is not None:
                leaders[partition.current_leader.leader_id] = None
    return leader_endpoints(broker, context, leaders) if leaders else []


# -- topics and partitions ----------------------------------------------------------------


def _resolve(
    broker: Broker, context: RequestContext, topic: Any, by_id: bool
) -> tuple[str, ErrorCode | None]:
    """The topic's name, and the error if nothing may be written to it."""
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
    """Append one partition's batch, and return its response."""
    response = PartitionResponse(data.index)
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
            unfinished.opened.append(_Opened(replica, prepared, len(records), response, guard))
            return response
        _append_prepared(replica, prepared, guard, len(records), acks, response, unfinished.waiting)
    except Exception as failure:
        _fail(broker, context, name, response, replica, len(data.records or b""), failure)
    return response


def _guard_of(verdict: Verdict) -> Guard | None:
    """The guard to append a batch with; NotVerified if it can't be appended."""
    if isinstance(verdict, NotVerified):
        raise verdict
    return verdict


async def _append_opened(
    broker: Broker,
    context: RequestContext,
    opened: _Opened,
    acks: int,
    waiting: list[_Unacknowledged],
) -> None:
    """Append a batch when it is decompressed, if this broker still leads its partition."""
    replica, opening, sent_bytes, response, guard = opened
    name, index = replica.key
    try:
        prepared = await opening.finish(broker.replicas.opener)
        if broker.replicas.leader(name, index) is not replica:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if acks == ALL:
            check_in_sync(replica)
        _append_prepared(replica, prepared, guard, sent_bytes, acks, response, waiting)
    except Exception as failure:
        _fail(broker, context, name, response, replica, sent_bytes, failure)


def _fail(
    broker: Broker,
    context: RequestContext,
    name: str,
    response: PartitionResponse,
    replica: Replica | None,
    sent_bytes: int,
    failure: Exception,
) -> None:
    """Count a batch that was not appended, and put the error into its response."""
    error = _error_of(failure, name, response.index)
    if (hosted := replica or broker.replicas.find(name, response.index)) is not None:
        hosted.traffic.refuse(error.code, sent_bytes)
    _refuse(broker, context, name, response, replica, error)
    clear_tracebacks(failure)


def _error_of(failure: Exception, name: str, index: int) -> ApiError:
    """A failure as an error of one partition, which does not affect the request's others."""
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
    response: PartitionResponse,
    waiting: list[_Unacknowledged],
) -> None:
    batch, header, converted = prepared
    if not batch:
        return  # an old request without a complete message, which is no error
    appended = replica.append(batch, header, guard)
    if converted:
        replica.traffic.converted += header.record_count
        replica.traffic.bytes_in += sent_bytes - len(batch)  # count bytes received, not stored
    response.base_offset = appended.base_offset
    response.log_append_time_ms = (
        header.max_timestamp
        if header.attributes & LOG_APPEND_TIME and not appended.duplicate
        else appended.log_append_time_ms
    )
    response.log_start_offset = replica.log.start_offset
    needs_commit = acks == ALL and replica.partition.high_watermark <= appended.last_offset
    needs_flush = acks != ALL and not replica.partition.is_safe_here(appended.last_offset)
    if needs_commit or needs_flush:
        since = replica.partition.led_since_epoch
        waiting.append(
            _Unacknowledged(
                replica, appended.last_offset, response, since, needs_commit, needs_flush
            )
        )


def _refuse_acks(
    broker: Broker,
    context: RequestContext,
    name: str,
    data: Any,
    acks: int,
    unfinished: _Unfinished,
) -> PartitionResponse:
    """Used in place of `_append` for an invalid acks."""
    response = PartitionResponse(data.index, ErrorCode.INVALID_REQUIRED_ACKS)
    try:
        broker.replicas.leader(name, data.index)
    except ApiError as error:
        _refuse(broker, context, name, response, None, error)
    return response


def _refuse(
    broker: Broker,
    context: RequestContext,
    name: str,
    response: PartitionResponse,
    replica: Replica | None,
    error: ApiError,
) -> None:
    """Put an error into a partition's response, and log the reason: like Apache Kafka, the
    response has a message only for records refused one by one."""
    response.error_code = error.code
    if replica is not None:
        broker.replicas.refusals.line(
            "refused a batch of %s for %s-%d: %s",
            context.peer.address,
            name,
            response.index,
            error,
        )
        if isinstance(error, NotVerified):
            response.error_message = error.message
        elif error.code not in _WITHOUT_LOG_START and not isinstance(error, Unacceptable):
            response.log_start_offset = replica.log.start_offset
        if isinstance(error, RecordsRefused):
            response.record_errors = error.record_errors
            response.error_message = error.message
            replica.traffic.keyless += error.keyless
    if error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER and context.version >= _CURRENT_LEADER_SINCE:
        topic = broker.metadata.image.topics.get(name)  # it may have been deleted meanwhile
        known = None if topic is None else topic.partition(response.index)
        if known is not None:
            response.current_leader = LeaderIdAndEpoch(known.leader, known.leader_epoch)


def _reason_to_close(topics: list[TopicResponse]) -> BadRequest | None:
    """With acks=0 an error is reported by closing the connection."""
    for topic in topics:
        for partition in topic.partition_responses:
            if partition.error_code:
                code = ErrorCode(partition.error_code)
                return BadRequest(
                    f"Produce with acks=0 to {topic.name}-{partition.index} failed: {code.name}"
                )
    return None


def _wait(
    broker: Broker, context: RequestContext, waiting: list[_Unacknowledged], timeout_ms: int
) -> Wait:
    """Wait for the in-sync replicas (acks=all) and flushes (`flush.messages`), or the timeout."""

    def all_complete() -> bool:
        return all(batch.is_complete() for batch in waiting)

    keys = [batch.replica.key for batch in waiting]
    return context.wait(broker.purgatory.begin(keys, all_complete, timeout_ms / 1000, "Produce"))


def _when_complete(
    response: ProduceResponse, waiting: list[_Unacknowledged], wait: Wait
) -> DelayedResponse:
    def make(_: bool) -> ProduceResponse:
        for batch in waiting:
            batch.complete()
        return response

    return DelayedResponse(wait, make)


async def _when_flushed(
    topics: list[TopicResponse], waiting: list[_Unacknowledged], woken: asyncio.Future[Any]
) -> BadRequest | None:
    """With acks=0: nobody waits for a response, but the connection's next requests for the flush,
    before which they would not see the records. If that fails, the connection is closed; what
    else happens to a batch that was appended (another leader, no topic) no client learns."""
    await woken
    for batch in waiting:
        if batch.replica.offline:
            batch.complete()
    return _reason_to_close(topics)
