"""A proxy on the loopback interface, in front of a broker that gives clients its address.

It speaks no TLS and changes no byte: the broker is started with `advertised.listeners` set to the
proxy's address.
"""

from __future__ import annotations

import asyncio
from typing import Any

from support.misbehaviour.link import LATE_S_MAX, Link, Sent, framed, next_frame
from support.misbehaviour.produced import errors_of
from support.misbehaviour.weather import Weather
from support.ports import HOST
from support.threaded_proxy import ThreadedProxy


class Proxy(ThreadedProxy):
    """With the weather of a network."""

    def __init__(self, weather: Weather) -> None:
        super().__init__()
        self.weather = weather
        self.failures: list[str] = []
        """What went wrong inside: then nothing that was seen says anything."""

    async def _main(self) -> None:
        asyncio.get_running_loop().set_exception_handler(self._failed)
        await super()._main()

    def _failed(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.failures.append(repr(context))

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
