"""One connection against a transport and a dispatcher that the test plays."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

from kavka.server.config import BrokerSettings
from kavka.server.config.live import LiveSettings
from kavka.server.connections.connection import TURN_S_MAX, Connection
from kavka.server.connections.registry import Acceptor, Connections
from kavka.server.request.context import BadRequest, Peer, RequestContext
from kavka.server.request.results import Call
from kavka.wire.apis import produce
from kavka.wire.frame import ArenaPool
from support.asynchronous import Test, ran_by
from support.virtual import VirtualClock, VirtualTasks


class Transport(asyncio.Transport):
    """Takes everything until the test makes it full."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []
        self.reading = True
        self.closed = False
        self.full = False
        self.broken = False
        self.unread_bytes = 0
        self.protocol: Any = None

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("10.0.0.1", 5555) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high == 0

    def write(self, data: Any) -> None:
        self.sent.append(bytes(data))
        if self.broken:
            self.abort()
        elif self.full:
            self.protocol.pause_writing()

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def get_write_buffer_size(self) -> int:
        return self.unread_bytes

    def drained(self) -> None:
        self.full = False
        self.protocol.resume_writing()


class Script:
    """A dispatcher: a frame's first byte says what becomes of it, the rest is its name."""

    name = "Script"

    def __init__(self) -> None:
        self.calls: list[bytes] = []
        self.done: list[bytes] = []
        self.waiting: dict[bytes, asyncio.Future[Any]] = {}
        self.applying: dict[bytes, asyncio.Future[None]] = {}
        self.throttle = 0
        self.remembers = True
        self.time_s = 0.0
        self.arena: Any = None

    def call(self, peer: Peer, frame: memoryview) -> Call:
        kind, name = bytes(frame[:1]), bytes(frame[1:])
        api: Any = self
        self.calls.append(name)
        context = RequestContext(peer, 0, 0, None)
        if kind == b"!":
            raise BadRequest(name.decode() or "garbage")
        if kind == b"0":
            return Call(api, context, name, None)
        if kind == b"h":
            context.applied = self.applying[name] = asyncio.get_running_loop().create_future()
        if kind == b"k":
            context.keep_frame()  # and then it was applied at once
        if kind in (b"w", b"h", b"k"):
            self.waiting[name] = asyncio.get_running_loop().create_future()
            return Call(api, context, name, self.waiting[name])
        if kind == b"c":
            return Call(api, context, name, self.coroutine(name))
        if kind == b"s":
            self.time_s += TURN_S_MAX / 2
        if kind == b"l":
            context.lend(self.arena)
        return Call(api, context, name, name)

    key = produce.API.key

    def is_produce(self, frame: memoryview) -> bool:
        return self.key == produce.API.key

    def now_s(self) -> float:
        """A time that passes only in slow requests."""
        return self.time_s

    def fast_path(self) -> Any:
        """What remembers requests."""
        return Remembering(self)

    async def coroutine(self, name: bytes) -> bytes:
        await asyncio.sleep(0)
        self.done.append(name)
        return name

    def failed(self, api: Any, context: Any, request: bytes, failure: Exception) -> bytes:
        return b"failed " + request

    def drop_frame_views(self, api: Any, request: object) -> None:
        pass  # the requests are bytes of their own

    def encode(self, api: Any, context: Any, response: bytes) -> list[bytes]:
        if response == UNSENDABLE:
            raise BadRequest("can't be sent")
        if response == FAILS:
            raise ValueError("our mistake")
        return [response]

    def throttle_ms(self, context: Any, response: bytes, request_bytes: int) -> int:
        return self.throttle


class Remembering:
    """A fast path for requests of the kind `r`, while the script `remembers`."""

    def __init__(self, script: Script) -> None:
        self._script = script

    def respond(self, frame: memoryview) -> bytes | None:
        if not self._script.remembers or bytes(frame[:1]) != b"r":
            return None
        return b"remembered " + bytes(frame[1:])

    def remember(self, *request: Any) -> None:
        """Nothing."""

    def call(self, frame: memoryview) -> Call | None:
        answer = self.respond(frame)
        api: Any = self._script
        context = RequestContext(Peer("", ""), 0, 0, None)
        return None if answer is None else Call(api, context, None, answer)


REQUEST_MAX = 1_000_000
UNSENDABLE, FAILS = b"unsendable", b"fails"


class Listening:
    """Where the one connection comes from."""

    def __init__(self) -> None:
        self.factory: Any = None
        self.paused = False

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False

    async def accept(self, factory: Any) -> None:
        self.factory = factory


class Scene:
    def __init__(self, *overrides: str) -> None:
        self.clock = VirtualClock()
        self.tasks = VirtualTasks(self.clock)
        self.script = Script()
        dispatcher: Any = self.script
        self.arenas = ArenaPool()
        live = LiveSettings(BrokerSettings.load(environ={}, overrides=overrides))
        self.connections = Connections(live, clock=self.clock, tasks=self.tasks)
        self._dispatcher = dispatcher

    async def connect(self) -> None:
        """Open the one connection."""
        listening: Any = Listening()
        self.listening = listening
        await self.connections.open(Acceptor("PLAINTEXT", listening), self._make)
        self.connection: Connection = listening.factory("10.0.0.1")
        self.transport = Transport()
        self.transport.protocol = self.connection
        self.connection.connection_made(self.transport)

    def _make(self, acceptor: Acceptor, host: str) -> Connection:
        return Connection(
            acceptor, host, self._dispatcher, self.tasks, self.arenas, self.connections, REQUEST_MAX
        )

    def receive(self, *frames: bytes) -> None:
        self.receive_bytes(b"".join(struct.pack(">i", len(frame)) + frame for frame in frames))

    def receive_bytes(self, data: bytes) -> None:
        while data:
            assert self.transport.reading, "the kernel's buffer keeps what is not read"
            room = self.connection.get_buffer(-1)
            size = min(len(room), len(data))
            room[:size] = data[:size]
            data = data[size:]
            del room
            self.connection.buffer_updated(size)

    @property
    def sent(self) -> bytes:
        return b"".join(self.transport.sent)


def _run(test: Test) -> None:
    async def main() -> None:
        opened = Scene()
        await opened.connect()
        await test(opened)

    asyncio.run(main())


scene = ran_by(_run)
"""A test of one connection, which it is given."""
