"""InitProducerId: an id for an idempotent producer.

Promises: an id that no other producer of this cluster has had or will have, epoch 0.
Left out until transactions are served: a transactional id is answered COORDINATOR_NOT_AVAILABLE.
"""

from __future__ import annotations

from typing import Any

from kavka.server.auth.authorizer import CLUSTER_NAME, Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.context import RequestContext
from kavka.wire.apis.init_producer_id import API, InitProducerIdResponse
from kavka.wire.errors import ErrorCode

_NONE = -1


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    refusal = _refusal(broker, context, request)
    if refusal is not None:
        return API.error_response(request, refusal, context.version)
    return _fresh(broker)


def _refusal(broker: Broker, context: RequestContext, request: Any) -> ErrorCode | None:
    if request.transactional_id == "":
        return ErrorCode.INVALID_REQUEST
    if request.transactional_id is not None:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if (request.producer_id == _NONE) != (request.producer_epoch == _NONE):
        return ErrorCode.INVALID_REQUEST
    allowed = broker.authorizer.allows(
        context, Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME
    )
    return None if allowed else ErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def _fresh(broker: Broker) -> InitProducerIdResponse:
    """Without a transactional id nothing is remembered of the producer, so one that asks again
    (KIP-360) gets a new id rather than a new epoch, as from Apache Kafka."""
    return InitProducerIdResponse(producer_id=await broker.producer_ids.next(), producer_epoch=0)
