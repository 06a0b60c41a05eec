"""Authorization to describe or alter configs, and the broker id in resource names."""

from __future__ import annotations

import re
from typing import Final

from kavka.server.auth.authorizer import CLUSTER_NAME, Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.cluster.config_changes import ConfigResourceType
from kavka.server.config.value_types import LARGEST, Type
from kavka.server.request.context import RequestContext
from kavka.wire.errors import ApiError, ErrorCode

_OWNERS: Final = {
    ConfigResourceType.TOPIC: ResourceType.TOPIC,
    ConfigResourceType.GROUP: ResourceType.GROUP,
}
"""Resource types with ACLs of their own; the others use the cluster's."""

_DENIED: Final = {
    ResourceType.TOPIC: (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed."),
    ResourceType.GROUP: (ErrorCode.GROUP_AUTHORIZATION_FAILED, "Group authorization failed."),
    ResourceType.CLUSTER: (
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        "Cluster authorization failed.",
    ),
}

# Java's syntax of integers; Python would also accept spaces and underscores.
_whole_number: Final = re.compile("[+-]?[0-9]{1,10}").fullmatch


def authorize(
    broker: Broker,
    context: RequestContext,
    operation: Operation,
    kind: ConfigResourceType,
    name: str,
) -> None:
    """ApiError if the client may not perform `operation` on the configs of a resource."""
    owner = _OWNERS.get(kind, ResourceType.CLUSTER)
    resource_name = CLUSTER_NAME if owner is ResourceType.CLUSTER else name
    if not broker.authorizer.allows(context, operation, owner, resource_name):
        raise ApiError(*_DENIED[owner])


def node_id(name: str) -> int | None:
    """The broker id in a resource name; None if it is not an integer."""
    if not _whole_number(name):
        return None
    number = int(name)
    return number if -LARGEST[Type.INT] - 1 <= number <= LARGEST[Type.INT] else None
