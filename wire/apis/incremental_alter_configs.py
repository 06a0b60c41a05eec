"""IncrementalAlterConfigs (key 44): change single configs of topics, brokers and loggers (KIP-339).

Versions 0 and 1; 1 is flexible.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kavka.wire.api import Api
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

if TYPE_CHECKING:
    from kafka.protocol.admin.configs import IncrementalAlterConfigsRequest


@message
class ResourceResponse:
    error_code: int
    error_message: str | None
    resource_type: int
    resource_name: str


@message
class IncrementalAlterConfigsResponse:
    responses: Sequence[ResourceResponse]
    throttle_time_ms: int = 0


def error_response(
    request: IncrementalAlterConfigsRequest, code: ErrorCode, version: int
) -> IncrementalAlterConfigsResponse:
    """`code` for every resource in the request."""
    return IncrementalAlterConfigsResponse(
        [ResourceResponse(code, None, r.resource_type, r.resource_name) for r in request.resources]
    )


API: Final = Api(
    44,
    "IncrementalAlterConfigs",
    versions=(0, 1),
    first_flexible=1,
    error_response=error_response,
)
