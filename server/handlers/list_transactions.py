"""ListTransactions: the transactional ids that this broker coordinates (KIP-664).

Promises: filters by state, producer id, duration (KIP-994) and pattern (KIP-1152, RE2's syntax,
matching whole ids); unknown states are returned as such. While transactions are being loaded the
response is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from kavka.groupcoord.consumer import regexes
from kavka.server.auth.authorizer import Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.handlers.common.coordinator_calls import CoordinatorCalls
from kavka.server.request.context import RequestContext
from kavka.txncoord import listing
from kavka.txncoord.listing import STATE_NAMES, Filter, ListedTransaction
from kavka.txncoord.shard import TransactionShard
from kavka.wire.apis.list_transactions import (
    API,
    DURATION_SINCE,
    PATTERN_SINCE,
    ListTransactionsResponse,
    TransactionState,
)
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import Steps

IDS_PER_STEP: Final = 1_000
"""Transactional ids read in one slice, at 1 to 2 us each."""


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    list_ = _List(broker, context, request)
    return list_.calls.run(context, list_.steps(), list_.response)


class _List:
    """One request, and its results so far."""

    def __init__(self, broker: Broker, context: RequestContext, request: Any) -> None:
        self.calls: Final = CoordinatorCalls(broker, API)
        self._broker: Final = broker
        self._context: Final = context
        expression = request.transactional_id_pattern if context.version >= PATTERN_SINCE else None
        pattern = _compiled(expression) if expression else None
        self._filter: Final = Filter(
            frozenset(request.state_filters),
            frozenset(request.producer_id_filters),
            request.duration_filter if context.version >= DURATION_SINCE else -1,
            pattern,
        )
        self._a_step: Final = regexes.names_a_slice(pattern) if pattern else IDS_PER_STEP
        states = dict.fromkeys(request.state_filters)
        self._unknown: Final = [state for state in states if state not in STATE_NAMES]
        self._code = ErrorCode.NONE
        self._found: Final[list[TransactionState]] = []

    def steps(self) -> Steps[None]:
        runners = self._broker.transactions.runners
        return self.calls.read_all(
            runners, _ids, self._a_step, self._read, self._add_visible, self._failed
        )

    def _read(
        self, ids: Sequence[str], shard: TransactionShard, now_ms: int
    ) -> list[ListedTransaction]:
        return listing.listed(shard.state, ids, self._filter, now_ms)

    def _add_visible(self, listed: list[ListedTransaction]) -> None:
        allows, context = self._broker.authorizer.allows, self._context
        kind = ResourceType.TRANSACTIONAL_ID
        self._found.extend(
            TransactionState(*transaction)
            for transaction in listed
            if allows(context, Operation.DESCRIBE, kind, transaction.transactional_id)
        )

    def _failed(self, code: ErrorCode) -> None:
        if code != ErrorCode.NOT_COORDINATOR:  # another broker lists its ids now
            self._code = code

    def response(self) -> ListTransactionsResponse:
        if self._code:
            return ListTransactionsResponse(self._code)
        return ListTransactionsResponse(
            unknown_state_filters=self._unknown, transaction_states=self._found
        )


def _ids(shard: TransactionShard) -> Iterable[str]:
    return shard.state.transactions


def _compiled(expression: str) -> Any:
    pattern = regexes.compiled(expression)
    if pattern is None:
        raise ApiError(ErrorCode.INVALID_REGULAR_EXPRESSION)
    return pattern
