"""OffsetForLeaderEpoch (key 23): the end offset of an epoch, to find where logs diverge (KIP-101).

Versions 0 to 4; 1 adds the epoch to the response (KIP-279), 2 the current leader epoch (KIP-320),
3 the replica id, 4 is flexible.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kavka.wire.api import Api
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

if TYPE_CHECKING:
    from kafka.protocol.consumer.offsets import OffsetForLeaderEpochRequest


@message
class PartitionResponse:
    """-1 and -1 where the epoch is not known."""

    partition: int
    error_code: int = 0
    leader_epoch: int = -1
    end_offset: int = -1


@message
class TopicResponse:
    topic: str
    partitions: Sequence[PartitionResponse]


@message
class OffsetForLeaderEpochResponse:
    topics: Sequence[TopicResponse]
    throttle_time_ms: int = 0


def error_response(
    request: OffsetForLeaderEpochRequest, code: ErrorCode, version: int
) -> OffsetForLeaderEpochResponse:
    """`code` for every partition in the request."""
    return OffsetForLeaderEpochResponse(
        [
            TopicResponse(
                topic.topic, [PartitionResponse(p.partition, code) for p in topic.partitions]
            )
            for topic in request.topics
        ]
    )


API: Final = Api(
    23,
    "OffsetForLeaderEpoch",
    versions=(0, 4),
    first_flexible=4,
    error_response=error_response,
)
