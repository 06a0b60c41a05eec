"""One connection against a transport and a dispatcher that the test plays."""

import asyncio
import struct
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kavka.server.config import BrokerSettings
from kavka.server.connection import (
    FETCHES_UNANSWERED_MAX,
    FRAMES_PER_TURN_MAX,
    OTHERS_UNANSWERED_MAX,
    PRODUCE,
    TURN_S_MAX,
    UNANSWERED_MAX,
    Connection,
)
from kavka.server.connections import Connections, Gate
from kavka.server.context import BadRequest, Peer, RequestContext
from kavka.server.dispatch import Call
from kavka.server.live_settings import LiveSettings
from kavka.wire.frame import ARENA_BYTES, ArenaPool
from support.virtual import VirtualClock, VirtualTasks, settle


class Transport(asyncio.Transport):
    """Takes everything until it is told to be full."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []
        self.reading = True
        self.closed = False
        self.full = False
        self.unread_bytes = 0
        self.protocol: Any = None

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("10.0.0.1", 5555) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high == 0

    def write(self, data: Any) -> None:
        self.sent.append(bytes(data))
        if self.full:
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
        self.waiting: dict[bytes, asyncio.Future[bytes]] = {}
        self.throttle = 0
        self.time_s = 0.0
        self.arena: Any = None

    def call(self, peer: Peer, frame: memoryview) -> Call:
        kind, name = bytes(frame[:1]), bytes(frame[1:])
        api: Any = self
        self.calls.append(name)
        context = RequestContext(peer, 0, 0, None)
        if kind == b"!":
            raise BadRequest("garbage")
        if kind == b"0":
            return Call(api, context, name, None)
        if kind == b"w":
            self.waiting[name] = asyncio.get_running_loop().create_future()
            return Call(api, context, name, self.waiting[name])
        if kind == b"c":
            return Call(api, context, name, self.coroutine(name))
        if kind == b"s":
            self.time_s += TURN_S_MAX / 2
        if kind == b"l":
            context.lend(self.arena)
        return Call(api, context, name, name)

    key = PRODUCE

    def learn(self, *request: Any) -> None:
        """Nothing."""

    def now_s(self) -> float:
        """A time that passes only in slow requests."""
        return self.time_s

    def shortcut(self) -> Any:
        """What remembers nothing."""
        return self

    def answer(self, frame: memoryview) -> None:
        return None

    async def coroutine(self, name: bytes) -> bytes:
        await asyncio.sleep(0)
        return name

    def failed(self, api: Any, context: Any, request: bytes, failure: Exception) -> bytes:
        return b"failed " + request

    def encode(self, api: Any, context: Any, response: bytes) -> list[bytes]:
        return [response]

    def throttle_ms(self, context: Any, response: bytes, request_bytes: int) -> int:
        return self.throttle


REQUEST_MAX = 1_000_000


class Listening:
    """Where the one connection comes from."""

    def __init__(self) -> None:
        self.factory: Any = None

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
        await self.connections.open(Gate("PLAINTEXT", listening), self._make)
        self.connection: Connection = listening.factory("10.0.0.1")
        self.transport = Transport()
        self.transport.protocol = self.connection
        self.connection.connection_made(self.transport)

    def _make(self, gate: Gate, host: str) -> Connection:
        return Connection(
            gate, host, self._dispatcher, self.tasks, self.arenas, self.connections, REQUEST_MAX
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


def scene(test: Callable[[Scene], Awaitable[None]]) -> Callable[[], None]:
    def run() -> None:
        async def main() -> None:
            opened = Scene()
            await opened.connect()
            await test(opened)

        asyncio.run(main())

    run.__name__ = test.__name__
    run.__doc__ = test.__doc__
    return run


@scene
async def test_plain_answers_go_out_at_once(s: Scene) -> None:
    s.receive(b"aone", b"atwo")
    assert s.sent == b"onetwo"


@scene
async def test_answers_leave_in_the_order_of_requests(s: Scene) -> None:
    s.receive(b"wfirst", b"asecond", b"wthird", b"afourth")
    assert s.script.calls == [b"first", b"second", b"third", b"fourth"], "none waits to be handled"
    assert s.sent == b""
    s.script.waiting[b"third"].set_result(b"third")
    await settle()
    assert s.sent == b""
    s.script.waiting[b"first"].set_result(b"first")
    await settle()
    assert s.sent == b"firstsecondthirdfourth"


@scene
async def test_a_coroutine_is_run_and_a_failure_answered(s: Scene) -> None:
    s.receive(b"cone", b"wtwo")
    s.script.waiting[b"two"].set_exception(RuntimeError("boom"))
    await settle()
    assert s.sent == b"onefailed two"


@scene
async def test_no_answer_takes_no_place(s: Scene) -> None:
    s.receive(b"0none", b"aone")
    assert s.sent == b"one"


@scene
async def test_a_bad_request_closes_after_what_was_answered(s: Scene) -> None:
    s.receive(b"aone", b"!", b"atwo")
    assert s.sent == b"one"
    assert s.transport.closed
    assert s.script.calls == [b"one", b""]


@scene
async def test_nothing_is_handled_after_a_bad_request(s: Scene) -> None:
    s.receive(b"wone", b"!", b"atwo")
    assert s.transport.closed
    s.script.waiting[b"one"].set_result(b"one")
    await settle()
    assert s.script.calls == [b"one", b""]
    assert not s.transport.reading


@scene
async def test_a_frame_over_the_limit_closes(s: Scene) -> None:
    room = s.connection.get_buffer(-1)
    room[:4] = struct.pack(">i", REQUEST_MAX + 1)
    s.connection.buffer_updated(4)
    assert s.transport.closed


@scene
async def test_reading_pauses_while_too_many_wait(s: Scene) -> None:
    s.receive(*[b"w%d" % i for i in range(UNANSWERED_MAX - FRAMES_PER_TURN_MAX)])
    await settle()
    s.receive(*[b"w%d" % (1000 + i) for i in range(FRAMES_PER_TURN_MAX + 5)])
    await settle()
    assert len(s.script.calls) == UNANSWERED_MAX
    assert not s.transport.reading
    s.script.waiting[b"0"].set_result(b"")
    await settle()
    assert len(s.script.calls) == UNANSWERED_MAX + 1
    for name in list(s.script.waiting):
        if not s.script.waiting[name].done():
            s.script.waiting[name].set_result(b"")
            await settle()
    for future in s.script.waiting.values():
        if not future.done():
            future.set_result(b"")
    await settle()
    assert s.transport.reading
    assert len(s.script.calls) == UNANSWERED_MAX + 5


LIST_OFFSETS, FETCH = 2, 1


@pytest.mark.parametrize(
    ("api_key", "most"),
    [(LIST_OFFSETS, OTHERS_UNANSWERED_MAX), (FETCH, FETCHES_UNANSWERED_MAX)],
)
def test_requests_whose_answers_hold_much_wait_in_smaller_numbers(api_key: int, most: int) -> None:
    @scene
    async def story(s: Scene) -> None:
        s.script.key = api_key
        s.receive(*[b"a%d" % i for i in range(10)])  # answered at once, they do not count
        s.receive(b"wfirst", *[b"a%d" % i for i in range(most + 1)])
        assert s.script.calls[10:] == [b"first", *(b"%d" % i for i in range(most - 1))]
        assert not s.transport.reading
        s.script.waiting[b"first"].set_result(b"")
        await settle()
        assert len(s.script.calls) == 10 + most + 2
        assert s.transport.reading

    story()


def test_one_line_tells_what_a_bad_request_s_connection_is_closed_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @scene
    async def story(s: Scene) -> None:
        s.receive(b"aone", b"!", b"atwo")
        s.connection.connection_lost(None)
        assert s.connections.bad.count == 1

    story()
    (line,) = caplog.messages
    assert line == "closing connection from 10.0.0.1:5555 on PLAINTEXT: garbage"


@scene
async def test_at_rest_is_who_is_owed_nothing(s: Scene) -> None:
    assert s.connection.is_at_rest()
    s.receive(b"wone")
    assert not s.connection.is_at_rest()
    s.script.waiting[b"one"].set_result(b"one")
    await settle()
    assert s.connection.is_at_rest()
    s.script.throttle = 100
    s.receive(b"atwo")
    assert not s.connection.is_at_rest()


@scene
async def test_at_rest_is_who_does_not_read(s: Scene) -> None:
    s.transport.full = True
    s.receive(b"aone")
    for unread_bytes, at_rest in [(900, False), (500, False), (500, True), (400, False)]:
        s.transport.unread_bytes = unread_bytes
        assert s.connection.is_at_rest() is at_rest


def test_big_requests_wait_for_memory() -> None:
    size = 2 * ARENA_BYTES
    whole = struct.pack(">i", size) + b"a" + bytes(size - 1)

    async def story() -> None:
        first = Scene("queued.max.request.bytes=500000", "socket.request.max.bytes=500000")
        await first.connect()
        second = Scene()
        second.connections = first.connections
        await second.connect()
        memory = first.connections.request_memory
        first.receive_bytes(whole[:1000])
        assert memory.held_bytes == size + 4
        second.receive_bytes(whole[:1000])
        await settle()
        assert not second.transport.reading
        first.receive_bytes(whole[1000:])
        assert first.script.calls == [bytes(size - 1)]
        assert memory.held_bytes == 0
        await settle()
        assert second.transport.reading
        second.receive_bytes(whole[1000:50_000])
        assert memory.held_bytes == size + 4
        second.connection.connection_lost(None)
        assert memory.held_bytes == 0

    asyncio.run(story())


@scene
async def test_a_burst_is_handled_in_turns(s: Scene) -> None:
    s.receive(*[b"a%d" % i for i in range(FRAMES_PER_TURN_MAX + 1)])
    assert len(s.script.calls) == FRAMES_PER_TURN_MAX
    assert not s.transport.reading
    await settle()
    assert len(s.script.calls) == FRAMES_PER_TURN_MAX + 1
    assert s.transport.reading


@scene
async def test_slow_requests_are_handled_in_turns(s: Scene) -> None:
    s.receive(*[b"s%d" % i for i in range(5)])
    assert s.script.calls == [b"0", b"1"]
    assert not s.transport.reading
    await settle()
    assert s.script.calls == [b"0", b"1", b"2", b"3", b"4"]
    assert s.transport.reading


@scene
async def test_a_peer_that_does_not_read_its_answers_is_not_read(s: Scene) -> None:
    s.transport.full = True
    s.receive(b"aone")
    s.receive(b"atwo")
    assert s.script.calls == [b"one"]
    assert not s.transport.reading
    s.transport.drained()
    assert s.sent == b"onetwo"
    assert s.transport.reading


@scene
async def test_lent_buffers_come_back_when_the_transport_let_go(s: Scene) -> None:
    big = 2 * ARENA_BYTES  # unlike the arena that requests are received into
    arena = s.script.arena = s.arenas.take(big)
    s.receive(b"lone")
    assert s.arenas.take(big) is arena, "given back at once"
    s.transport.full = True
    s.receive(b"ltwo")
    assert s.arenas.take(big) is not arena
    s.transport.drained()
    assert s.arenas.take(big) is arena


@scene
async def test_a_throttled_peer_is_muted_for_that_long(s: Scene) -> None:
    s.script.throttle = 100
    s.receive(b"aone")
    assert s.sent == b"one", "the answer itself goes out at once (KIP-219)"
    assert not s.transport.reading
    s.script.throttle = 0
    await s.tasks.advance(99)
    assert not s.transport.reading
    await s.tasks.advance(1)
    assert s.transport.reading


@scene
async def test_waits_end_with_the_connection(s: Scene) -> None:
    s.receive(b"wone")
    assert len(s.connections) == 1
    s.connection.connection_lost(None)
    assert s.script.waiting[b"one"].cancelled()
    assert len(s.connections) == 0
    await settle()
    assert s.sent == b""


@scene
async def test_the_end_of_the_stream_gives_the_arena_back(s: Scene) -> None:
    arena = s.connection.get_buffer(-1).obj
    assert not s.connection.eof_received()
    assert s.arenas.take(1).buffer is arena
    half = s.connection.get_buffer(-1)
    half[:2] = b"\0\0"
    s.connection.buffer_updated(2)
    s.connection.connection_lost(None)
    assert s.arenas.take(1).buffer is half.obj


@pytest.mark.parametrize("split", [1, 2, 3, 7])
def test_frames_in_pieces(split: int) -> None:
    async def main() -> None:
        s = Scene()
        await s.connect()
        data = b"".join(struct.pack(">i", 4) + b"a%03d" % i for i in range(20))
        for start in range(0, len(data), split):
            piece = data[start : start + split]
            room = s.connection.get_buffer(-1)
            room[: len(piece)] = piece
            del room
            s.connection.buffer_updated(len(piece))
        assert s.sent == b"".join(b"%03d" % i for i in range(20))

    asyncio.run(main())
