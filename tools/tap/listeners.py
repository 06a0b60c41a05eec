"""The ports that clients connect to: one that leads to the bootstrap servers, one for each broker.

With the port P for the first, the brokers get P+1, P+2 and so on, in the order in which they are
found; where one is taken, the next. With port 0 the system chooses them all.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from kavka.seams import Listening, Network
from kavka.tools.tap.rewriting import BrokerAddress

PORT_MAX: Final = 65535
WILDCARDS: Final = ("", "0.0.0.0", "::")

Address = tuple[str, int]


class Target(NamedTuple):
    """Where a port leads to."""

    addresses: Sequence[Address]
    """Tried one after another."""
    node: int | None


class Listeners:
    """Opens ports, and knows them."""

    def __init__(
        self,
        network: Network,
        listen: Address,
        factory_for: Callable[[Target], Callable[[str], asyncio.BaseProtocol]],
        on_bound: Callable[[Target, int], object],
    ) -> None:
        """`factory_for`: makes the protocols of a target's connections; `on_bound` is called with
        each new port."""
        self._network = network
        self._host, self._port = listen
        self._factory_for = factory_for
        self._on_bound = on_bound
        self._open: list[Listening] = []
        self._by_address: dict[Address, int] = {}
        self._opening = asyncio.Lock()
        self._next_port = self._port + 1 if self._port else 0

    async def start(self, bootstrap: Sequence[Address]) -> None:
        """Open the first port. OSError if it can't be."""
        first = await self._listen(self._port, Target(bootstrap, None))
        if len(bootstrap) == 1:  # of several it leads to any
            self._by_address[bootstrap[0]] = first

    def knows(self, broker: BrokerAddress) -> bool:
        """Whether a broker has a port."""
        return (broker.host, broker.port) in self._by_address

    async def add(self, broker: BrokerAddress) -> None:
        """Open a port for a broker. OSError if there is none left."""
        address = (broker.host, broker.port)
        async with self._opening:
            if address not in self._by_address:
                port = await self._listen_somewhere(Target([address], broker.node))
                self._by_address[address] = port

    def translated(self, broker: BrokerAddress, host: str) -> Address:
        """The address for a client that has connected to `host`."""
        mine = host if self._host in WILDCARDS else self._host
        return mine, self._by_address[broker.host, broker.port]

    def close(self) -> None:
        """Close all ports; open connections stay."""
        for server in self._open:
            server.close()

    async def _listen_somewhere(self, target: Target) -> int:
        while True:
            port = self._next_port
            if port > PORT_MAX:
                raise OSError(errno.EADDRNOTAVAIL, "no port is left")
            if port:
                self._next_port += 1
            try:
                return await self._listen(port, target)
            except OSError as failure:
                if not port or failure.errno not in (errno.EADDRINUSE, errno.EACCES):
                    raise

    async def _listen(self, port: int, target: Target) -> int:
        listening = await self._network.bind(self._host, port)
        self._open.append(listening)
        await listening.accept(self._factory_for(target))
        self._on_bound(target, listening.port)
        return listening.port
