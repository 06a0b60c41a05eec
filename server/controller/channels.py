"""The controller's requests to brokers: one queue per broker, one request in flight, in order."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from kavka.client.errors import NotConnected
from kavka.seams import Tasks
from kavka.server.cluster.control_messages import (
    LeaderAndIsr,
    LeaderAndIsrResponse,
    StopReplica,
    StopReplicaResponse,
    UpdateMetadata,
)
from kavka.server.controller.events import (
    Event,
    LeaderAndIsrResponseReceived,
    Request,
    Send,
    StopReplicaResponseReceived,
    UpdateMetadataResponseReceived,
)
from kavka.wire.errors import ErrorCode
from kavka.zktree.api import SESSION_ENDED

if TYPE_CHECKING:
    import asyncio

logger = logging.getLogger(__name__)

QUEUED_REQUESTS_MAX: Final = 10_000
"""Pending requests to one broker; at a chunk each, 1.28 million partitions."""


class BrokerPort(Protocol):
    """A broker as the controller sees it; in this process, or over the wire (`RemoteBroker`)."""

    async def leader_and_isr(self, request: LeaderAndIsr) -> LeaderAndIsrResponse:
        """Make the broker leader or follower of partitions; returns when that is done."""
        ...

    async def update_metadata(self, request: UpdateMetadata) -> ErrorCode:
        """Update the broker's metadata cache; it is in effect when this returns."""
        ...

    async def stop_replica(self, request: StopReplica) -> StopReplicaResponse:
        """Stop replicas, and delete them if requested. A missing one counts as deleted."""
        ...


class Channel:
    """The queue to one broker. Responses become events, in the order of the requests."""

    def __init__(
        self,
        broker_id: int,
        port: BrokerPort,
        *,
        on_event: Callable[[Event], None],
        on_close: Callable[[], object],
        tasks: Tasks,
    ) -> None:
        self._broker_id = broker_id
        self._port = port
        self._on_event = on_event
        self._on_close = on_close
        self._tasks = tasks
        self._queue: deque[Request] = deque()
        self._closed = False
        self._sender: asyncio.Task[None] | None = None

    @property
    def idle(self) -> bool:
        """Whether no request is pending."""
        return self._sender is None

    def send(self, request: Request) -> None:
        """Enqueue a request."""
        if len(self._queue) >= QUEUED_REQUESTS_MAX:
            raise OverflowError(f"broker {self._broker_id} has not answered {len(self._queue)}")
        self._queue.append(request)
        if self._sender is None:
            name = f"controller channel to broker {self._broker_id}"
            self._sender = self._tasks.spawn(self._send_all(), name=name)

    def close(self) -> None:
        """Drop the queue; the response to the request in flight is ignored."""
        self._queue.clear()
        self._closed = True
        self._on_close()

    async def _send_all(self) -> None:
        while self._queue:
            event = await self._response(self._queue.popleft())
            if not self._closed:
                self._on_event(event)
        self._sender = None

    async def _response(self, request: Request) -> Event:
        broker_id, failed = self._broker_id, ErrorCode.UNKNOWN_SERVER_ERROR
        try:
            match request:
                case LeaderAndIsr():
                    return LeaderAndIsrResponseReceived(
                        broker_id, request, await self._port.leader_and_isr(request)
                    )
                case UpdateMetadata():
                    code = await self._port.update_metadata(request)
                    return UpdateMetadataResponseReceived(broker_id, request, code)
                case StopReplica():
                    return StopReplicaResponseReceived(
                        broker_id, request, await self._port.stop_replica(request)
                    )
        except NotConnected:
            logger.debug("the connection to broker %d has ended: dropping its request", broker_id)
        except SESSION_ENDED as end:
            logger.error("broker %d did not handle %s: %r", broker_id, type(request).__name__, end)
        except Exception:
            logger.exception("broker %d failed to handle %s", broker_id, type(request).__name__)
        if isinstance(request, LeaderAndIsr):
            return LeaderAndIsrResponseReceived(
                broker_id, request, LeaderAndIsrResponse(failed, {})
            )
        if isinstance(request, StopReplica):
            return StopReplicaResponseReceived(broker_id, request, StopReplicaResponse(failed, {}))
        return UpdateMetadataResponseReceived(broker_id, request, failed)


def _nothing() -> None:
    """The port of this broker itself stays open."""


class Channels:
    """The channels to all live brokers."""

    def __init__(self, on_event: Callable[[Event], None], tasks: Tasks) -> None:
        self._on_event = on_event
        self._tasks = tasks
        self._channels: dict[int, Channel] = {}

    def is_idle(self, broker_id: int) -> bool:
        """Whether no request to a broker is pending."""
        channel = self._channels.get(broker_id)
        return channel is None or channel.idle

    def open(
        self, broker_id: int, port: BrokerPort, on_close: Callable[[], object] = _nothing
    ) -> None:
        """Open the channel to a broker, through `port`; an earlier one is closed."""
        self.close_one(broker_id)
        self._channels[broker_id] = Channel(
            broker_id, port, on_event=self._on_event, on_close=on_close, tasks=self._tasks
        )

    def close_one(self, broker_id: int) -> None:
        """Close the channel to a broker, if there is one."""
        channel = self._channels.pop(broker_id, None)
        if channel is not None:
            channel.close()

    def send(self, command: Send) -> None:
        """Send to a broker. Nothing is sent to one without a channel: it is down, and gets its
        state when it restarts."""
        channel = self._channels.get(command.broker_id)
        if channel is not None:
            channel.send(command.request)

    def close(self) -> None:
        """Close all."""
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()
