"""Proxies on the loopback interface, in front of a broker that gives clients their address."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Self

from support.broker import Kavka
from support.ports import HOST

START_WITHIN_S = 30.0


class ThreadedProxy(ABC):
    """Runs in a thread of its own, from `with` on."""

    read_limit_bytes: ClassVar[int] = 65_536
    """How much of a connection is read ahead: twice that."""

    def __init__(self) -> None:
        self.port = 0
        self.broker_port = 0
        """Where to; to be set before a client connects."""
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

    @abstractmethod
    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection of a client."""

    async def _main(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._accept, HOST, 0, limit=self.read_limit_bytes)
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        await self._stopping.wait()
        server.close()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._spawn(self._carry(reader, writer))

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class KavkaBehindProxy(Kavka):
    """A broker that clients reach through a proxy, which is running."""

    def __init__(
        self, home: Path, proxy: ThreadedProxy, settings: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        super().__init__(home, {**settings, "advertised.listeners": f"PLAINTEXT://{proxy.address}"})
        self._proxy = proxy

    def prepare(self) -> None:
        super().prepare()
        self._proxy.broker_port = self.port  # it says the proxy's itself, once it is ready
