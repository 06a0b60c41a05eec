"""DescribeTransactions: what is known of transactional ids (KIP-664).

Promises: an answer for each id, in order; of a transaction's topics those that the client may
describe.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from kavka.server.auth.authorizer import Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.calls import Calls
from kavka.server.context import RequestContext
from kavka.server.slices import Slices
from kavka.server.transaction_calls import check_id
from kavka.txncoord import listing
from kavka.txncoord.listing import DescribedTransaction
from kavka.txncoord.shard import TransactionShard
from kavka.wire.apis.describe_transactions import (
    API,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from kavka.wire.errors import ApiError, ErrorCode

PARTITIONS_A_STEP: Final = 2_000
"""Partitions that are told of in one go."""

ID_COST: Final = 10
"""An id takes as long as so many partitions."""


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    calls = Calls(broker, API)
    descriptions: list[_Description] = []

    def steps() -> Slices[None]:
        cost = 0
        for transactional_id in request.transactional_ids:
            one = _Description(broker, context, transactional_id)
            descriptions.append(one)
            one.ask(calls)
            cost += ID_COST + one.size
            if cost >= PARTITIONS_A_STEP:
                cost = 0
                yield

    def answer() -> DescribeTransactionsResponse:
        return DescribeTransactionsResponse([one.response for one in descriptions])

    return calls.run(context, steps(), answer)


class _Description:
    """Of one transactional id."""

    def __init__(self, broker: Broker, context: RequestContext, transactional_id: str) -> None:
        self.response = TransactionState(transactional_id=transactional_id)
        self._broker: Final = broker
        self._context: Final = context

    def ask(self, calls: Calls) -> None:
        calls.take(self._read, self._found, self._failed)

    @property
    def size(self) -> int:
        """Partitions that are told of."""
        return sum(len(one.partitions) for one in self.response.topics)

    def _read(self) -> Any:
        transactional_id = self.response.transactional_id
        check_id(self._broker, self._context, Operation.DESCRIBE, transactional_id)
        if not transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        look = partial(_look, transactional_id)
        return self._broker.transactions.read(transactional_id, look)

    def _found(self, one: DescribedTransaction) -> None:
        allows, context = self._broker.authorizer.allows, self._context
        self.response = TransactionState(
            ErrorCode.NONE,
            self.response.transactional_id,
            one.state,
            one.timeout_ms,
            one.started_ms,
            one.producer_id,
            one.producer_epoch,
            [
                TopicData(topic, partitions)
                for topic, partitions in one.topics
                if allows(context, Operation.DESCRIBE, ResourceType.TOPIC, topic)
            ],
        )

    def _failed(self, code: ErrorCode) -> None:
        self.response = TransactionState(code, self.response.transactional_id)


def _look(transactional_id: str, shard: TransactionShard, now_ms: int) -> DescribedTransaction:
    return listing.described(shard.state, transactional_id)
