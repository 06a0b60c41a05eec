"""The network of a cluster: proxies in front of brokers and of ZooKeeper that hold bytes back.

Clients and brokers reach brokers and ZooKeeper through proxies only. What is cut is a direction
between two of them: bytes that way wait. When it heals they arrive late, or the connections are
reset, as after a network that lost the packets for too long. Clients are two halves, by their ids.
"""

from __future__ import annotations

import asyncio
import random
import socket
import struct
import threading
import zlib
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Self, TypeVar

from support.ports import HOST, Ports

T = TypeVar("T")
Way = tuple[str, str]
"""From whom to whom."""

Carry = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]
"""Carries one connection that was accepted."""

Take = Callable[[asyncio.StreamReader], Awaitable[bytes]]
"""Reads what is passed on at once."""

ZOOKEEPER = "zookeeper"
CLIENTS = ("clients", "other clients")
CHUNK_BYTES = 1 << 16
LISTENS_POLL_S = 0.02
START_WITHIN_S = 30.0
FRAME_BYTES_MAX = 1 << 24
LATE_S_MAX = 2.0
"""How late a request arrives that is late, or comes again."""

STRAY_SHARE = 0.2
"""Of the requests that may be late, if any are; half of these come again."""

PRODUCE, END_TXN = 0, 26
OWN_EPOCH = 5
"""From this version of EndTxn on each transaction has an epoch of its own (KIP-890). Of an earlier
one that comes again no broker knows which transaction it is to end."""
AT_ONCE = struct.pack("ii", 1, 0)
"""SO_LINGER of a connection that is reset when it is closed."""

_length = struct.Struct(">i")


class Session:
    """Of a broker with ZooKeeper, as its last handshake said."""

    def __init__(self, session_id: int, password: bytes) -> None:
        self.session_id = session_id
        self.password = password


class Link:
    """One connection that is carried."""

    def __init__(self, way: Way, far: asyncio.StreamWriter) -> None:
        self.way = way
        """From who has opened it."""
        self.far = far
        """Its other half."""
        self.torn: set[Way] = set()
        """Ways on which it ends within the next bytes."""

    @property
    def ways(self) -> set[Way]:
        """Both."""
        return {self.way, self.way[::-1]}


class Network:
    """All proxies, in a thread with a loop of its own, from `with` on."""

    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}
        """By broker."""
        self.failures: list[str] = []
        """What went wrong inside: then nothing that was seen says anything."""
        self._ports = Ports()
        self.strays = 0
        """How many requests were late, or came again."""
        self._strays: dict[Way, random.Random] = {}
        """Where requests are late, and who says which."""
        self._straying = 0
        self._cut: set[Way] = set()
        self._delays: dict[Way, float] = {}
        self._links: dict[asyncio.Task[None], Link] = {}
        """What carries each connection."""
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
        return self._mirrored(port, lambda r, w: self._to_broker(name, port, r, w))

    def to_clients(self, name: str, port: int) -> int:
        """A port for clients to reach a broker at. It is open while the broker listens."""
        return self._mirrored(port, lambda r, w: self._from_client(name, port, r, w))

    def _mirrored(self, port: int, carry: Carry) -> int:
        own = self._ports.take()
        self._call(self._spawned(self._mirror(own, port, carry)))
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

    def tear(self, *ways: Way) -> None:
        """Each connection that is open ends in the middle of what it passes on next that way."""

        def tear() -> None:
            for link in self._links.values():
                link.torn |= link.ways & set(ways)

        self._call(self._change(tear))

    def half_open(self, *ways: Way) -> None:
        """Nothing more arrives that way or back, and brokers have lost these connections; who has
        opened them learns nothing until it heals."""

        def part() -> None:
            for way in ways:
                self._cut |= {way, way[::-1]}
            for link in self._links.values():
                if link.way in ways:
                    _reset(link.far)

        self._call(self._change(part))

    def stray(self, chance: random.Random, *ways: Way) -> None:
        """Requests of clients that change something arrive late on other connections: instead of in
        time, and then the client loses its own connection, or once more."""
        self._call(self._change(lambda: self._strays.update(dict.fromkeys(ways, chance))))

    @property
    def has_strays(self) -> bool:
        """Whether requests are under way that should have arrived."""
        return self._straying > 0

    def heal(self, *, late: bool = True) -> None:
        """All is well. What waited arrives late, or its connections are reset."""

        def heal() -> None:
            if not late:
                for task, link in self._links.items():
                    if link.ways & self._cut:
                        task.cancel()
            self._cut.clear()
            self._delays.clear()
            self._strays.clear()

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
        self._links.pop(task, None)
        if not task.cancelled() and task.exception() is not None:
            self.failures.append(repr(task.exception()))

    async def _listen(self, port: int, carry: Carry) -> asyncio.Server:
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

    async def _mirror(self, own: int, port: int, carry: Carry) -> None:
        """Listen while the broker does: one that has died refuses connections."""
        while True:
            try:
                reader, probe = await asyncio.open_connection(HOST, port)
            except ConnectionError:
                await asyncio.sleep(LISTENS_POLL_S)
                continue
            server = await self._listen(own, carry)
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

    async def _from_client(
        self, name: str, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        first = await _frame(reader)
        way = (half_of(_client_id(first)), name)
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
        link = self._links[task] = Link(way, far[1])
        take = _frame_or_end if way[0] in CLIENTS else _some
        pumps = [
            asyncio.ensure_future(self._pump(link, way, first, near[0], far[1], take)),
            asyncio.ensure_future(self._pump(link, way[::-1], b"", far[0], near[1], _some)),
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
        self,
        link: Link,
        way: Way,
        data: bytes,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        take: Take,
    ) -> None:
        """Pass bytes on; an end, too, does not arrive where nothing does."""
        if way[0] == ZOOKEEPER:
            data = await _frame(reader)
            self._note_session(way[1], data)
        while True:
            if data:
                await self._until_open(way)
                if way in self._strays and self._has_strayed(way, data, writer):
                    return
                is_torn = way in link.torn
                writer.write(data[: len(data) // 2] if is_torn else data)
                await writer.drain()
                if is_torn:
                    return
            data = await take(reader)
            if not data:
                await self._until_open(way)
                return

    async def _until_open(self, way: Way) -> None:
        while way in self._cut:
            await self._changed.wait()
        delay_s = self._delays.get(way)
        if delay_s:
            await asyncio.sleep(delay_s)

    def _has_strayed(self, way: Way, frame: bytes, writer: asyncio.StreamWriter) -> bool:
        """Whether a request is late. It may come again, too."""
        chance = self._strays[way]
        if not _may_stray(frame) or chance.random() >= STRAY_SHARE:
            return False
        port: int = writer.get_extra_info("peername")[1]
        self._straying += 1
        self._spawn(self._arrive_late(port, frame, chance.uniform(0, LATE_S_MAX)))
        return chance.random() < 0.5

    async def _arrive_late(self, port: int, frame: bytes, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        try:
            reader, writer = await asyncio.open_connection(HOST, port)
            writer.write(frame)
            await _frame(reader)
            self.strays += 1
            writer.close()
        except (ConnectionError, asyncio.IncompleteReadError):
            return  # the broker is gone
        finally:
            self._straying -= 1

    def _note_session(self, broker: str, frame: bytes) -> None:
        """A ConnectResponse: version, timeout, session id, password."""
        session_id, size = struct.unpack_from(">qi", frame, 12)
        if session_id:
            self.sessions[broker] = Session(session_id, frame[24 : 24 + size])


def _reset(writer: asyncio.StreamWriter) -> None:
    """End a connection in such a way that the other side sees a failure."""
    end: socket.socket = writer.get_extra_info("socket")
    if end.fileno() < 0:
        return  # it has ended already
    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
    writer.transport.abort()


async def _frame(reader: asyncio.StreamReader) -> bytes:
    """The next frame, with its length in front."""
    head = await reader.readexactly(_length.size)
    (size,) = _length.unpack(head)
    if not 0 <= size <= FRAME_BYTES_MAX:
        raise ConnectionError("not a frame")
    return head + await reader.readexactly(size)


async def _some(reader: asyncio.StreamReader) -> bytes:
    """What comes next; nothing at its end."""
    return await reader.read(CHUNK_BYTES)


async def _frame_or_end(reader: asyncio.StreamReader) -> bytes:
    """The next frame, or what there is of it when the other side ends."""
    try:
        return await _frame(reader)
    except asyncio.IncompleteReadError as ended:
        return ended.partial


def _may_stray(frame: bytes) -> bool:
    """Whether a broker has to recognise this request when it comes again."""
    key: int
    version: int
    key, version = struct.unpack_from(">hh", frame, 4)
    return key == PRODUCE or (key == END_TXN and version >= OWN_EPOCH)


def _client_id(frame: bytes) -> str:
    """Who asks: brokers name themselves so in the header of each request. Empty if it has none."""
    (size,) = struct.unpack_from(">h", frame, 12)
    return frame[14 : 14 + max(size, 0)].decode()


def half_of(client_id: str) -> str:
    """Which half of the clients one belongs to."""
    return CLIENTS[zlib.crc32(client_id.encode()) % len(CLIENTS)]
