"""UpdateMetadata: brokers and partitions as Metadata reports them, as the controller says.

Apache Kafka's controllers put all partitions of a cluster into one request. It is applied in parts,
so clients may see changes of some topics before those of others. Kavka's controllers send several
requests, with the same effect.
"""

from __future__ import annotations

from typing import Any, Final

from kavka.server.broker import Broker
from kavka.server.cluster.control_wire import read_update_metadata
from kavka.server.cluster.control_wire_responses import update_metadata_response
from kavka.server.handlers.common.controller_calls import control_of
from kavka.server.request.context import RequestContext
from kavka.wire.errors import ErrorCode

PARTITIONS_PER_STEP: Final = 500
"""Partitions applied between two pauses, at 6 us each."""


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    control = control_of(broker, context, request.broker_epoch)
    parts = read_update_metadata(request, context.version, partitions_max=PARTITIONS_PER_STEP)
    first = next(parts)  # it is refused as a whole

    async def apply() -> Any:
        code = await control.update_metadata(first)
        for part in parts if code == ErrorCode.NONE else ():
            await broker.tasks.sleep(0)
            code = await control.update_metadata(part)
            if code != ErrorCode.NONE:  # there is a newer controller
                break
        return update_metadata_response(code)

    return apply()
