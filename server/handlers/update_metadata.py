"""UpdateMetadata: brokers and partitions as Metadata reports them, as the controller says."""

from __future__ import annotations

from typing import Any

from kavka.server.broker import Broker
from kavka.server.cluster.control_wire import read_update_metadata
from kavka.server.cluster.control_wire_responses import update_metadata_response
from kavka.server.handlers.common.controller_calls import control_of
from kavka.server.request.context import RequestContext


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    control = control_of(broker, context, request.broker_epoch)
    update = read_update_metadata(request, context.version)

    async def apply() -> Any:
        return update_metadata_response(await control.update_metadata(update))

    return apply()
