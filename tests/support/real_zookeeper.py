"""Sessions of Kavka's with a real ZooKeeper, directly or through a proxy that cuts them."""

from __future__ import annotations

import asyncio
import bisect
import random
from typing import Any

from kavka.server.config.zookeeper_servers import parse_connect
from kavka.server.coordination.zookeeper import ZooKeeperSession, open_session
from kavka.server.runtime.clock import SystemClock
from kavka.server.runtime.sockets import SYSTEM_SIZED, SocketNetwork
from kavka.server.runtime.tasks import LoopTasks
from kavka.zktree.api import Stat
from support.coordination_machine import CoordinationMachine

TIMEOUT_S = 30.0
"""Of a session that is not to end, on a machine whose processes may pause."""
WITHIN_S = 60.0
IN_FLIGHT_MAX = 10


async def open_at(
    connect: str, *, timeout_s: float = TIMEOUT_S, seed: int = 1, within_s: float = WITHIN_S
) -> ZooKeeperSession:
    """A session, as a broker with this `zookeeper.connect` has it."""
    loop = asyncio.get_running_loop()
    return await open_session(
        parse_connect(connect),
        timeout_s,
        IN_FLIGHT_MAX,
        network=SocketNetwork(loop, backlog=1, receive_bytes=SYSTEM_SIZED, send_bytes=SYSTEM_SIZED),
        clock=SystemClock(),
        tasks=LoopTasks(loop),
        random=random.Random(seed),
        within_s=within_s,
    )


class RealMachine(CoordinationMachine):
    """A real ZooKeeper for scenario files, each below a root of its own.

    ZooKeeper numbers failed writes too, and takes its times from a clock that goes.
    """

    session: ZooKeeperSession

    def __init__(self, connect: str) -> None:
        super().__init__()
        self._connect = connect
        self._zxids: list[int] = []
        """Of the writes that had an effect."""

    async def start(self) -> None:
        self.session = await open_at(self._connect)
        for name in ("create", "set", "delete", "multi"):
            setattr(self.session, name, self._noting(getattr(self.session, name)))
        await self.begin()

    def _noting(self, write: Any) -> Any:
        def note(result: asyncio.Future[Any]) -> None:
            if not result.cancelled() and result.exception() is None:
                self._zxids.append(self.session.last_zxid)

        def noted(*args: Any, **options: Any) -> asyncio.Future[Any]:
            result: asyncio.Future[Any] = write(*args, **options)
            result.add_done_callback(note)
            return result

        return noted

    def number(self, zxid: int) -> int:
        return bisect.bisect_right(self._zxids, zxid)

    def _stat(self, stat: Stat) -> str:
        return super()._stat(stat._replace(mtime=stat.ctime))

    async def request(self, name: str, answer: Any, text: Any = str) -> None:
        await asyncio.wait([asyncio.ensure_future(answer)])
        await super().request(name, answer, text)

    async def settle(self) -> None:
        """What the server had to say before this has come."""
        await self.session.exists("/")
        await super().settle()

    async def finish(self) -> None:
        await self.session.close()
