"""ApiVersions: what this broker serves, computed from the list of handlers.

Promises: answers every version, one that is too new in version 0 with code 35 (KIP-511, in
`dispatch`); refuses a malformed client name or version with INVALID_REQUEST.
"""

from __future__ import annotations

import re
from typing import Any, Final

from kavka.server.broker import Broker
from kavka.server.context import RequestContext
from kavka.wire.apis.api_versions import API, ApiVersion, ApiVersionsResponse
from kavka.wire.errors import ErrorCode

_SOFTWARE_SINCE: Final = 3
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(broker: Broker, context: RequestContext, request: Any) -> ApiVersionsResponse:
    if context.version >= _SOFTWARE_SINCE and not (
        _SOFTWARE.fullmatch(request.client_software_name)
        and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return API.error_response(request, ErrorCode.INVALID_REQUEST, context.version)  # type: ignore[no-any-return]
    return ApiVersionsResponse(
        [ApiVersion(api.key, api.lowest, api.highest) for api in broker.apis]
    )
