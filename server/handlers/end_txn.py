"""EndTxn: commit or abort a transaction (KIP-98).

Promises: the response is sent when the outcome is durable; the markers are written then, or as soon
as their partitions are writable. From version 5 on the response has the epoch of the producer's
next transaction (KIP-890).
"""

from __future__ import annotations

from functools import partial
from typing import Any

from kavka.log.journal import DecisionOrSteps, ReplyFuture
from kavka.server.auth.authorizer import Operation
from kavka.server.broker import Broker
from kavka.server.handlers.common.transaction_calls import call_coordinator, check_id
from kavka.server.request.context import RequestContext
from kavka.txncoord.shard import TransactionShard
from kavka.txncoord.transaction_requests import EPOCH_BUMPED_SINCE, EndTxn, ProducerIdAndEpoch
from kavka.wire.apis.end_txn import EPOCHS_SINCE, FENCED_SINCE, EndTxnResponse


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    check_id(broker, context, Operation.WRITE, request.transactional_id)
    end_request = EndTxn(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        request.committed,
        EPOCH_BUMPED_SINCE if context.version >= EPOCHS_SINCE else 0,
    )
    return call_coordinator(
        broker,
        context,
        end_request.transactional_id,
        partial(_call_shard, end_request),
        _response,
        EndTxnResponse,
        fenced_since=FENCED_SINCE,
    )


def _call_shard(
    end_request: EndTxn, shard: TransactionShard, future: ReplyFuture, now_ms: int
) -> DecisionOrSteps:
    return shard.end(end_request, future, now_ms)


def _response(producer: ProducerIdAndEpoch) -> EndTxnResponse:
    return EndTxnResponse(producer_id=producer.producer_id, producer_epoch=producer.producer_epoch)
