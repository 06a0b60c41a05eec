"""Connections of client actors: requests and responses by kafka-python's codec."""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from typing import Any, NamedTuple

from kavka.compat_tests.raw.codec import wire_client
from sim.history import Place
from sim.loop import Process
from sim.network import HostNetwork, SimTransport

NO_EPOCH = -1
"""Instead of a leader epoch: not known."""

REQUEST_TIMEOUT_S = 30.0
"""request.timeout.ms of the stock clients."""

BACKOFF_S = 0.1
"""retry.backoff.ms and, about, reconnect.backoff.ms."""


class Lost(ConnectionError):
    """The connection ended, or no response came in time: whether the request took effect is not
    known."""


class _Request(NamedTuple):
    name: str
    version: int
    correlation_id: int
    response: asyncio.Future[Any]


class Answer(NamedTuple):
    """A response."""

    message: Any
    was_lost: bool
    """Whether the response to an earlier attempt was lost, which may have taken effect."""


class Connection(asyncio.Protocol):
    """One connection, on which requests may be pipelined."""

    def __init__(self) -> None:
        self._in_flight: deque[_Request] = deque()
        self._stream = bytearray()
        self._correlation_id = 0
        self._transport: SimTransport | None = None
        self.is_open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, SimTransport)
        transport.set_write_buffer_limits(0)
        self._transport = transport
        self.is_open = True

    def send(self, name: str, version: int, /, **values: Any) -> asyncio.Future[Any]:
        """Ask, and go on. The future gets the response, or `Lost`."""
        self._correlation_id += 1
        response: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if not self.is_open or self._transport is None:
            response.set_exception(Lost("not connected"))
            return response
        self._in_flight.append(_Request(name, version, self._correlation_id, response))
        frame = wire_client.encode(name, version, self._correlation_id, **values)
        self._transport.write(wire_client.framed(frame))
        return response

    async def ask(self, name: str, version: int, /, **values: Any) -> Any:
        """Ask, and wait for the response; without one in time the connection is closed."""
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                return await self.send(name, version, **values)
        except TimeoutError:
            self.close()
            raise Lost("timed out") from None

    def close(self) -> None:
        """Hang up; what was asked fails."""
        if self._transport is not None:
            self._transport.close()
        self._end()

    def abort(self) -> None:
        """The same by a reset, as a process ends that has not read all: the broker knows at once
        that no response will be read."""
        if self._transport is not None:
            self._transport.abort()
        self._end()

    def data_received(self, data: bytes) -> None:
        stream = self._stream
        stream += data
        while len(stream) >= 4:
            (size,) = struct.unpack_from(">i", stream)
            if len(stream) < 4 + size:
                return
            frame = bytes(stream[4 : 4 + size])
            del stream[: 4 + size]
            self._answered(frame)

    def _answered(self, frame: bytes) -> None:
        request = self._in_flight.popleft()
        correlation_id, message = wire_client.decode(request.name, request.version, frame)
        assert correlation_id == request.correlation_id, "responses come in the order of requests"
        if not request.response.done():
            request.response.set_result(message)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()

    def _end(self) -> None:
        self.is_open = False
        while self._in_flight:
            response = self._in_flight.popleft().response
            if not response.done():
                response.set_exception(Lost())
                response.exception()  # it is no fault if nothing waits for it any more


class Leader(NamedTuple):
    """A connection to the leader of a partition."""

    connection: Connection
    epoch: int
    """The leader epoch; `NO_EPOCH` to a client of one broker."""


class Client:
    """What an actor is made of: a process of its own, and a connection to a broker. In a cluster it
    is a `sim.cluster_client.ClusterClient`."""

    def __init__(self, process: Process, network: HostNetwork, address: tuple[str, int]) -> None:
        self.process = process
        self._network = network
        self._address = address
        self._connection: Connection | None = None

    def another(self) -> Client:
        """One with a connection of its own, in the same process."""
        return Client(self.process, self._network, self._address)

    async def connection(self) -> Connection:
        """An open connection, as soon as there is one again."""
        while self._connection is None or not self._connection.is_open:
            try:
                transport = await self._network.connect(*self._address, Connection)
            except OSError:
                await asyncio.sleep(BACKOFF_S)
            else:
                connection = transport.get_protocol()
                assert isinstance(connection, Connection)
                self._connection = connection
        return self._connection

    async def leader(self, place: Place) -> Leader:
        """A connection to the leader of a partition, as soon as there is one."""
        return Leader(await self.connection(), NO_EPOCH)

    async def ask(self, name: str, version: int, /, **values: Any) -> Any:
        """Ask the broker that the request is for. `Lost` when the connection ends."""
        return await (await self.connection()).ask(name, version, **values)

    async def ask_until_answered(self, name: str, version: int, /, **values: Any) -> Answer:
        """Ask again and again, until there is a response."""
        was_lost = False
        while True:
            try:
                return Answer(await self.ask(name, version, **values), was_lost)
            except Lost:
                was_lost = True
                self.hang_up()
                await asyncio.sleep(BACKOFF_S)

    def refresh(self) -> None:
        """What is known of the cluster is out of date: ask for it again before the next request."""

    def hang_up(self) -> None:
        """Close the connections; the next request opens another one."""
        if self._connection is not None:
            self._connection.close()
