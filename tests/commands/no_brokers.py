"""Ports at which something else listens than a broker without TLS."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from support.ports import HOST

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextmanager
def listening(handler: Handler, secured_by: ssl.SSLContext | None = None) -> Iterator[int]:
    """A port whose connections are handled so, on a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def start() -> asyncio.Server:
        return await asyncio.start_server(handler, HOST, 0, ssl=secured_by)

    async def stop() -> None:
        server.close()
        tasks = [other for other in asyncio.all_tasks() if other is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    server = asyncio.run_coroutine_threadsafe(start(), loop).result()
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        asyncio.run_coroutine_threadsafe(stop(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    """Takes all, and says nothing."""
    while await reader.read(1000):
        pass


async def closing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Hangs up at the first bytes."""
    await reader.read(1)
    writer.close()


async def garbage(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Greets as a mail server."""
    writer.write(b"220 mail.test ESMTP\r\n")
    await writer.drain()
    writer.close()


async def ssh(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Greets as SSH."""
    writer.write(b"SSH-2.0-OpenSSH_9.6\r\n")
    await writer.drain()
    writer.close()


async def http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Waits for the end of a request's first line, as web servers do."""
    await reader.readline()
    writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
    await writer.drain()
    writer.close()


def passing_on_to(port: int) -> Handler:
    """What comes goes on to a broker, and back."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
        except OSError:  # one side has gone: so does the other
            writer.transport.abort()
        writer.close()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection(HOST, port)
        await asyncio.gather(pump(reader, there[1]), pump(there[0], writer))

    return handle
