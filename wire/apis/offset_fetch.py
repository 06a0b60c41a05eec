"""OffsetFetch (key 9): the committed offsets of groups.

Versions 0 to 10; 0 reads ZooKeeper's tree (see OffsetCommit), 2 can ask for all partitions and has
a top-level error, 5 adds leader epochs (KIP-320), 6 is flexible, 7 waits for open
transactions (KIP-447), 8 asks for several groups (KIP-709), 9 has member epochs (KIP-848), 10
topic ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from uuid import UUID

from kavka.wire.api import Api
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

if TYPE_CHECKING:
    from kafka.protocol.consumer.offsets import OffsetFetchRequest

GROUPS_VERSION: Final = 8
TOPIC_IDS_VERSION: Final = 10
NO_TOPIC_ID: Final = UUID(int=0)


@message
class PartitionResponse:
    """-1 where there is no offset."""

    partition_index: int
    committed_offset: int = -1
    committed_leader_epoch: int = -1
    metadata: str | None = ""
    error_code: int = 0


@message
class TopicResponse:
    """Up to version 7."""

    name: str
    partitions: Sequence[PartitionResponse]


@message
class GroupTopicResponse:
    """`name` in versions 8 and 9, `topic_id` from 10 on."""

    name: str | None
    topic_id: UUID | None
    partitions: list[PartitionResponse]


@message
class GroupResponse:
    group_id: str
    topics: Sequence[GroupTopicResponse] = ()
    error_code: int = 0


@message
class OffsetFetchResponse:
    """`groups` from version 8 on; before that `topics` and `error_code` are those of the one."""

    topics: Sequence[TopicResponse] = ()
    error_code: int = 0
    groups: Sequence[GroupResponse] = ()
    throttle_time_ms: int = 0


def error_response(
    request: OffsetFetchRequest, code: ErrorCode, version: int
) -> OffsetFetchResponse:
    """`code` for every group; for every partition where the version has no other place."""
    if version >= GROUPS_VERSION:
        return OffsetFetchResponse(
            groups=[GroupResponse(group.group_id, error_code=code) for group in request.groups]
        )
    return OffsetFetchResponse(*group_error(request, code, version))


def group_error(
    group: OffsetFetchRequest, code: ErrorCode, version: int
) -> tuple[Sequence[TopicResponse], ErrorCode]:
    """Topics and code of a version before 8."""
    if version >= 2:
        return (), code
    topics = [
        TopicResponse(
            topic.name,
            [PartitionResponse(index, error_code=code) for index in topic.partition_indexes],
        )
        for topic in group.topics
    ]
    return topics, code


API: Final = Api(
    9,
    "OffsetFetch",
    versions=(0, 10),
    first_flexible=6,
    error_response=error_response,
)
