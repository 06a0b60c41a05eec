"""LeaderAndIsr: makes this broker leader or follower of partitions, as the controller says."""

from __future__ import annotations

from typing import Any

from kavka.server.broker import Broker
from kavka.server.cluster.control_messages import LeaderAndIsr
from kavka.server.cluster.control_wire import read_leader_and_isr
from kavka.server.cluster.control_wire_responses import leader_and_isr_response
from kavka.server.handlers.common.controller_calls import control_of
from kavka.server.request.context import RequestContext
from kavka.server.runtime import cooperative


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    control = control_of(broker, context, request.broker_epoch)
    read = cooperative.run(broker.tasks, read_leader_and_isr(request))

    async def apply() -> Any:
        leader_and_isr = read if isinstance(read, LeaderAndIsr) else await read
        response = await control.leader_and_isr(leader_and_isr)
        return leader_and_isr_response(leader_and_isr, response, context.version)

    return apply()
