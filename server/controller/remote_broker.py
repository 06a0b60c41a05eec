"""A broker in another process, as the controller sees it: asked over the wire until it answers.

A request whose response was lost is sent again. The broker recognises it by its epochs, so that it
takes effect once; and the channel sends nothing else in between, so that the order is kept.
"""

from __future__ import annotations

from typing import Any, Final

from kavka.client.broker_client import BrokerClient
from kavka.client.errors import NotConnected
from kavka.seams import Tasks
from kavka.server.cluster import control_wire, control_wire_responses
from kavka.server.cluster.control_messages import (
    LeaderAndIsr,
    LeaderAndIsrResponse,
    StopReplica,
    StopReplicaResponse,
    UpdateMetadata,
)
from kavka.server.controller.reachability import Reachability
from kavka.wire.api import Api
from kavka.wire.apis import leader_and_isr, stop_replica, update_metadata
from kavka.wire.errors import ErrorCode

RETRY_S: Final = 0.1
"""Between two attempts, as in Apache Kafka."""


class RemoteBroker:
    """`BrokerPort` over the wire. Attempts end when it is closed: the broker is gone."""

    def __init__(self, client: BrokerClient, tasks: Tasks) -> None:
        self._client = client
        self._tasks = tasks
        self.reachability: Reachability | None = None
        """Watches whether the broker accepts connections, until this is closed."""
        self._is_closed = False

    async def leader_and_isr(self, request: LeaderAndIsr) -> LeaderAndIsrResponse:
        message = control_wire.leader_and_isr_request(request)
        response = await self._ask(leader_and_isr.API, message)
        return control_wire_responses.read_leader_and_isr_response(request, response)

    async def update_metadata(self, request: UpdateMetadata) -> ErrorCode:
        message = control_wire.update_metadata_request(request)
        response = await self._ask(update_metadata.API, message)
        return control_wire_responses.read_update_metadata_response(response)

    async def stop_replica(self, request: StopReplica) -> StopReplicaResponse:
        message = control_wire.stop_replica_request(request)
        response = await self._ask(stop_replica.API, message)
        return control_wire_responses.read_stop_replica_response(response)

    def close(self) -> None:
        """Ask no more; the request in flight fails with NotConnected."""
        self._is_closed = True
        if self.reachability is not None:
            self.reachability.close()
        self._client.close()

    async def _ask(self, api: Api, message: Any) -> Any:
        while True:
            try:
                return await self._client.ask(api, message)
            except ConnectionError:
                if self._is_closed:
                    raise NotConnected("the broker is no longer registered") from None
            await self._tasks.sleep(RETRY_S)
