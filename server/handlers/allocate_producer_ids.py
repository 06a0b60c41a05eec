"""AllocateProducerIds: a broker gets a block of producer ids from the controller (KIP-730).

Kavka's brokers take theirs from the tree; Apache Kafka's ask.
"""

from __future__ import annotations

from typing import Any

from kavka.server.broker import Broker
from kavka.server.handlers.common.controller_calls import check_cluster_action
from kavka.server.request.context import RequestContext
from kavka.wire.apis.allocate_producer_ids import AllocateProducerIdsResponse


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    check_cluster_action(broker, context)

    async def allocate() -> AllocateProducerIdsResponse:
        first, count = await broker.controller.allocate_producer_ids_to(
            request.broker_id, request.broker_epoch
        )
        return AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=count)

    return allocate()
