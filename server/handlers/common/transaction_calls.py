"""How handlers call the transaction coordinator."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from kavka.log.journal import DecisionOrSteps, ReplyFuture
from kavka.server.auth.authorizer import Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.request.context import RequestContext, Response
from kavka.txncoord.shard import TransactionShard
from kavka.txncoord.transaction_requests import NeedsProducerId
from kavka.wire.errors import ApiError, ErrorCode

TransactionCall = Callable[[TransactionShard, ReplyFuture, int], DecisionOrSteps]


def check_id(
    broker: Broker, context: RequestContext, operation: Operation, transactional_id: str
) -> None:
    """ApiError if the client may not perform `operation` on the transactional id."""
    kind = ResourceType.TRANSACTIONAL_ID
    if not broker.authorizer.allows(context, operation, kind, transactional_id):
        raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


def call_coordinator(
    broker: Broker,
    context: RequestContext,
    transactional_id: str,
    call: TransactionCall,
    then: Callable[[Any], Response],
    refused: Callable[[ErrorCode], Response],
    *,
    fenced_since: int,
) -> Any:
    """Call the coordinator of a transactional id. The response that `then` makes of the result, or
    `refused` of the error code (see `client_code`); or an awaitable of it."""

    def failed(error: ApiError) -> Response:
        return refused(client_code(error.code, context, fenced_since))

    if not transactional_id:
        return refused(ErrorCode.INVALID_REQUEST)
    try:
        result = _call(broker, context, transactional_id, call)
    except ApiError as error:
        return failed(error)
    return _await_response(result, then, failed) if isinstance(result, Awaitable) else then(result)


async def _await_response(
    result: Awaitable[Any],
    then: Callable[[Any], Response],
    failed: Callable[[ApiError], Response],
) -> Response:
    try:
        found = await result
    except ApiError as error:
        return failed(error)
    return then(found)


def client_code(code: ErrorCode, context: RequestContext, fenced_since: int) -> ErrorCode:
    """The code for the client's version: PRODUCER_FENCED exists from `fenced_since` on; before, it
    is INVALID_PRODUCER_EPOCH (KIP-588)."""
    if code == ErrorCode.PRODUCER_FENCED and context.version < fenced_since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code


def _call(
    broker: Broker, context: RequestContext, transactional_id: str, call: TransactionCall
) -> Any:
    try:
        return broker.transactions.call(transactional_id, call)
    except NeedsProducerId:
        context.applied = broker.tasks.future()
        return _with_producer_id(broker, transactional_id, call, context.applied)


async def _with_producer_id(
    broker: Broker, transactional_id: str, call: TransactionCall, applied: asyncio.Future[None]
) -> Any:
    """Retry when a producer id is reserved; the connection's next request waits until then."""
    try:
        while True:
            await broker.producer_ids.reserve()
            try:
                result = broker.transactions.call(transactional_id, call)
                break
            except NeedsProducerId:  # other requests used up the block
                continue
    finally:
        applied.set_result(None)
    return await result if isinstance(result, Awaitable) else result
