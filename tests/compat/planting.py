"""A proxy in front of a broker that plants one error in its responses."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from kavka.compat_tests.raw.codec import schemas, stock_codec, wire_client

Values = dict[str, Any]
Change = Callable[[Values], None]
"""Changes a decoded response."""

ADDRESSES = {"Metadata", "FindCoordinator", "DescribeCluster"}
"""Responses that say where brokers are: the proxy takes their place."""

API_VERSIONS = "ApiVersions"
_length = struct.Struct(">i")
_head = struct.Struct(">hhi")


def inside(values: Any, name: str) -> Iterator[Values]:
    """Every part of a response that has a field."""
    if isinstance(values, list):
        for part in values:
            yield from inside(part, name)
    elif isinstance(values, dict):
        if name in values:
            yield values
        for part in values.values():
            yield from inside(part, name)


@dataclass
class Proxy:
    """Passes on all frames; the responses of `api` as `change` makes them."""

    broker: tuple[str, int]
    api: str
    change: Change
    versions_back: int = 0
    """So many versions older than asked for is the form of the changed responses."""
    changed: int = 0
    """How many responses were changed."""
    port: int = 0
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def serve(self, client: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        """One connection of a client."""
        reader, writer = await asyncio.open_connection(*self.broker)
        requests: dict[int, tuple[str, int]] = {}
        tasks = [
            asyncio.ensure_future(self._requests(client, writer, requests)),
            asyncio.ensure_future(self._responses(reader, back, requests)),
        ]
        self._tasks.update(tasks)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            self._tasks.difference_update(tasks)
            writer.close()
            back.close()

    async def _requests(
        self,
        client: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        requests: dict[int, tuple[str, int]],
    ) -> None:
        async for frame in frames(client):
            key, version, correlation_id = _head.unpack_from(frame)
            requests[correlation_id] = (NAMES.get(key, ""), version)
            writer.write(wire_client.framed(frame))
            await writer.drain()

    async def _responses(
        self,
        broker: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        requests: dict[int, tuple[str, int]],
    ) -> None:
        async for frame in frames(broker):
            (correlation_id,) = _length.unpack_from(frame)
            name, version = requests.pop(correlation_id)
            if name == self.api or name in ADDRESSES:
                frame = self._changed(name, version, frame)
            writer.write(wire_client.framed(frame))
            await writer.drain()

    def _changed(self, name: str, version: int, frame: bytes) -> bytes:
        if name == API_VERSIONS and version and _error_code(frame):
            return frame  # in version 0, as the broker does not know the one that was asked
        correlation_id, message = wire_client.decode(name, version, frame)
        values = wire_client.plain(message)
        for part in inside(values, "port"):
            part["host"], part["port"] = "127.0.0.1", self.port
        if name == self.api:
            self.change(values)
            self.changed += 1
            version = max(version - self.versions_back, 0)
        return response(name, version, correlation_id, values)


def _error_code(frame: bytes) -> int:
    code: int = struct.unpack_from(">h", frame, 4)[0]
    return code


NAMES = {module.API.key: module.API.name for module in schemas.api_modules().values()}


async def frames(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Until the peer ends the connection."""
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            (length,) = _length.unpack(await reader.readexactly(4))
            yield await reader.readexactly(length)


def response(name: str, version: int, correlation_id: int, values: Values) -> bytes:
    """A response's frame without its length."""
    described = schemas.schema(f"{name}Response")
    namespace = schemas.as_namespace(described, values)
    body = stock_codec.encode(f"{name}Response", version, namespace)
    flexible = stock_codec.is_flexible(f"{name}Response", version) and name != API_VERSIONS
    return _length.pack(correlation_id) + (b"\0" if flexible else b"") + body


@asynccontextmanager
async def planted(
    broker: tuple[str, int], api: str, change: Change, versions_back: int = 0
) -> AsyncIterator[Proxy]:
    """The proxy, listening."""
    proxy = Proxy(broker, api, change, versions_back)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        for task in list(proxy._tasks):
            task.cancel()
