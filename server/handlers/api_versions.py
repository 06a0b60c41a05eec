"""ApiVersions: what this broker serves, computed from the list of handlers.

Promises: answers every version, one that is too new in version 0 with code 35 (KIP-511, in
`dispatch`); refuses a malformed client name or version with INVALID_REQUEST. From version 3 on it
tells the levels of the features of transactions and groups (KIP-584), by which clients know the
protocols that they may use.
"""

from __future__ import annotations

from typing import Any, Final

from kavka.server.broker import Broker
from kavka.server.config.transaction_rows import TRANSACTION_VERSION_MAX
from kavka.server.context import RequestContext
from kavka.wire.apis.api_versions import (
    LEVEL_0_SINCE,
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
    error_response,
    is_valid,
)
from kavka.wire.errors import ErrorCode

_GROUP: Final = "group.version"
_GROUP_LEVEL: Final = 1
"""With the consumer protocol (KIP-848)."""

_TRANSACTION: Final = "transaction.version"

_SUPPORTED: Final = (
    SupportedFeatureKey(_GROUP, 0, _GROUP_LEVEL),
    SupportedFeatureKey(_TRANSACTION, 0, TRANSACTION_VERSION_MAX),
)


def handle(broker: Broker, context: RequestContext, request: Any) -> ApiVersionsResponse:
    if not is_valid(request, context.version):
        return error_response(request, ErrorCode.INVALID_REQUEST, context.version)
    return ApiVersionsResponse(
        [ApiVersion(api.key, api.lowest, api.highest) for api in broker.apis],
        supported_features=_SUPPORTED if context.version >= LEVEL_0_SINCE else (),
        # clients go by the levels with the highest epoch, and a level changes at a start
        finalized_features_epoch=broker.epoch,
        finalized_features=_finalized(broker),
    )


def _finalized(broker: Broker) -> list[FinalizedFeatureKey]:
    levels = {_GROUP: _GROUP_LEVEL, _TRANSACTION: broker.settings.kavka_transaction_version}
    return [FinalizedFeatureKey(name, level, level) for name, level in levels.items() if level]
