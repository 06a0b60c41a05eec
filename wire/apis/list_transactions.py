"""ListTransactions (key 66): the transactional ids that a broker coordinates (KIP-664).

Versions 0 to 2, flexible; 1 can filter by duration (KIP-994), 2 by a pattern (KIP-1152).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kavka.wire.api import Api
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

if TYPE_CHECKING:
    from kafka.protocol.admin.transactions import ListTransactionsRequest

DURATION_SINCE: Final = 1
PATTERN_SINCE: Final = 2


@message
class TransactionState:
    transactional_id: str
    producer_id: int
    transaction_state: str


@message
class ListTransactionsResponse:
    error_code: int = 0
    unknown_state_filters: Sequence[str] = ()
    transaction_states: Sequence[TransactionState] = ()
    throttle_time_ms: int = 0


def error_response(
    request: ListTransactionsRequest, code: ErrorCode, version: int
) -> ListTransactionsResponse:
    """`code` as the top-level error code."""
    return ListTransactionsResponse(code)


API: Final = Api(
    66,
    "ListTransactions",
    versions=(0, 2),
    first_flexible=0,
    error_response=error_response,
)
