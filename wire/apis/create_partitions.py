"""CreatePartitions (key 37): add partitions to topics (KIP-195).

Versions 0 to 3; 2 is flexible, 3 may say THROTTLING_QUOTA_EXCEEDED (KIP-599).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kavka.wire.api import Api
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

if TYPE_CHECKING:
    from kafka.protocol.admin.topics import CreatePartitionsRequest


@message
class TopicResponse:
    name: str
    error_code: int = 0
    error_message: str | None = None


@message
class CreatePartitionsResponse:
    results: Sequence[TopicResponse]
    throttle_time_ms: int = 0


def error_response(
    request: CreatePartitionsRequest, code: ErrorCode, version: int
) -> CreatePartitionsResponse:
    """`code` for every topic in the request."""
    return CreatePartitionsResponse([TopicResponse(topic.name, code) for topic in request.topics])


API: Final = Api(
    37,
    "CreatePartitions",
    versions=(0, 3),
    first_flexible=2,
    error_response=error_response,
)
