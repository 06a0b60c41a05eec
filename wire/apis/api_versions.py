"""ApiVersions (key 18): which APIs and versions this broker serves; a client's first question.

Versions 0 to 4; 1 adds the throttle time, 3 is flexible and has the client's software (KIP-511)
and the cluster's features (KIP-584), 4 lets a feature's lowest version be 0 (KAFKA-17011). The
response header is never flexible, since the client does not know the broker's versions yet; and a
version that is too new gets a version 0 response with UNSUPPORTED_VERSION (KIP-511).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kavka.wire.api import Api
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

if TYPE_CHECKING:
    from kafka.protocol.metadata.api_versions import ApiVersionsRequest

KEY: Final = 18
FALLBACK_VERSION: Final = 0
"""The version of the response to a version that is too new."""

LEVEL_0_SINCE: Final = 4
"""Clients of earlier versions can't read a feature whose lowest level is 0 (KAFKA-17492)."""

_HIGHEST: Final = 4
SOFTWARE_SINCE: Final = 3
"""From this version on clients send their software's name and version (KIP-511)."""

_software_name = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?").fullmatch


@message
class ApiVersion:
    api_key: int
    min_version: int
    max_version: int


@message
class SupportedFeatureKey:
    name: str
    min_version: int
    max_version: int


@message
class FinalizedFeatureKey:
    name: str
    max_version_level: int
    min_version_level: int


@message
class ApiVersionsResponse:
    """`finalized_features_epoch` is -1 where no feature is finalized."""

    api_keys: Sequence[ApiVersion]
    error_code: int = 0
    throttle_time_ms: int = 0
    supported_features: Sequence[SupportedFeatureKey] = ()
    finalized_features_epoch: int = -1
    finalized_features: Sequence[FinalizedFeatureKey] = ()
    zk_migration_ready: bool = False


def is_valid(request: ApiVersionsRequest, version: int) -> bool:
    """Whether the software's name and version are well-formed (KIP-511)."""
    if version < SOFTWARE_SINCE:
        return True
    names = (request.client_software_name, request.client_software_version)
    return all(_software_name(name) for name in names)


def error_response(
    request: ApiVersionsRequest | None, code: ErrorCode, version: int
) -> ApiVersionsResponse:
    """`code` as the top-level error code. With UNSUPPORTED_VERSION it has the supported versions of
    this API, and is to be written in `FALLBACK_VERSION`; the request was not read then and may be
    None."""
    if code is ErrorCode.UNSUPPORTED_VERSION:
        return ApiVersionsResponse([ApiVersion(KEY, 0, _HIGHEST)], code)
    return ApiVersionsResponse((), code)


API: Final = Api(
    KEY,
    "ApiVersions",
    versions=(0, _HIGHEST),
    first_flexible=3,
    error_response=error_response,
    flexible_response_header=False,
)
