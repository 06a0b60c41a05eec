"""OffsetCommit (key 8): commit a group's offsets.

Versions 0 to 10; 0 stores them in ZooKeeper's tree, as clients did before there were coordinators,
1 adds members, generations and commit timestamps, which 2 to 4 replace by one retention time
(removed by KIP-211), 6 adds leader epochs (KIP-320), 7 static members (KIP-345), 8 is flexible, 9
takes member epochs (KIP-848), 10 topic ids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from uuid import UUID

from kavka.wire.api import Api
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

if TYPE_CHECKING:
    from kafka.protocol.consumer.offsets import OffsetCommitRequest

TIMES_VERSION: Final = 1
RETENTION_VERSIONS: Final = range(2, 5)
EPOCHS_VERSION: Final = 6
INSTANCES_VERSION: Final = 7
TOPIC_IDS_VERSION: Final = 10


@message
class PartitionResponse:
    partition_index: int
    error_code: int = 0


@message
class TopicResponse:
    """`name` up to version 9, `topic_id` from 10 on."""

    name: str
    topic_id: UUID | None
    partitions: list[PartitionResponse]


@message
class OffsetCommitResponse:
    topics: list[TopicResponse]
    throttle_time_ms: int = 0


def error_response(
    request: OffsetCommitRequest, code: ErrorCode, version: int
) -> OffsetCommitResponse:
    """`code` for every partition of the request."""
    return OffsetCommitResponse(
        [
            TopicResponse(
                topic.name,
                topic.topic_id,
                [
                    PartitionResponse(partition.partition_index, code)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


API: Final = Api(
    8,
    "OffsetCommit",
    versions=(0, 10),
    first_flexible=8,
    error_response=error_response,
)
