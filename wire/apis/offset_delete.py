"""OffsetDelete (key 47): delete a group's offsets of some partitions (KIP-496).

Version 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kavka.wire.api import Api
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

if TYPE_CHECKING:
    from kafka.protocol.admin.groups import OffsetDeleteRequest


@message
class PartitionResponse:
    partition_index: int
    error_code: int = 0


@message
class TopicResponse:
    name: str
    partitions: Sequence[PartitionResponse]


@message
class OffsetDeleteResponse:
    error_code: int = 0
    throttle_time_ms: int = 0
    topics: Sequence[TopicResponse] = ()


def error_response(
    request: OffsetDeleteRequest, code: ErrorCode, version: int
) -> OffsetDeleteResponse:
    """`code` for the whole request."""
    return OffsetDeleteResponse(code)


API: Final = Api(
    47,
    "OffsetDelete",
    versions=(0, 0),
    first_flexible=1,
    error_response=error_response,
)
