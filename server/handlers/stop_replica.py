"""StopReplica: ends replicas on this broker, and deletes their logs, as the controller says."""

from __future__ import annotations

from typing import Any

from kavka.server.broker import Broker
from kavka.server.cluster.control_wire import read_stop_replica
from kavka.server.cluster.control_wire_responses import stop_replica_response
from kavka.server.handlers.common.controller_calls import control_of
from kavka.server.request.context import RequestContext


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    control = control_of(broker, context, request.broker_epoch)
    stop = read_stop_replica(request)

    async def apply() -> Any:
        return stop_replica_response(stop, await control.stop_replica(stop))

    return apply()
