"""WriteTxnMarkers (key 27): end transactions in these partitions; between brokers (KIP-98).

Versions 0 to 2, flexible from 1 on; 2 has the transaction version (KIP-890).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kavka.wire.api import Api
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

TRANSACTION_VERSIONS_SINCE: Final = 2


@message
class PartitionResult:
    partition_index: int
    error_code: int = 0


@message
class TopicResult:
    name: str
    partitions: Sequence[PartitionResult] = ()


@message
class MarkerResult:
    producer_id: int
    topics: Sequence[TopicResult] = ()


@message
class WriteTxnMarkersResponse:
    markers: Sequence[MarkerResult] = ()


@message
class RequestedTopic:
    name: str
    partition_indexes: Sequence[int]


@message
class RequestedMarker:
    """`transaction_result`: whether the transaction is committed."""

    producer_id: int
    producer_epoch: int
    transaction_result: bool
    topics: Sequence[RequestedTopic]
    coordinator_epoch: int
    transaction_version: int = 0


@message
class WriteTxnMarkersRequest:
    markers: Sequence[RequestedMarker]


def error_response(request: Any, code: ErrorCode, version: int) -> WriteTxnMarkersResponse:
    """`code` for every partition of every marker."""
    return WriteTxnMarkersResponse(
        [
            MarkerResult(
                marker.producer_id,
                [
                    TopicResult(
                        topic.name,
                        [PartitionResult(index, code) for index in topic.partition_indexes],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


API: Final = Api(
    27,
    "WriteTxnMarkers",
    versions=(0, 2),
    first_flexible=1,
    error_response=error_response,
)
