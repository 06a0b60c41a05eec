"""A proxy in front of a broker that loses requests of some APIs: they are never answered."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from contextlib import suppress
from typing import Self

from support.ports import HOST

START_WITHIN_S = 30.0


class DroppingProxy:
    """Runs in a thread of its own, from `with` on."""

    def __init__(self, drops: dict[int, int]) -> None:
        """How many requests are lost, by key of the API: the first ones."""
        self.port = 0
        self.broker_port = 0
        """Where to; to be set before a client connects."""
        self.dropped: Counter[int] = Counter()
        self._drops = drops
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), daemon=True)

    @property
    def address(self) -> str:
        """As clients take it."""
        return f"{HOST}:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(START_WITHIN_S), "the proxy does not start"
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(START_WITHIN_S)

    async def _main(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        async with await asyncio.start_server(self._accept, HOST, 0) as server:
            self.port = server.sockets[0].getsockname()[1]
            self._started.set()
            await self._stopping.wait()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.CancelledError):  # no broker; the test has ended
            from_broker, to_broker = await asyncio.open_connection(HOST, self.broker_port)
            await asyncio.gather(
                self._pass_requests(reader, to_broker), _pass_on(from_broker, writer)
            )

    async def _pass_requests(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readexactly(4)
                body = await reader.readexactly(int.from_bytes(head))
                key = int.from_bytes(body[:2])
                if self.dropped[key] < self._drops.get(key, 0):
                    self.dropped[key] += 1
                    continue
                writer.write(head + body)
                await writer.drain()
        writer.close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while part := await reader.read(1 << 16):
            writer.write(part)
            await writer.drain()
    writer.close()
