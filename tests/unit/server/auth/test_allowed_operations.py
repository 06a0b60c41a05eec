"""The bits of what a client may do."""

from __future__ import annotations

from kavka.server.auth.allowed_operations import TOPIC_OPERATIONS, allowed_bits
from kavka.server.auth.authorizer import Authorizer, Operation, ResourceType
from kavka.server.request.context import Peer, RequestContext


class ReadersOnly(Authorizer):
    """Allows to read and describe the topic "t"."""

    def allows(
        self, context: RequestContext, operation: Operation, kind: ResourceType, name: str
    ) -> bool:
        allowed = (Operation.READ, Operation.DESCRIBE)
        return operation in allowed and (kind, name) == (ResourceType.TOPIC, "t")


def test_a_bit_for_each_operation_that_is_allowed() -> None:
    context = RequestContext(Peer("PLAINTEXT", "127.0.0.1:1"), 12, 1, None)
    bits = {
        name: allowed_bits(ReadersOnly(), context, ResourceType.TOPIC, name, TOPIC_OPERATIONS)
        for name in ("t", "u")
    }
    assert bits == {"t": 1 << 3 | 1 << 8, "u": 0}
