"""A proxy before the broker that cuts connections in the middle of a frame."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any, Final, cast

from kavka.compat_tests.broker import Broker
from kavka.compat_tests.errors import NotHere
from kavka.compat_tests.security import required_by
from kavka.seams import Listening, Network
from kavka.tools.admin.cluster_client import addresses_of
from kavka.tools.admin.command import seams
from kavka.tools.tap.capture import Record
from kavka.tools.tap.listeners import Target
from kavka.tools.tap.proxy import Proxy
from kavka.tools.tap.rewriting import BrokerAddress

HOST: Final = "127.0.0.1"


class _Unrecorded:
    """What passes is not kept."""

    def put(self, record: Record) -> None:
        """Forget it."""


class _CutTransport:
    """A connection to the broker that ends behind so many bytes."""

    def __init__(self, transport: Any, left: int) -> None:
        self._transport = transport
        self._left = left

    def write(self, data: bytes) -> None:
        """Pass on what may pass; then the connection is gone."""
        self._transport.write(data[: self._left])
        self._left -= len(data)
        if self._left <= 0:
            self._left = 0
            self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class CuttingNetwork:
    """Connections to the broker end behind as many bytes of requests as `cuts` says, one number a
    connection; when there is none left, they stay."""

    def __init__(self, network: Network, cuts: Iterator[int]) -> None:
        self._network = network
        self._cuts = cuts
        self.made = 0
        """How many connections have been given an end."""

    async def bind(self, host: str, port: int) -> Listening:
        return await self._network.bind(host, port)

    async def resolve(self, host: str) -> str:
        return await self._network.resolve(host)

    def host_name(self) -> str:
        return self._network.host_name()

    async def connect(
        self, host: str, port: int, factory: Callable[[], asyncio.BaseProtocol]
    ) -> asyncio.BaseTransport:
        return await self._network.connect(host, port, lambda: self._ending(factory()))

    def _ending(self, protocol: asyncio.BaseProtocol) -> asyncio.BaseProtocol:
        left = next(self._cuts, None)
        if left is not None:
            self.made += 1
            connected = protocol.connection_made

            def connection_made(transport: Any) -> None:
                connected(cast(asyncio.BaseTransport, _CutTransport(transport, left)))

            protocol.connection_made = connection_made  # type: ignore[method-assign]
        return protocol


@asynccontextmanager
async def cut(broker: Broker, cuts: list[int]) -> AsyncIterator[tuple[str, CuttingNetwork]]:
    """The address of a proxy, through which clients reach all brokers. NotHere."""
    if required_by(broker.properties).tls:
        raise NotHere("the suite sees where a frame ends only without TLS")
    async with seams() as opened:
        network = CuttingNetwork(opened.network, iter(cuts))
        bound: list[int] = []

        def note(target: Target, port: int) -> None:
            bound.append(port)

        proxy = Proxy(network, opened.tasks, _Unrecorded(), _now_us, (HOST, 0), note)
        brokers = [
            BrokerAddress(node.node_id, node.host, node.port) for node in broker.admin.brokers
        ]
        try:
            await proxy.start(addresses_of(broker.bootstrap), brokers)
            yield f"{HOST}:{bound[0]}", network
        finally:
            proxy.close()


def _now_us() -> int:
    return time.time_ns() // 1000
