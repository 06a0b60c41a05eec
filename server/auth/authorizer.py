"""The authorizer, which every handler asks before it acts."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, Protocol

from kavka.server.request.context import RequestContext
from kavka.wire.steps import QUICK_ITEMS_PER_STEP


class Operation(IntEnum):
    """Numbers are the protocol's (`AclOperation`)."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


class ResourceType(IntEnum):
    """Numbers are the protocol's (`ResourceType`)."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


CHECKS_PER_STEP: Final = 100
"""Authorizations in one slice of a request that names many resources: with many ACLs one may take
20 us."""

CHECK_ITEMS: Final = QUICK_ITEMS_PER_STEP // CHECKS_PER_STEP
"""How many items of a `PauseCounter` one authorization counts as."""

CLUSTER_NAME = "kafka-cluster"
"""The one resource of type CLUSTER, as ACLs name it."""


class Authorizer(Protocol):
    """Decides by principal, host, operation and resource."""

    def allows(
        self, context: RequestContext, operation: Operation, kind: ResourceType, name: str
    ) -> bool:
        """Whether the request's principal may do this; never raises."""
        ...


class AllowAll:
    """The authorizer of a broker without `authorizer.class.name`."""

    def allows(
        self, context: RequestContext, operation: Operation, kind: ResourceType, name: str
    ) -> bool:
        return True
