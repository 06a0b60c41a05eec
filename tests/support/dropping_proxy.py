"""A proxy in front of a broker that loses requests of some APIs: they are never answered, or it
answers them itself."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any

from kavka.compat_tests.raw.codec import wire_client
from support.ports import HOST
from support.scripted_broker import read_request, response_frame
from support.threaded_proxy import ThreadedProxy


class DroppingProxy(ThreadedProxy):
    """Loses the first requests of some APIs."""

    def __init__(
        self,
        drops: Mapping[str, int],
        answers: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
    ) -> None:
        """How many requests are lost, by API: the first ones; and what is answered to them."""
        super().__init__()
        self.dropped: defaultdict[str, list[float]] = defaultdict(list)
        """When requests were lost, by API: seconds of `time.monotonic`."""
        self._names = {wire_client.api_key(name): name for name in drops}
        self._drops, self._answers = drops, answers

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):  # there is no broker at the moment
            from_broker, to_broker = await asyncio.open_connection(HOST, self.broker_port)
            await asyncio.gather(
                self._pass_requests(reader, writer, to_broker), _pass_on(from_broker, writer)
            )

    async def _pass_requests(
        self,
        reader: asyncio.StreamReader,
        to_client: asyncio.StreamWriter,
        to_broker: asyncio.StreamWriter,
    ) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readexactly(4)
                body = await reader.readexactly(int.from_bytes(head))
                name = self._names.get(int.from_bytes(body[:2]), "")
                if name and len(self.dropped[name]) < self._drops[name]:
                    self.dropped[name].append(time.monotonic())
                    if name in self._answers:
                        request = read_request(name, body)
                        answer = response_frame(request, **self._answers[name])
                        to_client.write(wire_client.framed(answer))
                    continue
                to_broker.write(head + body)
                await to_broker.drain()
        to_broker.close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while part := await reader.read(1 << 16):
            writer.write(part)
            await writer.drain()
    writer.close()
