"""ListConfigResources (key 74): the resources that can have configs (KIP-1142).

Versions 0 and 1, both flexible. 0 was ListClientMetricsResources (KIP-714) and knows that kind
only; 1 filters and returns resource types.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kavka.wire.api import Api
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message


@message
class Resource:
    resource_name: str
    resource_type: int


@message
class ListConfigResourcesResponse:
    error_code: int
    config_resources: Sequence[Resource]
    throttle_time_ms: int = 0


def error_response(request: Any, code: ErrorCode, version: int) -> ListConfigResourcesResponse:
    return ListConfigResourcesResponse(code, [])


API: Final = Api(
    74,
    "ListConfigResources",
    versions=(0, 1),
    first_flexible=0,
    error_response=error_response,
)
