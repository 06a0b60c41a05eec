"""UpdateFeatures: raises and lowers the levels of `transaction.version` and `group.version`.

Promises: all updates of a request or none; `validate_only`; checks and messages of Apache Kafka
4.3.1. A change is durable, and in force on this broker, when the response is sent. Left out:
`metadata.version` stays at the level that Kavka behaves like; the features of KRaft, share groups
and streams groups, which Kavka does not have, stay at 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from kavka.server.auth.authorizer import CLUSTER_NAME, Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.config.features import Update, UpgradeType
from kavka.server.coordination.failures import coordination_failed
from kavka.server.request.context import RequestContext
from kavka.wire.apis.update_features import UpdatableFeatureResult, UpdateFeaturesResponse
from kavka.wire.errors import ApiError, ErrorCode
from kavka.zktree.api import CoordinationError

_TYPES_SINCE: Final = 1
_RESULTS_UNTIL: Final = 1
_DONE: Final = "NONE"


async def handle(broker: Broker, context: RequestContext, request: Any) -> UpdateFeaturesResponse:
    if not broker.authorizer.allows(context, Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        return UpdateFeaturesResponse(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed."
        )
    if not broker.controller.is_active:
        return UpdateFeaturesResponse(ErrorCode.NOT_CONTROLLER)
    updates = list(_updates(context.version, request.feature_updates))
    validate_only = context.version >= _TYPES_SINCE and request.validate_only
    try:
        await broker.features.update(updates, broker.broker_id, validate_only=validate_only)
    except ApiError as error:
        reason = (
            "The update failed for all features since the following feature had an error: "
            f"{error.message}"
        )
        return UpdateFeaturesResponse(error.code, reason)
    except CoordinationError as failure:
        api_error = coordination_failed(failure)
        return UpdateFeaturesResponse(api_error.code, api_error.message)
    if context.version > _RESULTS_UNTIL:
        return UpdateFeaturesResponse()
    return UpdateFeaturesResponse(
        results=[UpdatableFeatureResult(update.name, error_message=_DONE) for update in updates]
    )


def _updates(version: int, feature_updates: Iterable[Any]) -> Iterable[Update]:
    """In the version with only an allow-downgrade flag, Apache Kafka 4.3 takes every update for an
    upgrade."""
    for update in feature_updates:
        upgrade_type = update.upgrade_type if version >= _TYPES_SINCE else UpgradeType.UPGRADE
        yield Update(update.feature, update.max_version_level, upgrade_type)
