"""DeleteTopics (key 20): delete topics by name, or by id.

Versions 0 to 6; 1 adds the throttle time, 3 may say TOPIC_DELETION_DISABLED (KIP-322), 4 is
flexible, 5 adds error messages (KIP-599), 6 deletes by id (KIP-516) and moves the names from
`topic_names` to `topics`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from uuid import UUID

from kavka.wire.api import Api
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

if TYPE_CHECKING:
    from kafka.protocol.admin.topics import DeleteTopicsRequest

_IDS_SINCE: Final = 6


@message
class TopicResponse:
    """`name` is null only for an unknown id, from version 6 on."""

    name: str | None
    topic_id: UUID | None = None
    error_code: int = 0
    error_message: str | None = None


@message
class DeleteTopicsResponse:
    responses: Sequence[TopicResponse]
    throttle_time_ms: int = 0


def requested_topics(
    request: DeleteTopicsRequest, version: int
) -> list[tuple[str | None, UUID | None]]:
    """The topics to delete as (name, id), from whichever field the version has."""
    if version < _IDS_SINCE:
        return [(name, None) for name in request.topic_names]
    return [(topic.name, topic.topic_id) for topic in request.topics]


def error_response(
    request: DeleteTopicsRequest, code: ErrorCode, version: int
) -> DeleteTopicsResponse:
    """`code` for every topic in the request."""
    return DeleteTopicsResponse(
        [
            TopicResponse(name, topic_id, code)
            for name, topic_id in requested_topics(request, version)
        ]
    )


API: Final = Api(
    20,
    "DeleteTopics",
    versions=(0, 6),
    first_flexible=4,
    error_response=error_response,
)
