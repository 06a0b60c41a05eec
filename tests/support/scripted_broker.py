"""A broker of one's own script, for tests of the client: it reads requests and writes responses by
kafka-python's codec, and hangs, cuts and lies as the test wants it."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from kavka.compat_tests.raw.codec import schemas, stock_codec, wire_client
from support.virtual import VirtualClock

_HEAD = struct.Struct(">hhih")


class Request(NamedTuple):
    """A request as it was read."""

    name: str
    version: int
    correlation_id: int
    client_id: str
    message: Any


def read_request(name: str, frame: bytes) -> Request:
    """A request of this API; its frame comes without its length."""
    key, version, correlation_id, length = _HEAD.unpack_from(frame)
    assert key == wire_client.api_key(name)
    end = _HEAD.size + length
    client_id = frame[_HEAD.size : end].decode()
    if stock_codec.is_flexible(f"{name}Request", version):
        assert frame[end] == 0, "no tags are expected in the header"
        end += 1
    message, read = stock_codec.decode(f"{name}Request", version, frame[end:])
    assert read == len(frame) - end
    return Request(name, version, correlation_id, client_id, message)


class ScriptedConnection(asyncio.Transport):
    """The client's transport, and the broker's hands on it."""

    def __init__(self) -> None:
        super().__init__()
        self._stream = bytearray()
        self._protocol: asyncio.BufferedProtocol | None = None
        self.is_closed = False

    # -- the client's calls ---------------------------------------------------------------

    def write(self, data: Any) -> None:
        assert not self.is_closed
        self._stream += data

    def writelines(self, list_of_data: Any) -> None:
        for data in list_of_data:
            self.write(data)

    def abort(self) -> None:
        if not self.is_closed:
            self.end()

    # -- the broker -----------------------------------------------------------------------

    def attach(self, protocol: asyncio.BaseProtocol) -> None:
        """The connection is open."""
        assert isinstance(protocol, asyncio.BufferedProtocol)
        self._protocol = protocol
        protocol.connection_made(self)

    @property
    def has_request(self) -> bool:
        """Whether a request has come that was not taken."""
        return bool(self._stream)

    def take(self, name: str) -> Request:
        """The next request, which has to be of this API."""
        (size,) = struct.unpack_from(">i", self._stream)
        frame = bytes(self._stream[4 : 4 + size])
        assert len(frame) == size, "the frame is cut"
        request = read_request(name, frame)
        del self._stream[: 4 + size]
        return request

    def respond(self, request: Request, *, version: int | None = None, **values: Any) -> None:
        """Send the response to a request, in its version unless another is given."""
        self.feed(wire_client.framed(response_frame(request, version=version, **values)))

    def serve_versions(self, **served: tuple[int, int]) -> Request:
        """Answer the client's first question; the APIs by name."""
        request = self.take("ApiVersions")
        ranges = {"ApiVersions": (0, 4), **served}
        self.respond(request, api_keys=api_keys(ranges))
        return request

    def feed(self, data: bytes) -> None:
        """Send bytes, which the client reads at once."""
        assert self._protocol is not None
        while data and not self.is_closed:
            room = memoryview(self._protocol.get_buffer(-1))
            count = min(len(room), len(data))
            room[:count] = data[:count]
            del room
            self._protocol.buffer_updated(count)
            data = data[count:]

    def end(self, failure: Exception | None = None) -> None:
        """The connection is over; the client hears of it in the next turn."""
        assert self._protocol is not None
        self.is_closed = True
        asyncio.get_running_loop().call_soon(self._protocol.connection_lost, failure)


def api_keys(served: dict[str, tuple[int, int]]) -> list[dict[str, int]]:
    """As ApiVersions lists them."""
    return [
        {"api_key": wire_client.api_key(name), "min_version": lowest, "max_version": highest}
        for name, (lowest, highest) in served.items()
    ]


def response_frame(request: Request, *, version: int | None = None, **values: Any) -> bytes:
    """A response without its length."""
    version = request.version if version is None else version
    name = f"{request.name}Response"
    body = stock_codec.encode(name, version, schemas.as_namespace(schemas.schema(name), values))
    head = struct.pack(">i", request.correlation_id)
    if stock_codec.is_flexible(name, version) and request.name != wire_client.API_VERSIONS:
        head += b"\0"
    return head + body


class ScriptedNetwork:
    """`kavka.seams.Network` where each attempt to connect ends as the test says: with a connection,
    an error, or (None) not at all."""

    def __init__(self, clock: VirtualClock, *outcomes: ScriptedConnection | OSError | None) -> None:
        self._clock = clock
        self.outcomes = list(outcomes)
        self.attempts: list[tuple[str, int, float]] = []
        """Host, port and time in seconds of each."""

    async def connect(
        self, host: str, port: int, factory: Callable[[], asyncio.BaseProtocol]
    ) -> asyncio.BaseTransport:
        self.attempts.append((host, port, self._clock.monotonic_s()))
        outcome = self.outcomes.pop(0)
        if outcome is None:
            await asyncio.get_running_loop().create_future()
        if isinstance(outcome, OSError):
            raise outcome
        assert outcome is not None
        outcome.attach(factory())
        return outcome

    async def resolve(self, host: str) -> str:
        return {"broker.test": "10.0.0.1"}[host]

    async def bind(self, host: str, port: int) -> Any:
        raise AssertionError("a client binds nothing")

    def host_name(self) -> str:
        raise AssertionError("a client does not ask for it")
