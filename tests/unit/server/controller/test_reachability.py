"""A broker counts as gone when it refuses connections, not when it only can't be reached."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from kavka.client.errors import ConnectFailed, Disconnected
from kavka.server.controller.reachability import RETRY_S, Reachability
from support.virtual import VirtualClock, VirtualTasks, run_until_idle

REFUSED = ConnectFailed("refused", refused=True)
SILENT = ConnectFailed("no answer", refused=False)


class Connection:
    def __init__(self) -> None:
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Client:
    """`BrokerClient` whose attempts end as the test says."""

    address = "b:1"

    def __init__(self, *outcomes: Any) -> None:
        self.outcomes = deque(outcomes)

    async def connection(self) -> Any:
        outcome = self.outcomes.popleft() if self.outcomes else SILENT
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


async def test_refused_and_accepted_again() -> None:
    first, second = Connection(), Connection()
    client: Any = Client(SILENT, first, SILENT, Disconnected("x"), REFUSED, REFUSED, SILENT, second)
    tasks, heard = VirtualTasks(VirtualClock()), list[bool]()
    watch = Reachability(client, heard.append, tasks)
    await run_until_idle()
    await tasks.advance(1000 * RETRY_S)
    assert not heard
    first.lost.set_result(None)
    await run_until_idle()
    await tasks.advance(1000 * RETRY_S)
    assert not heard, "it may only be cut off"
    await tasks.advance(1000 * RETRY_S)
    assert heard == [False]
    for _ in range(3):
        await tasks.advance(1000 * RETRY_S)
    assert heard == [False, True]
    assert not client.outcomes
    watch.close()
    client.outcomes.append(REFUSED)
    second.lost.set_result(None)
    await tasks.advance(10_000 * RETRY_S)
    assert heard == [False, True], "it was closed"


async def test_the_first_attempt_tells() -> None:
    """A broker listens before it registers."""
    client: Any = Client(REFUSED)
    tasks, heard = VirtualTasks(VirtualClock()), list[bool]()
    watch = Reachability(client, heard.append, tasks)
    await run_until_idle()
    assert heard == [False]
    assert watch.known.done()
