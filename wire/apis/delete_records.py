"""DeleteRecords (key 21): advance a partition's log start offset (KIP-107).

Versions 0 to 2; 1 is no different, 2 is flexible.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kavka.wire.api import Api
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

if TYPE_CHECKING:
    from kafka.protocol.admin import DeleteRecordsRequest

HIGH_WATERMARK: Final = -1
"""The offset that stands for all records that consumers can see."""

UNKNOWN: Final = -1
"""The low watermark of a response with an error."""


@message
class PartitionResponse:
    """`low_watermark`: the least offset at which any replica's log begins now."""

    partition_index: int
    low_watermark: int = UNKNOWN
    error_code: int = 0


@message
class TopicResponse:
    name: str
    partitions: Sequence[PartitionResponse]


@message
class DeleteRecordsResponse:
    topics: Sequence[TopicResponse]
    throttle_time_ms: int = 0


def error_response(
    request: DeleteRecordsRequest, code: ErrorCode, version: int
) -> DeleteRecordsResponse:
    """`code` for every partition in the request."""
    return DeleteRecordsResponse(
        [
            TopicResponse(
                topic.name,
                [
                    PartitionResponse(partition.partition_index, error_code=code)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


API: Final = Api(
    21,
    "DeleteRecords",
    versions=(0, 2),
    first_flexible=2,
    error_response=error_response,
)
