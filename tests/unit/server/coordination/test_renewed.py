"""A session that has expired is followed by another one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from kavka.client.errors import ConnectFailed
from kavka.server.coordination.renewed import RETRY_S, RenewedSession
from kavka.zktree.api import SessionEvent
from support.virtual import VirtualClock, VirtualTasks, run_until_idle


class Session:
    """One that does what the test says."""

    def __init__(self, session_id: int) -> None:
        self.session_id = session_id
        self.last_zxid = 10 * session_id
        self.state = "open"
        self._listeners: list[Callable[[SessionEvent], object]] = []

    def on_session(self, callback: Callable[[SessionEvent], object]) -> None:
        self._listeners.append(callback)

    def happens(self, event: SessionEvent) -> None:
        for listener in self._listeners:
            listener(event)

    async def children(self, path: str, watch: object = None) -> list[str]:
        return [f"{path} in session {self.session_id}"]

    async def close(self) -> None:
        self.state = "closed"

    def abandon(self) -> None:
        self.state = "abandoned"


class World:
    """`opened` are the sessions so far; the next attempts to open one fail as `failures` say."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.opened = [Session(1)]
        self.failures: list[Exception] = []
        self.attempts_s: list[float] = []
        first: Any = self.opened[0]
        self.tasks = VirtualTasks(self.clock)
        self.renewed = RenewedSession(first, self._open, self.tasks)
        self.events: list[str] = []
        self.renewed.on_session(self._event)

    async def _open(self) -> Any:
        self.attempts_s.append(self.clock.monotonic_s())
        if self.failures:
            raise self.failures.pop(0)
        self.opened.append(Session(self.opened[-1].session_id + 1))
        return self.opened[-1]

    def _event(self, event: SessionEvent) -> None:
        self.events.append(f"{event.value} ({self.renewed.session_id})")


async def test_requests_go_to_the_present_session() -> None:
    world = World()
    assert await world.renewed.children("/a") == ["/a in session 1"]
    world.opened[0].happens(SessionEvent.SUSPENDED)
    world.opened[0].happens(SessionEvent.CONNECTED)
    world.opened[0].happens(SessionEvent.EXPIRED)
    assert await world.renewed.children("/a") == ["/a in session 1"], "which refuses it"
    await run_until_idle()
    assert await world.renewed.children("/a") == ["/a in session 2"]
    assert (world.renewed.session_id, world.renewed.last_zxid) == (2, 20)
    assert world.events == ["suspended (1)", "connected (1)", "expired (1)", "renewed (2)"]
    world.opened[0].happens(SessionEvent.EXPIRED)
    assert len(world.events) == 4, "it is over already"
    world.opened[1].happens(SessionEvent.EXPIRED)
    await run_until_idle()
    assert world.events[4:] == ["expired (2)", "renewed (3)"]


async def test_it_is_tried_until_the_service_can_be_reached() -> None:
    world = World()
    world.failures = [ConnectFailed("refused", refused=True), ConnectFailed("", refused=False)]
    world.opened[0].happens(SessionEvent.EXPIRED)
    await run_until_idle()
    assert world.events == ["expired (1)"]
    for _ in range(2):
        await world.tasks.advance(1000 * RETRY_S)
    assert world.events == ["expired (1)", "renewed (2)"]
    assert [round(at_s - world.attempts_s[0], 1) for at_s in world.attempts_s] == [0, 1, 2]


async def test_none_is_opened_after_the_end() -> None:
    for state, end in (("closed", RenewedSession.close), ("abandoned", RenewedSession.abandon)):
        world = World()
        world.failures = [ConnectFailed("refused", refused=True)]
        world.opened[0].happens(SessionEvent.EXPIRED)
        await run_until_idle()
        ending = end(world.renewed)
        if asyncio.iscoroutine(ending):
            await ending
        assert world.opened[0].state == state
        await world.tasks.advance(10_000 * RETRY_S)
        assert len(world.opened) == 1
