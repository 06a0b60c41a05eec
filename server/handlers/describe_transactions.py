"""DescribeTransactions: the state of transactional ids (KIP-664).

Promises: a result for each id, in order; of a transaction's topics only those that the client may
describe.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from kavka.server.auth.authorizer import Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.handlers.common.coordinator_calls import CoordinatorCalls
from kavka.server.handlers.common.transaction_calls import check_id
from kavka.server.request.context import RequestContext
from kavka.txncoord import listing
from kavka.txncoord.shard import TransactionShard
from kavka.txncoord.transaction import Transaction
from kavka.wire.apis.describe_transactions import (
    API,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import Steps

IDS_PER_STEP: Final = 200
"""Ids read, or put into the response, in one slice; an id with many partitions has its own."""


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    calls = CoordinatorCalls(broker, API)
    descriptions: list[_Description] = []

    def steps() -> Steps[None]:
        for number, transactional_id in enumerate(request.transactional_ids, 1):
            description = _Description(broker, context, transactional_id)
            descriptions.append(description)
            description.submit(calls)
            if number % IDS_PER_STEP == 0:
                yield None

    def respond() -> Steps[DescribeTransactionsResponse]:
        states = []
        for number, description in enumerate(descriptions, 1):
            states.append((yield from description.response()))
            if number % IDS_PER_STEP == 0:
                yield None
        return DescribeTransactionsResponse(states)

    return calls.run(context, steps(), respond)


class _Description:
    """The description of one transactional id."""

    def __init__(self, broker: Broker, context: RequestContext, transactional_id: str) -> None:
        self._id: Final = transactional_id
        self._known: Transaction | None = None
        self._code = ErrorCode.NONE
        self._broker: Final = broker
        self._context: Final = context

    def submit(self, calls: CoordinatorCalls) -> None:
        calls.submit(self._read, self._found, self._failed)

    def _read(self) -> Any:
        check_id(self._broker, self._context, Operation.DESCRIBE, self._id)
        if not self._id:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        return self._broker.transactions.read(self._id, partial(_find, self._id))

    def _found(self, known: Transaction) -> None:
        self._known = known

    def _failed(self, code: ErrorCode) -> None:
        self._code = code

    def response(self) -> Steps[TransactionState]:
        """The response for the id."""
        if self._known is None:
            return TransactionState(self._code, self._id)
        described = yield from listing.described(self._known)
        allows, context = self._broker.authorizer.allows, self._context
        return TransactionState(
            ErrorCode.NONE,
            self._id,
            described.state,
            described.timeout_ms,
            described.started_ms,
            described.producer_id,
            described.producer_epoch,
            [
                TopicData(topic, partitions)
                for topic, partitions in described.topics
                if allows(context, Operation.DESCRIBE, ResourceType.TOPIC, topic)
            ],
        )


def _find(transactional_id: str, shard: TransactionShard, now_ms: int) -> Transaction:
    return listing.known(shard.state, transactional_id)
