"""InitProducerId: an id and an epoch for an idempotent or a transactional producer.

Promises: an id that is unique in the cluster, epoch 0. With a transactional id: its producer id and
a higher epoch, which fences earlier producers; their open transaction is aborted first, while the
client retries.
Left out: version 6 (two-phase commit, KIP-939), which Apache Kafka 4.3 does not serve either.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from kavka.server.auth.authorizer import CLUSTER_NAME, Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.request.context import RequestContext
from kavka.wire.apis.init_producer_id import FENCED_SINCE, InitProducerIdResponse
from kavka.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from kavka.log.journal import DecisionOrSteps, ReplyFuture
    from kavka.txncoord.shard import TransactionShard
    from kavka.txncoord.transaction_requests import InitProducerId, ProducerIdAndEpoch

_NONE = -1


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    if request.transactional_id is not None:
        return _transactional(broker, context, request)
    allowed = broker.authorizer.allows(
        context, Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME
    )
    if not allowed:
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    _check_producer(request)
    return _fresh(broker)


def _check_producer(request: Any) -> None:
    """ApiError INVALID_REQUEST unless the request has both producer id and epoch, or neither
    (KIP-360)."""
    if (request.producer_id == _NONE) != (request.producer_epoch == _NONE):
        raise ApiError(ErrorCode.INVALID_REQUEST)


async def _fresh(broker: Broker) -> InitProducerIdResponse:
    """Give a producer without a transactional id a new producer id. No state of it is kept, so a
    repeated request (KIP-360) gets a new id rather than a new epoch, as in Apache Kafka."""
    return InitProducerIdResponse(producer_id=await broker.producer_ids.next(), producer_epoch=0)


def _transactional(broker: Broker, context: RequestContext, request: Any) -> Any:
    # lazy import, not before there are transactions: see `kavka.server.runtime.lazy_imports`
    from kavka.server.handlers.common.transaction_calls import call_coordinator, check_id
    from kavka.txncoord.transaction_requests import InitProducerId

    check_id(broker, context, Operation.WRITE, request.transactional_id)
    _check_producer(request)
    init_request = InitProducerId(
        request.transactional_id,
        request.transaction_timeout_ms,
        request.producer_id,
        request.producer_epoch,
    )
    return call_coordinator(
        broker,
        context,
        init_request.transactional_id,
        partial(_call_shard, init_request),
        _response,
        InitProducerIdResponse,
        fenced_since=FENCED_SINCE,
    )


def _call_shard(
    init_request: InitProducerId, shard: TransactionShard, future: ReplyFuture, now_ms: int
) -> DecisionOrSteps:
    return shard.init_producer_id(init_request, future, now_ms)


def _response(producer: ProducerIdAndEpoch) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        producer_id=producer.producer_id, producer_epoch=producer.producer_epoch
    )
