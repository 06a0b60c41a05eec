"""ApiVersions: what this broker serves, computed from the list of handlers.

Promises: answers every version, one that is too new in version 0 with code 35 (KIP-511, in
`dispatch`); refuses a malformed client name or version with INVALID_REQUEST.
"""

from __future__ import annotations

from typing import Any

from kavka.server.broker import Broker
from kavka.server.context import RequestContext
from kavka.wire.apis.api_versions import ApiVersion, ApiVersionsResponse, error_response, is_valid
from kavka.wire.errors import ErrorCode


def handle(broker: Broker, context: RequestContext, request: Any) -> ApiVersionsResponse:
    if not is_valid(request, context.version):
        return error_response(request, ErrorCode.INVALID_REQUEST, context.version)
    return ApiVersionsResponse(
        [ApiVersion(api.key, api.lowest, api.highest) for api in broker.apis]
    )
