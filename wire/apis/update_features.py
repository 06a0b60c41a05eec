"""UpdateFeatures (key 57): set the levels of the cluster's features (KIP-584).

Versions 0 to 2, all flexible; 1 has the kind of downgrade, and validates only (KIP-778); 2 answers
for all features at once (KIP-1022).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kavka.wire.api import Api
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

if TYPE_CHECKING:
    from kafka.protocol.admin.cluster import UpdateFeaturesRequest


@message
class UpdatableFeatureResult:
    feature: str
    error_code: int = 0
    error_message: str | None = None


@message
class UpdateFeaturesResponse:
    error_code: int = 0
    error_message: str | None = None
    results: Sequence[UpdatableFeatureResult] = ()
    throttle_time_ms: int = 0


def error_response(
    request: UpdateFeaturesRequest, code: ErrorCode, version: int
) -> UpdateFeaturesResponse:
    """`code` as the top-level error code."""
    return UpdateFeaturesResponse(code)


API: Final = Api(
    57,
    "UpdateFeatures",
    versions=(0, 2),
    first_flexible=0,
    error_response=error_response,
)
