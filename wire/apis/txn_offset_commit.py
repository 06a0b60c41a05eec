"""TxnOffsetCommit (key 28): commit a group's offsets in a transaction (KIP-98).

Versions 0 to 5; 2 adds leader epochs (KIP-320), 3 is flexible and has member and generation
(KIP-447), 4 may say TRANSACTION_ABORTABLE, 5 adds the offsets' partition to the transaction
(KIP-890).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kavka.wire.api import Api
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

if TYPE_CHECKING:
    from kafka.protocol.producer.transaction import TxnOffsetCommitRequest


@message
class PartitionResponse:
    partition_index: int
    error_code: int = 0


@message
class TopicResponse:
    name: str
    partitions: Sequence[PartitionResponse] = ()


@message
class TxnOffsetCommitResponse:
    topics: Sequence[TopicResponse] = ()
    throttle_time_ms: int = 0


def error_response(
    request: TxnOffsetCommitRequest, code: ErrorCode, version: int
) -> TxnOffsetCommitResponse:
    """`code` for every partition of the request."""
    return TxnOffsetCommitResponse(
        [
            TopicResponse(
                topic.name,
                [
                    PartitionResponse(partition.partition_index, code)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


API: Final = Api(
    28,
    "TxnOffsetCommit",
    versions=(0, 5),
    first_flexible=3,
    error_response=error_response,
)
