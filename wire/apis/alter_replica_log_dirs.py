"""AlterReplicaLogDirs (key 34): have replicas move to other log directories of their broker
(KIP-113).

Versions 0 to 2; 1 is no different, 2 is flexible.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kavka.wire.api import Api
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

if TYPE_CHECKING:
    from kafka.protocol.admin.cluster import AlterReplicaLogDirsRequest


@message
class PartitionResponse:
    """NONE: the replica is in the directory, or on its way to it."""

    partition_index: int
    error_code: int = 0


@message
class TopicResponse:
    topic_name: str
    partitions: Sequence[PartitionResponse]


@message
class AlterReplicaLogDirsResponse:
    results: Sequence[TopicResponse]
    throttle_time_ms: int = 0


def error_response(
    request: AlterReplicaLogDirsRequest, code: ErrorCode, version: int
) -> AlterReplicaLogDirsResponse:
    """`code` for every partition in the request, as often as it was."""
    return AlterReplicaLogDirsResponse(
        [
            TopicResponse(
                topic.name, [PartitionResponse(index, code) for index in topic.partitions]
            )
            for directory in request.dirs
            for topic in directory.topics
        ]
    )


API: Final = Api(
    34,
    "AlterReplicaLogDirs",
    versions=(0, 2),
    first_flexible=2,
    error_response=error_response,
)
