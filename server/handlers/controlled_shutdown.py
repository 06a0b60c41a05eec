"""ControlledShutdown: a broker that stops asks the controller for other leaders first."""

from __future__ import annotations

from typing import Any

from kavka.server.broker import Broker
from kavka.server.cluster.control_messages import NO_EPOCH
from kavka.server.handlers.common.controller_calls import check_cluster_action
from kavka.server.request.context import RequestContext
from kavka.wire.apis.controlled_shutdown import (
    BROKER_EPOCHS_SINCE,
    ControlledShutdownResponse,
    RemainingPartition,
)


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    check_cluster_action(broker, context)
    epoch = request.broker_epoch if context.version >= BROKER_EPOCHS_SINCE else NO_EPOCH

    async def shut_down() -> ControlledShutdownResponse:
        remaining = await broker.controller.shut_down(request.broker_id, epoch)
        return ControlledShutdownResponse(
            remaining_partitions=[RemainingPartition(*partition) for partition in remaining]
        )

    return shut_down()
