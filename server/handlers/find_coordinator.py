"""FindCoordinator: who keeps a group.

Promises: the leader of the group's partition of `__consumer_offsets`, which is made on first use.
Unlike Apache Kafka, which answers COORDINATOR_NOT_AVAILABLE at first and lets the client ask
again, the answer waits for that, which takes milliseconds here.
Left out: transactions and share groups are not served; the former have no coordinator yet.
"""

from __future__ import annotations

from typing import Any

from kavka.server.auth.authorizer import Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.context import RequestContext
from kavka.server.topics import GROUP_TOPIC
from kavka.wire.apis.find_coordinator import (
    BATCHED_SINCE,
    GROUP,
    NOBODY,
    SHARE,
    TRANSACTION,
    Coordinator,
    FindCoordinatorResponse,
    message_of,
)
from kavka.wire.errors import ApiError, ErrorCode


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    if _kind(context, request) not in (GROUP, TRANSACTION, SHARE):
        raise ApiError(ErrorCode.INVALID_REQUEST)
    makes_topic = (
        _kind(context, request) == GROUP
        and GROUP_TOPIC not in broker.metadata.image.topics
        and any(_refusal(broker, context, GROUP, key) is None for key in _keys(context, request))
    )
    if makes_topic:
        return _after_creation(broker, context, request)
    return _answer(broker, context, request)


async def _after_creation(
    broker: Broker, context: RequestContext, request: Any
) -> FindCoordinatorResponse:
    await broker.groups.make_topic()
    return _answer(broker, context, request)


def _keys(context: RequestContext, request: Any) -> list[str]:
    return request.coordinator_keys if context.version >= BATCHED_SINCE else [request.key]


def _kind(context: RequestContext, request: Any) -> int:
    kind: int = request.key_type if context.version else GROUP
    return kind


def _answer(broker: Broker, context: RequestContext, request: Any) -> FindCoordinatorResponse:
    kind = _kind(context, request)
    found = [_find(broker, context, kind, key) for key in _keys(context, request)]
    if context.version >= BATCHED_SINCE:
        return FindCoordinatorResponse(coordinators=found)
    one = found[0]
    code = one.error_code
    return FindCoordinatorResponse(code, message_of(code), one.node_id, one.host, one.port)


def _find(broker: Broker, context: RequestContext, kind: int, key: str) -> Coordinator:
    refusal = _refusal(broker, context, kind, key)
    if refusal is not None:
        return Coordinator(key, *NOBODY, refusal)
    leader = broker.groups.coordinator_of(key)
    address = None if leader is None else broker.address_of(leader, context.peer)
    if leader is None or address is None:
        return Coordinator(key, *NOBODY, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return Coordinator(key, leader.broker_id, *address)


def _refusal(broker: Broker, context: RequestContext, kind: int, key: str) -> ErrorCode | None:
    """Why this client is not told the coordinator of a key."""
    if kind == GROUP:
        allowed = broker.authorizer.allows(context, Operation.DESCRIBE, ResourceType.GROUP, key)
        return None if allowed else ErrorCode.GROUP_AUTHORIZATION_FAILED
    if kind == TRANSACTION:
        resource = ResourceType.TRANSACTIONAL_ID
        if not broker.authorizer.allows(context, Operation.DESCRIBE, resource, key):
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return ErrorCode.INVALID_REQUEST
