"""A network between brokers of one process that can be cut."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from weakref import WeakSet

from kavka.seams import Listening, Network


class Cuts:
    """Which brokers can't reach which others."""

    def __init__(self) -> None:
        self._cut: set[frozenset[int]] = set()
        self._healed = asyncio.Event()
        self.ports: dict[int, int] = {}
        """The broker of each port."""
        self._connections: dict[frozenset[int], WeakSet[asyncio.BaseTransport]] = {}

    def separate(self, broker_id: int, others: Iterable[int]) -> None:
        """Cut a broker off from others: their connections break, and new ones get no answer."""
        self._healed.clear()
        for other in others:
            pair = frozenset((broker_id, other))
            self._cut.add(pair)
            for transport in self._connections.pop(pair, ()):
                transport.abort()  # type: ignore[attr-defined]  # it is a socket's

    def heal(self) -> None:
        """All reach each other again."""
        self._cut.clear()
        self._healed.set()

    async def until_reachable(self, pair: frozenset[int]) -> None:
        """Wait as long as these two are separate."""
        while pair in self._cut:
            await self._healed.wait()

    def connected(self, pair: frozenset[int], transport: asyncio.BaseTransport) -> None:
        """A connection between two brokers, to be broken by a cut."""
        self._connections.setdefault(pair, WeakSet()).add(transport)
        if pair in self._cut:
            transport.abort()  # type: ignore[attr-defined]


class CutNetwork:
    """`kavka.seams.Network` of one broker: its connections to others go through `cuts`."""

    def __init__(self, network: Network, broker_id: int, cuts: Cuts) -> None:
        self._network = network
        self._broker_id = broker_id
        self._cuts = cuts

    async def bind(self, host: str, port: int) -> Listening:
        listening = await self._network.bind(host, port)
        self._cuts.ports[listening.port] = self._broker_id
        return listening

    async def connect(
        self, host: str, port: int, factory: Callable[[], asyncio.BaseProtocol]
    ) -> asyncio.BaseTransport:
        other = self._cuts.ports.get(port)
        if other is None:
            return await self._network.connect(host, port, factory)
        pair = frozenset((self._broker_id, other))
        await self._cuts.until_reachable(pair)
        transport = await self._network.connect(host, port, factory)
        self._cuts.connected(pair, transport)
        return transport

    async def resolve(self, host: str) -> str:
        return await self._network.resolve(host)

    def host_name(self) -> str:
        return self._network.host_name()
