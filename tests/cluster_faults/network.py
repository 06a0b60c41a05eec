"""The network of a cluster: proxies in front of brokers and of ZooKeeper that hold bytes back.

Clients reach brokers directly; brokers reach each other and ZooKeeper through proxies only. What
is cut is a direction between two of them: bytes that way wait. When it heals they arrive late, or
the connections are reset, as after a network that lost the packets for too long.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Self, TypeVar

from support.ports import HOST, Ports

T = TypeVar("T")
Way = tuple[str, str]
"""From whom to whom."""

ZOOKEEPER = "zookeeper"
CHUNK_BYTES = 1 << 16
LISTENS_POLL_S = 0.02
START_WITHIN_S = 30.0
FRAME_BYTES_MAX = 1 << 24
AT_ONCE = struct.pack("ii", 1, 0)
"""SO_LINGER of a connection that is reset when it is closed."""

_length = struct.Struct(">i")


class Session:
    """Of a broker with ZooKeeper, as its last handshake said."""

    def __init__(self, session_id: int, password: bytes) -> None:
        self.session_id = session_id
        self.password = password


class Network:
    """All proxies, in a thread with a loop of its own, from `with` on."""

    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}
        """By broker."""
        self.failures: list[str] = []
        """What went wrong inside: then nothing that was seen says anything."""
        self._ports = Ports()
        self._cut: set[Way] = set()
        self._delays: dict[Way, float] = {}
        self._ends: dict[asyncio.Task[None], set[str]] = {}
        """What carries a connection, and between whom."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._started = threading.Event()

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(START_WITHIN_S), "the network does not start"
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(START_WITHIN_S)
        self._ports.release()

    def to_broker(self, name: str, port: int) -> int:
        """A port for other brokers to reach a broker at. It is open while the broker listens."""
        own = self._ports.take()
        self._call(self._spawned(self._mirror(name, own, port)))
        return own

    def to_zookeeper(self, broker: str, port: int) -> int:
        """A port for one broker to reach ZooKeeper at."""
        own = self._ports.take()
        self._call(self._listen(own, lambda r, w: self._to_zookeeper(broker, port, r, w)))
        return own

    def cut(self, *ways: Way) -> None:
        """Nothing more arrives that way."""
        self._call(self._change(lambda: self._cut.update(ways)))

    def slow(self, delay_s: float, *ways: Way) -> None:
        """All arrives later that way."""
        self._call(self._change(lambda: self._delays.update(dict.fromkeys(ways, delay_s))))

    def heal(self, *, late: bool = True) -> None:
        """All is well. What waited arrives late, or its connections are reset."""
        ended = {name for way in self._cut for name in way}

        def heal() -> None:
            if not late:
                for task, ends in self._ends.items():
                    if ends <= ended:
                        task.cancel()
            self._cut.clear()
            self._delays.clear()

        self._call(self._change(heal))

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        result: Future[T] = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        return result.result(START_WITHIN_S)

    def _run(self) -> None:
        asyncio.run(self._main())

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(lambda _, context: self.failures.append(repr(context)))
        self._stopping = asyncio.Event()
        self._changed = asyncio.Event()
        self._started.set()
        await self._stopping.wait()

    async def _change(self, change: Callable[[], object]) -> None:
        change()
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _spawned(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self._spawn(coroutine)

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._ends.pop(task, None)
        if not task.cancelled() and task.exception() is not None:
            self.failures.append(repr(task.exception()))

    async def _listen(
        self,
        port: int,
        carry: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]],
    ) -> asyncio.Server:
        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._spawn(self._closing(carry(reader, writer), writer))

        return await asyncio.start_server(accept, HOST, port, reuse_address=True)

    async def _closing(
        self, carrying: Coroutine[Any, Any, None], writer: asyncio.StreamWriter
    ) -> None:
        try:
            await carrying
        except (ConnectionError, asyncio.IncompleteReadError):
            writer.transport.abort()
        except asyncio.CancelledError:
            _reset(writer)
            raise
        finally:
            writer.close()

    async def _mirror(self, name: str, own: int, port: int) -> None:
        """Listen while the broker does: one that has died refuses connections."""
        while True:
            try:
                reader, probe = await asyncio.open_connection(HOST, port)
            except ConnectionError:
                await asyncio.sleep(LISTENS_POLL_S)
                continue
            server = await self._listen(own, lambda r, w: self._to_broker(name, port, r, w))
            with suppress(ConnectionError):
                await reader.read()  # nothing comes before its end
            server.close()
            probe.close()

    async def _to_broker(
        self, name: str, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        first = await _frame(reader)
        way = (_client_id(first), name)
        await self._carry(way, first, (reader, writer), await asyncio.open_connection(HOST, port))

    async def _to_zookeeper(
        self, broker: str, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        first = await _frame(reader)
        way = (broker, ZOOKEEPER)
        await self._carry(way, first, (reader, writer), await asyncio.open_connection(HOST, port))

    async def _carry(
        self,
        way: Way,
        first: bytes,
        near: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        far: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        """Both directions, until either side ends."""
        task = asyncio.current_task()
        assert task is not None
        self._ends[task] = set(way)
        back = (way[1], way[0])
        pumps = [
            asyncio.ensure_future(self._pump(way, first, near[0], far[1])),
            asyncio.ensure_future(self._pump(back, b"", far[0], near[1])),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            if task.cancelling():
                _reset(far[1])
            far[1].close()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _pump(
        self, way: Way, data: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Pass bytes on; an end, too, does not arrive where nothing does."""
        if way[0] == ZOOKEEPER:
            data = await _frame(reader)
            self._note_session(way[1], data)
        while True:
            if data:
                await self._until_open(way)
                writer.write(data)
                await writer.drain()
            data = await reader.read(CHUNK_BYTES)
            if not data:
                await self._until_open(way)
                return

    async def _until_open(self, way: Way) -> None:
        while way in self._cut:
            await self._changed.wait()
        delay_s = self._delays.get(way)
        if delay_s:
            await asyncio.sleep(delay_s)

    def _note_session(self, broker: str, frame: bytes) -> None:
        """A ConnectResponse: version, timeout, session id, password."""
        session_id, size = struct.unpack_from(">qi", frame, 12)
        if session_id:
            self.sessions[broker] = Session(session_id, frame[24 : 24 + size])


def _reset(writer: asyncio.StreamWriter) -> None:
    """End a connection in such a way that the other side is told of a failure."""
    end: socket.socket = writer.get_extra_info("socket")
    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
    writer.transport.abort()


async def _frame(reader: asyncio.StreamReader) -> bytes:
    """The next frame, with its length in front."""
    head = await reader.readexactly(_length.size)
    (size,) = _length.unpack(head)
    if not 0 <= size <= FRAME_BYTES_MAX:
        raise ConnectionError("not a frame")
    return head + await reader.readexactly(size)


def _client_id(frame: bytes) -> str:
    """Who asks: brokers name themselves so in the header of each request."""
    (size,) = struct.unpack_from(">h", frame, 12)
    return frame[14 : 14 + size].decode()
