"""A client's authorized operations, as the bit fields of responses (KIP-430)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kavka.server.auth.authorizer import Authorizer, Operation, ResourceType
from kavka.server.request.context import RequestContext

TOPIC_OPERATIONS: Final = (
    Operation.READ,
    Operation.WRITE,
    Operation.CREATE,
    Operation.DELETE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)

CLUSTER_OPERATIONS: Final = (
    Operation.CREATE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.CLUSTER_ACTION,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
    Operation.IDEMPOTENT_WRITE,
)

GROUP_OPERATIONS: Final = (
    Operation.READ,
    Operation.DELETE,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)


def allowed_bits(
    authorizer: Authorizer,
    context: RequestContext,
    kind: ResourceType,
    name: str,
    operations: Sequence[Operation],
) -> int:
    """A bit for each allowed operation, at the operation's number."""
    bits = 0
    for operation in operations:
        if authorizer.allows(context, operation, kind, name):
            bits |= 1 << operation
    return bits
