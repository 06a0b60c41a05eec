"""A proxy on the loopback interface, in front of a broker that gives clients its address.

It speaks no TLS and changes no byte: the broker is started with `advertised.listeners` set to the
proxy's address.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, Self

from support.misbehaviour.link import LATE_S_MAX, Link, Sent, framed, next_frame
from support.misbehaviour.produced import errors_of
from support.misbehaviour.weather import Weather
from support.ports import HOST

START_WITHIN_S = 30.0


class Proxy:
    """Runs in a thread of its own, from `with` on."""

    def __init__(self, weather: Weather) -> None:
        self.weather = weather
        self.port = 0
        self.broker_port = 0
        """Where to; to be set before a client connects."""
        self.failures: list[str] = []
        """What went wrong inside: then nothing that was seen says anything."""
        self._tasks: set[asyncio.Task[None]] = set()
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
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(self._failed)
        self._stopping = asyncio.Event()
        server = await asyncio.start_server(self._accept, HOST, 0)
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        await self._stopping.wait()
        server.close()

    def _failed(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.failures.append(repr(context))

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._spawn(self._carry(reader, writer))

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            from_broker, to_broker = await asyncio.open_connection(HOST, self.broker_port)
        except OSError:  # there is none at the moment
            writer.close()
            return
        await Link(self.weather, writer, to_broker, self._send_later).run(reader, from_broker)

    def _send_later(self, sent: Sent) -> None:
        """Send a copy on a connection of its own, some time later."""
        self._spawn(self._send_copy(sent, self.weather.chance.uniform(0, LATE_S_MAX)))

    async def _send_copy(self, sent: Sent, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        try:
            reader, writer = await asyncio.open_connection(HOST, self.broker_port)
            writer.write(framed(sent.frame))
            answer = await next_frame(reader)
            writer.close()
        except OSError:  # the broker is gone
            answer = None
        self.weather.ends(sent.batches)
        if answer is not None:
            self.weather.refusals.update(errors_of(sent.frame, answer))
