"""DescribeProducers (key 61): a partition's active producers (KIP-664).

Version 0, flexible.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kavka.wire.api import Api
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

if TYPE_CHECKING:
    from kafka.protocol.admin.transactions import DescribeProducersRequest


@message
class ProducerState:
    """One producer. `last_timestamp` is in ms; -1 stands for none everywhere."""

    producer_id: int
    producer_epoch: int
    last_sequence: int = -1
    last_timestamp: int = -1
    coordinator_epoch: int = -1
    current_txn_start_offset: int = -1


@message
class PartitionResponse:
    partition_index: int
    error_code: int = 0
    error_message: str | None = None
    active_producers: Sequence[ProducerState] = ()


@message
class TopicResponse:
    name: str
    partitions: Sequence[PartitionResponse] = ()


@message
class DescribeProducersResponse:
    topics: Sequence[TopicResponse] = ()
    throttle_time_ms: int = 0


def error_response(
    request: DescribeProducersRequest, code: ErrorCode, version: int
) -> DescribeProducersResponse:
    """`code` for every partition in the request."""
    return DescribeProducersResponse(
        [
            TopicResponse(
                topic.name, [PartitionResponse(index, code) for index in topic.partition_indexes]
            )
            for topic in request.topics
        ]
    )


API: Final = Api(
    61,
    "DescribeProducers",
    versions=(0, 0),
    first_flexible=0,
    error_response=error_response,
)
