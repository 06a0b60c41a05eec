"""A network in memory: the broker's own connection protocols, and clients that speak to them.

Bytes travel in the next iteration of the loop, never within the call that sends them. A client asks
with kafka-python's stock codec (`support.wire_client`) and takes answers in the order of its
requests.
"""

from __future__ import annotations

import asyncio
import errno
import struct
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from kavka.compat_tests.raw.codec import wire_client

HOST = "broker.test"
CLIENT_HOST = "10.0.0.1"
DIALLED = ("10.0.0.99", 9092)
FIRST_FREE_PORT = 40_000
Factory = Callable[[str], asyncio.BaseProtocol | None]
AnyClient = TypeVar("AnyClient", bound="Client")
ITERATIONS_MAX = 20_000
"""Iterations of the loop after which a test gives up waiting: nothing in it takes real time."""


async def until(condition: Callable[[], object], what: str) -> None:
    """Let the loop run, without time passing, until `condition` holds."""
    for _ in range(ITERATIONS_MAX):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError(f"not without time passing: {what}")


class Closed(ConnectionError):
    """The broker hung up."""


class MemoryTransport(asyncio.Transport):
    """The broker's end of a connection."""

    def __init__(self, protocol: asyncio.BufferedProtocol, client: Client) -> None:
        super().__init__({"peername": (client.host, 5555), "sockname": DIALLED})
        self._protocol = protocol
        self._client = client
        self._inbox = bytearray()
        self._outbox: list[Any] = []
        self._held = False
        self._eof = False
        self._reading = True
        self._closing = False
        self._ended = False
        self._due = False
        protocol.connection_made(self)

    # -- the broker's calls ---------------------------------------------------------------

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high == 0, "the broker wants to know when all is written"

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def is_closing(self) -> bool:
        return self._closing

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        self._deliver_soon()

    def write(self, data: Any) -> None:
        if self._held:
            if not self._outbox:
                self._protocol.pause_writing()
            self._outbox.append(data)  # as it is: what is lent may not change yet
        else:
            self._client.received(bytes(data))

    def get_write_buffer_size(self) -> int:
        return sum(len(data) for data in self._outbox)

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            asyncio.get_running_loop().call_soon(self._end)

    def abort(self) -> None:
        self._outbox.clear()
        self._inbox.clear()
        self._closing = True
        asyncio.get_running_loop().call_soon(self._end)

    def cut(self) -> None:
        """The process died: the protocol gets no more events."""
        self._closing = self._ended = True
        self._client.ended()

    # -- the client's side ----------------------------------------------------------------

    def arrive(self, data: bytes) -> None:
        """Bytes that the client sent."""
        self._inbox += data
        self._deliver_soon()

    def end_stream(self) -> None:
        """The client sends no more; it reads on."""
        self._eof = True
        self._deliver_soon()

    def hang_up(self) -> None:
        """The client closes and reads nothing more, which resets the connection."""
        if not self._closing:
            self.abort()

    def hold(self) -> None:
        """The client stops reading."""
        self._held = True

    def release(self) -> None:
        """The client reads again."""
        self._held = False
        outbox, self._outbox = self._outbox, []
        sent = b"".join(outbox)
        outbox.clear()  # what was lent is released before the protocol is notified
        if sent:
            self._client.received(sent)
            self._protocol.resume_writing()

    def is_reading(self) -> bool:
        """Whether the broker takes more requests."""
        return self._reading

    def _deliver_soon(self) -> None:
        if not self._due and (self._inbox or self._eof):
            self._due = True
            asyncio.get_running_loop().call_soon(self._deliver)

    def _deliver(self) -> None:
        self._due = False
        while self._inbox and self._reading and not self._closing:
            room = memoryview(self._protocol.get_buffer(-1))
            count = min(len(room), len(self._inbox))
            room[:count] = self._inbox[:count]
            del room
            del self._inbox[:count]
            self._protocol.buffer_updated(count)
        if self._eof and self._reading and not self._closing:
            self._eof = False
            if not self._protocol.eof_received():
                self.close()

    def _end(self) -> None:
        if not self._ended:
            self._ended = True
            self._protocol.connection_lost(None)
            self._client.ended()


class _SentRequest(NamedTuple):
    """A request whose answer is awaited."""

    name: str
    version: int
    correlation_id: int
    answer: asyncio.Future[Any]


class Client:
    """The other end: sends requests and takes answers."""

    def __init__(self, host: str = CLIENT_HOST) -> None:
        self.host = host
        self._early = bytearray()
        self._stream = bytearray()
        self._unanswered: deque[_SentRequest] = deque()
        self._correlation_id = 0
        self.frames: list[bytes] = []
        """Answers to bytes that were sent as they are."""
        self.is_closed = False
        self.is_accepted = False

    def accept(self, factory: Factory) -> None:
        """The broker accepts the connection, or closes it at once."""
        protocol = factory(self.host)
        if protocol is None:
            self.ended()
            return
        assert isinstance(protocol, asyncio.BufferedProtocol)
        self.is_accepted = True
        self.transport = MemoryTransport(protocol, self)
        self.transport.arrive(bytes(self._early))

    def send(self, name: str, version: int, /, **values: Any) -> asyncio.Future[Any]:
        """Ask, and go on; the future becomes the answer, or `Closed`."""
        self._correlation_id += 1
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())
        if self.is_closed:
            answer.set_exception(Closed())
            return answer
        self._unanswered.append(_SentRequest(name, version, self._correlation_id, answer))
        self.send_frame(wire_client.encode(name, version, self._correlation_id, **values))
        return answer

    def tell(self, name: str, version: int, /, **values: Any) -> None:
        """Ask what is not answered: Produce with acks=0."""
        self._correlation_id += 1
        self.send_frame(wire_client.encode(name, version, self._correlation_id, **values))

    def send_frame(self, frame: bytes) -> None:
        """Send a request's bytes as they are, with their length in front."""
        self.send_bytes(wire_client.framed(frame))

    def send_bytes(self, data: bytes) -> None:
        """Send bytes."""
        if self.is_accepted:
            self.transport.arrive(data)
        else:
            self._early += data

    async def ask(self, name: str, version: int, /, **values: Any) -> Any:
        """Ask, and wait for the answer, which may not need time to pass."""
        answer = self.send(name, version, **values)
        await until(answer.done, f"an answer to {name} v{version}")
        return answer.result()

    async def closed(self) -> None:
        """Wait until the broker has hung up."""
        await until(lambda: self.is_closed, "the broker closes the connection")

    def end_stream(self) -> None:
        """Send no more, but take the answers that are to come."""
        self.transport.end_stream()

    def close(self) -> None:
        """Hang up."""
        self.transport.hang_up()

    # -- the transport's calls ------------------------------------------------------------

    def received(self, data: bytes) -> None:
        """Bytes of answers."""
        self._stream += data
        while len(self._stream) >= 4:
            (size,) = struct.unpack_from(">i", self._stream)
            if len(self._stream) < 4 + size:
                return
            frame = bytes(self._stream[4 : 4 + size])
            del self._stream[: 4 + size]
            self._answer(frame)

    def _answer(self, frame: bytes) -> None:
        if not self._unanswered:
            self.frames.append(frame)
            return
        request = self._unanswered.popleft()
        try:
            correlation_id, message = wire_client.decode(request.name, request.version, frame)
            assert correlation_id == request.correlation_id, "answers come in order"
        except Exception as failure:
            request.answer.set_exception(failure)
        else:
            request.answer.set_result(message)

    def ended(self) -> None:
        """The connection is over."""
        self.is_closed = True
        while self._unanswered:
            answer = self._unanswered.popleft().answer
            if not answer.done():
                answer.set_exception(Closed())


class MemoryListening:
    """`kavka.seams.Listening`."""

    def __init__(self, network: MemoryNetwork, port: int) -> None:
        self._network = network
        self.port = port
        self.factory: Factory | None = None
        self.is_paused = False
        self._backlog: deque[Client] = deque()

    async def accept(self, factory: Factory) -> None:
        self.factory = factory
        self._accept()

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False
        asyncio.get_running_loop().call_soon(self._accept)

    def connect(self, client: Client) -> None:
        """A client has connected."""
        self._backlog.append(client)
        self._accept()

    def _accept(self) -> None:
        while self._backlog and not self.is_paused and self.factory is not None:
            self._backlog.popleft().accept(self.factory)

    def close(self) -> None:
        self._network.unbind(self.port)


class MemoryNetwork:
    """`kavka.seams.Network`. Ports outlive nothing: a network dies with its broker."""

    def __init__(self, taken: Mapping[int, int] | None = None) -> None:
        self._taken = dict(taken or {})
        self._bound: dict[int, MemoryListening] = {}
        self._clients: list[Client] = []
        self.hosts: dict[str, str] = {}
        """Addresses of names that are no addresses."""

    async def bind(self, host: str, port: int) -> MemoryListening:
        if port in self._taken or port in self._bound:
            raise OSError(self._taken.get(port, errno.EADDRINUSE), "Address already in use")
        port = port or FIRST_FREE_PORT + len(self._bound)
        self._bound[port] = MemoryListening(self, port)
        return self._bound[port]

    def host_name(self) -> str:
        return HOST

    def unbind(self, port: int) -> None:
        """Accept no connection on it any more."""
        del self._bound[port]

    @property
    def ports(self) -> list[int]:
        """Those that are bound."""
        return list(self._bound)

    async def resolve(self, host: str) -> str:
        address = self.hosts.get(host, host)
        if not address[-1:].isdigit():
            raise OSError(errno.ENOENT, f"no host {host}")
        return address

    async def connect(
        self, host: str, port: int, factory: Callable[[], asyncio.BaseProtocol]
    ) -> asyncio.BaseTransport:
        """Refused: the broker is alone in this network. (That of `sim.network` has more hosts.)"""
        raise ConnectionRefusedError(errno.ECONNREFUSED, f"no server listens at {host}:{port}")

    def client(self, port: int, host: str = CLIENT_HOST) -> Client:
        """A new connection from `host`; ConnectionRefusedError where nothing listens."""
        return self.client_as(Client, port, host)

    def client_as(
        self, kind: Callable[[str], AnyClient], port: int, host: str = CLIENT_HOST
    ) -> AnyClient:
        """As `client`, with a client of another kind."""
        listening = self._bound.get(port)
        if listening is None:
            raise ConnectionRefusedError(port)
        client = kind(host)
        self._clients.append(client)
        listening.connect(client)
        return client

    def die(self) -> None:
        """The process is gone, and its sockets with it."""
        self._bound.clear()
        for client in self._clients:
            if client.is_accepted:
                client.transport.cut()
