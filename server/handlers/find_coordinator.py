"""FindCoordinator: the coordinator of a group or a transactional id.

Promises: the leader of its partition of `__consumer_offsets` or `__transaction_state`, topics that
are created on first use. Unlike Apache Kafka, which responds COORDINATOR_NOT_AVAILABLE until then
so that the client retries, the response waits for the creation, which takes milliseconds here.
Left out: share groups are not served.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Final

from kavka.server.auth.authorizer import Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.coordinators.base import Coordinator as AnyCoordinator
from kavka.server.request.context import RequestContext, Response
from kavka.server.request.sliced_responses import encode_in_slices
from kavka.server.runtime import cooperative
from kavka.wire.apis.find_coordinator import (
    API,
    BATCHED_SINCE,
    GROUP,
    NO_COORDINATOR,
    SHARE,
    TRANSACTION,
    Coordinator,
    FindCoordinatorResponse,
    message_of,
)
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import Steps

KEY_COST: Final = 64
COST_PER_STEP: Final = 32_000
"""Cost of the keys looked up in one slice: `KEY_COST` each, and 1 for each character, at up to
0.1 us."""


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    kind = _kind(context, request)
    if kind not in (GROUP, TRANSACTION, SHARE):
        raise ApiError(ErrorCode.INVALID_REQUEST)
    makes_topic = (
        kind != SHARE
        and _coordinator(broker, kind).topic not in broker.metadata.image.topics
        and any(_error_code(broker, context, kind, key) is None for key in _keys(context, request))
    )
    if makes_topic:
        return _after_creation(broker, context, request)
    return _respond(broker, context, request)


async def _after_creation(broker: Broker, context: RequestContext, request: Any) -> Response:
    await _coordinator(broker, _kind(context, request)).create_topic()
    result = _respond(broker, context, request)
    return result if isinstance(result, FindCoordinatorResponse) else await result


def _keys(context: RequestContext, request: Any) -> list[str]:
    return request.coordinator_keys if context.version >= BATCHED_SINCE else [request.key]


def _kind(context: RequestContext, request: Any) -> int:
    kind: int = request.key_type if context.version else GROUP
    return kind


def _coordinator(broker: Broker, kind: int) -> AnyCoordinator[Any]:
    return broker.groups if kind == GROUP else broker.transactions


def _respond(
    broker: Broker, context: RequestContext, request: Any
) -> FindCoordinatorResponse | Awaitable[Response]:
    if context.version >= BATCHED_SINCE:
        found: list[Coordinator] = []
        response = FindCoordinatorResponse(coordinators=found)
        pending = cooperative.run(broker.tasks, _find_all(broker, context, request, found))
        return response if pending is None else _await_response(broker, context, pending, response)
    coordinator = _find(broker, context, _kind(context, request), request.key)
    code = coordinator.error_code
    return FindCoordinatorResponse(
        code, message_of(code), coordinator.node_id, coordinator.host, coordinator.port
    )


async def _await_response(
    broker: Broker,
    context: RequestContext,
    pending: Awaitable[None],
    response: FindCoordinatorResponse,
) -> Response:
    await pending
    return await encode_in_slices(broker.tasks, API, context, response)


def _find_all(
    broker: Broker, context: RequestContext, request: Any, found: list[Coordinator]
) -> Steps[None]:
    kind, cost = _kind(context, request), 0
    for key in request.coordinator_keys:
        found.append(_find(broker, context, kind, key))
        cost += KEY_COST + len(key)
        if cost >= COST_PER_STEP:
            cost = 0
            yield None


def _find(broker: Broker, context: RequestContext, kind: int, key: str) -> Coordinator:
    error_code = _error_code(broker, context, kind, key)
    if error_code is not None:
        return Coordinator(key, *NO_COORDINATOR, error_code)
    leader = _coordinator(broker, kind).coordinator_of(key)
    address = None if leader is None else broker.address_of(leader, context.peer)
    if leader is None or address is None:
        return Coordinator(key, *NO_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return Coordinator(key, leader.broker_id, *address)


def _error_code(broker: Broker, context: RequestContext, kind: int, key: str) -> ErrorCode | None:
    """Why this client may not find the coordinator of a key; None: it may."""
    if kind == GROUP:
        allowed = broker.authorizer.allows(context, Operation.DESCRIBE, ResourceType.GROUP, key)
        return None if allowed else ErrorCode.GROUP_AUTHORIZATION_FAILED
    if kind == TRANSACTION:
        resource = ResourceType.TRANSACTIONAL_ID
        allowed = broker.authorizer.allows(context, Operation.DESCRIBE, resource, key)
        return None if allowed else ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return ErrorCode.INVALID_REQUEST
