"""A proxy between a session and a real ZooKeeper that loses connections, at any message."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress


class ZooKeeperProxy:
    """Passes messages on; with the chance `cut_share` it ends the connection instead, before a
    request is passed on or before a response is."""

    def __init__(self, port: int, chance: random.Random) -> None:
        self.cut_share = 0.0
        self.cuts = 0
        self.is_dark = False
        """Whether new connections are closed at once."""
        self._target = port
        self._chance = chance
        self._open: set[asyncio.StreamWriter] = set()

    async def start(self) -> int:
        """Listen; the port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def stop(self) -> None:
        self.cut()
        self._server.close()
        await self._server.wait_closed()

    def cut(self) -> None:
        """End all connections."""
        for writer in list(self._open):
            writer.transport.abort()
        self._open.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_dark:
            writer.transport.abort()
            return
        self._open.add(writer)
        their_reader, their_writer = await asyncio.open_connection("127.0.0.1", self._target)
        both = (writer, their_writer)
        self._open.add(their_writer)

        def end() -> None:
            for side in both:
                self._open.discard(side)
                side.transport.abort()

        if writer.transport.is_closing():  # it was cut before there was another half
            end()
            return
        ways = self._pass_on(reader, their_writer, end), self._pass_on(their_reader, writer, end)
        with suppress(asyncio.CancelledError):  # the test has ended
            await asyncio.gather(*ways)

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, end: Callable[[], None]
    ) -> None:
        is_first = True  # of the handshake, which always succeeds
        try:
            while True:
                head = await reader.readexactly(4)
                body = await reader.readexactly(int.from_bytes(head))
                if not is_first and self._chance.random() < self.cut_share:
                    self.cuts += 1
                    return
                is_first = False
                writer.write(head + body)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            end()
