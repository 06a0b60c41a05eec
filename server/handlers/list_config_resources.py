"""ListConfigResources: topics, brokers and their loggers, and groups and client metrics
subscriptions that have configs.

Version 0 lists client metrics subscriptions only. An unknown resource type fails the whole request
with UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from typing import Any, Final

from kavka.server.auth.authorizer import CLUSTER_NAME, Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.cluster.config_changes import ConfigResourceType
from kavka.server.request.context import RequestContext
from kavka.wire.apis.list_config_resources import ListConfigResourcesResponse, Resource
from kavka.wire.errors import ErrorCode

_KINDS_SINCE: Final = 1
_KINDS: Final = frozenset(ConfigResourceType)


def handle(broker: Broker, context: RequestContext, request: Any) -> ListConfigResourcesResponse:
    if not broker.authorizer.allows(
        context, Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME
    ):
        return ListConfigResourcesResponse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, [])
    kinds = {int(ConfigResourceType.CLIENT_METRICS)}
    if context.version >= _KINDS_SINCE:
        kinds = set(request.resource_types or _KINDS)
    if not kinds <= _KINDS:
        return ListConfigResourcesResponse(ErrorCode.UNSUPPORTED_VERSION, [])
    image = broker.metadata.image
    brokers = [str(broker_id) for broker_id in image.brokers]
    names = {
        ConfigResourceType.GROUP: broker.topic_configs.groups(),
        ConfigResourceType.CLIENT_METRICS: list(broker.topic_configs.subscriptions()),
        ConfigResourceType.BROKER_LOGGER: brokers,
        ConfigResourceType.BROKER: brokers,
        ConfigResourceType.TOPIC: list(image.topics),
    }
    return ListConfigResourcesResponse(
        ErrorCode.NONE,
        [Resource(name, kind) for kind, found in names.items() if kind in kinds for name in found],
    )
