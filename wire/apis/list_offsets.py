"""ListOffsets (key 2): the offset for a time, or for one of the special times below zero.

Versions 0 to 11; 0 gives a list of offsets where segments begin, 1 one offset with its timestamp
(KIP-79), 2 adds the isolation level (KIP-98), 4 the leader epoch (KIP-320), 5 may say
OFFSET_NOT_AVAILABLE (KIP-207), 6 is flexible, 7 finds the largest timestamp (KIP-734), 8 the local
log start (KIP-405), 9 the last tiered offset (KIP-1005), 10 has a timeout for remote reads
(KIP-1075), 11 finds the earliest offset that waits for its upload (KIP-1023).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kavka.wire.api import Api
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6


@message
class PartitionResponse:
    """Timestamp in ms; -1, -1, -1 where nothing was found. Version 0 has a list instead."""

    partition_index: int
    error_code: int = 0
    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1
    old_style_offsets: Sequence[int] = ()


@message
class TopicResponse:
    name: str
    partitions: Sequence[PartitionResponse]


@message
class ListOffsetsResponse:
    topics: Sequence[TopicResponse]
    throttle_time_ms: int = 0


@message
class RequestedPartition:
    partition_index: int
    current_leader_epoch: int
    timestamp: int
    max_num_offsets: int = 1


@message
class RequestedTopic:
    name: str
    partitions: Sequence[RequestedPartition]


@message
class ListOffsetsRequest:
    """`replica_id` is -1 for a consumer."""

    replica_id: int
    topics: Sequence[RequestedTopic]
    isolation_level: int = 0
    timeout_ms: int = 0


def error_response(request: Any, code: ErrorCode, version: int) -> ListOffsetsResponse:
    """`code` for every partition in the request."""
    return ListOffsetsResponse(
        [
            TopicResponse(
                topic.name, [PartitionResponse(p.partition_index, code) for p in topic.partitions]
            )
            for topic in request.topics
        ]
    )


API: Final = Api(
    2,
    "ListOffsets",
    versions=(0, 11),
    first_flexible=6,
    error_response=error_response,
)
