"""ApiVersions: the served APIs and versions, computed from the list of handlers.

Promises: responds to every version, to one that is too new in version 0 with code 35 (KIP-511, in
`dispatch`); refuses a malformed client name or version with INVALID_REQUEST. From version 3 on the
response has the levels of the cluster's features (KIP-584), from which clients know the protocols
they may use. Left out: the features of KRaft, share groups and streams groups.
"""

from __future__ import annotations

from typing import Any, Final

from kavka.server.broker import Broker
from kavka.server.config.features import SUPPORTED
from kavka.server.request.context import RequestContext
from kavka.wire.apis.api_versions import (
    LEVEL_0_SINCE,
    SOFTWARE_SINCE,
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
    error_response,
    is_valid,
)
from kavka.wire.errors import ErrorCode

_SUPPORTED: Final = [SupportedFeatureKey(name, *levels) for name, levels in SUPPORTED.items()]


def handle(broker: Broker, context: RequestContext, request: Any) -> ApiVersionsResponse:
    if not is_valid(request, context.version):
        return error_response(request, ErrorCode.INVALID_REQUEST, context.version)
    if context.version >= SOFTWARE_SINCE:
        context.peer.software = request.client_software_name, request.client_software_version
    return ApiVersionsResponse(
        [ApiVersion(api.key, api.lowest, api.highest) for api in broker.apis],
        supported_features=_supported(context.version),
        # clients use the levels with the highest epoch; a start may change a setting's level
        finalized_features_epoch=max(broker.epoch, broker.features.changed_in),
        finalized_features=[
            FinalizedFeatureKey(name, level, level)
            for name, level in broker.features.levels().items()
            if level
        ],
    )


def _supported(version: int) -> list[SupportedFeatureKey]:
    return [
        feature for feature in _SUPPORTED if feature.min_version > 0 or version >= LEVEL_0_SINCE
    ]
