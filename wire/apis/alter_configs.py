"""AlterConfigs (key 33): replace all configs of topics and brokers.

Versions 0 to 2; 2 is flexible. Deprecated for IncrementalAlterConfigs since 2.3, and still what
older clients have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kavka.wire.api import Api
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

if TYPE_CHECKING:
    from kafka.protocol.admin.configs import AlterConfigsRequest


@message
class ResourceResponse:
    error_code: int
    error_message: str | None
    resource_type: int
    resource_name: str


@message
class AlterConfigsResponse:
    responses: Sequence[ResourceResponse]
    throttle_time_ms: int = 0


def error_response(
    request: AlterConfigsRequest, code: ErrorCode, version: int
) -> AlterConfigsResponse:
    """`code` for every resource in the request."""
    return AlterConfigsResponse(
        [ResourceResponse(code, None, r.resource_type, r.resource_name) for r in request.resources]
    )


API: Final = Api(
    33,
    "AlterConfigs",
    versions=(0, 2),
    first_flexible=2,
    error_response=error_response,
)
