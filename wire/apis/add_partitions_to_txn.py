"""AddPartitionsToTxn (key 24): a transaction is going to write to these partitions (KIP-98).

Versions 0 to 5. Up to 3, from clients, is of one transaction; 3 is flexible. 4 is what brokers send
each other, for several transactions and also to verify only (KIP-890); 2 may say PRODUCER_FENCED
(KIP-588), 5 TRANSACTION_ABORTABLE.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kavka.wire.api import Api
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

BATCHED_SINCE: Final = 4
"""From this version on a request is of several transactions."""

FENCED_SINCE: Final = 2
"""From this version on the error may be PRODUCER_FENCED (KIP-588)."""


@message
class PartitionResult:
    partition_index: int
    partition_error_code: int = 0


@message
class TopicResult:
    name: str
    results_by_partition: Sequence[PartitionResult] = ()


@message
class TransactionResult:
    transactional_id: str
    topic_results: Sequence[TopicResult] = ()


@message
class AddPartitionsToTxnResponse:
    """`results_by_topic_v3_and_below` up to version 3, the other two from 4 on."""

    error_code: int = 0
    results_by_transaction: Sequence[TransactionResult] = ()
    results_by_topic_v3_and_below: Sequence[TopicResult] = ()
    throttle_time_ms: int = 0


@message
class RequestedTopic:
    name: str
    partitions: Sequence[int]


@message
class RequestedTransaction:
    transactional_id: str
    producer_id: int
    producer_epoch: int
    verify_only: bool
    topics: Sequence[RequestedTopic]


@message
class AddPartitionsToTxnRequest:
    """In the form for brokers: from version 4 on."""

    transactions: Sequence[RequestedTransaction]


def error_response(request: Any, code: ErrorCode, version: int) -> AddPartitionsToTxnResponse:
    """`code` as the top-level error code; where there is no such place, for every partition."""
    if version >= BATCHED_SINCE:
        return AddPartitionsToTxnResponse(code)
    topics = all_partitions(request.v3_and_below_topics, code)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)


def all_partitions(topics: Sequence[Any], code: int) -> list[TopicResult]:
    """`code` for each partition of a request's topics."""
    return [
        TopicResult(topic.name, [PartitionResult(index, code) for index in topic.partitions])
        for topic in topics
    ]


API: Final = Api(
    24,
    "AddPartitionsToTxn",
    versions=(0, 5),
    first_flexible=3,
    error_response=error_response,
)
