"""DescribeTransactions (key 65): the state of transactional ids (KIP-664).

Version 0, flexible.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kavka.wire.api import Api
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

if TYPE_CHECKING:
    from kafka.protocol.admin.transactions import DescribeTransactionsRequest


@message
class TopicData:
    topic: str
    partitions: Sequence[int]


@message
class TransactionState:
    """One transactional id. The start is in ms since 1970, -1 where no transaction is open."""

    error_code: int = 0
    transactional_id: str = ""
    transaction_state: str = ""
    transaction_timeout_ms: int = 0
    transaction_start_time_ms: int = 0
    producer_id: int = 0
    producer_epoch: int = 0
    topics: Sequence[TopicData] = ()


@message
class DescribeTransactionsResponse:
    transaction_states: Sequence[TransactionState] = ()
    throttle_time_ms: int = 0


def error_response(
    request: DescribeTransactionsRequest, code: ErrorCode, version: int
) -> DescribeTransactionsResponse:
    """`code` for every id."""
    return DescribeTransactionsResponse(
        [TransactionState(code, transactional_id) for transactional_id in request.transactional_ids]
    )


API: Final = Api(
    65,
    "DescribeTransactions",
    versions=(0, 0),
    first_flexible=0,
    error_response=error_response,
)
