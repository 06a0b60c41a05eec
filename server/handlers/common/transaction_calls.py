"""How handlers ask the transaction coordinator."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from kavka.log.journal import DecisionOrSteps, Ticket
from kavka.server.auth.authorizer import Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.request.context import RequestContext, Response
from kavka.txncoord.requests import NeedsProducerId
from kavka.txncoord.shard import TransactionShard
from kavka.wire.errors import ApiError, ErrorCode

Question = Callable[[TransactionShard, Ticket, int], DecisionOrSteps]


def check_id(
    broker: Broker, context: RequestContext, operation: Operation, transactional_id: str
) -> None:
    """Whether a client may do this with a transactional id. ApiError."""
    kind = ResourceType.TRANSACTIONAL_ID
    if not broker.authorizer.allows(context, operation, kind, transactional_id):
        raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


def ask(
    broker: Broker,
    context: RequestContext,
    transactional_id: str,
    question: Question,
    then: Callable[[Any], Response],
    refused: Callable[[ErrorCode], Response],
    *,
    fenced_since: int,
) -> Any:
    """What one of the functions makes of the answer of the id's machine, or of its refusal as
    `told`; at once or later."""

    def failed(refusal: ApiError) -> Response:
        return refused(told(refusal.code, context, fenced_since))

    if not transactional_id:
        return refused(ErrorCode.INVALID_REQUEST)
    try:
        answer = _call(broker, context, transactional_id, question)
    except ApiError as refusal:
        return failed(refusal)
    return _later(answer, then, failed) if isinstance(answer, Awaitable) else then(answer)


async def _later(
    answer: Awaitable[Any],
    then: Callable[[Any], Response],
    failed: Callable[[ApiError], Response],
) -> Response:
    try:
        found = await answer
    except ApiError as refusal:
        return failed(refusal)
    return then(found)


def told(code: ErrorCode, context: RequestContext, fenced_since: int) -> ErrorCode:
    """The code for a client: those of versions before `fenced_since` know no PRODUCER_FENCED, and
    get the one that was before (KIP-588)."""
    if code == ErrorCode.PRODUCER_FENCED and context.version < fenced_since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code


def _call(
    broker: Broker, context: RequestContext, transactional_id: str, question: Question
) -> Any:
    try:
        return broker.transactions.call(transactional_id, question)
    except NeedsProducerId:
        context.applied = broker.tasks.future()
        return _with_producer_id(broker, transactional_id, question, context.applied)


async def _with_producer_id(
    broker: Broker, transactional_id: str, question: Question, applied: asyncio.Future[None]
) -> Any:
    """Ask again when there is a fresh producer id; the connection's next request waits so long."""
    try:
        while True:
            await broker.producer_ids.reserve()
            try:
                answer = broker.transactions.call(transactional_id, question)
                break
            except NeedsProducerId:  # others were quicker
                continue
    finally:
        applied.set_result(None)
    return await answer if isinstance(answer, Awaitable) else answer
